from __future__ import annotations

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.policies.finishers import AsAsked, SynergyTune


def part(place: str, waits: float, cpus: int = 4, gpus: int = 1) -> NewPart:
    return NewPart(place, Amount(cpus, 8000, (("gpu", gpus),) if gpus else ()), waits)


def shared(*parts: NewPart, spare: int = 16, free_gpus: int = 0, threads: int = 1) -> SharedNode:
    """All free GPUs are those of the new parts, unless more are given."""
    gpus = free_gpus or sum(each.asks.gpus for each in parts)
    return SharedNode("n1", Amount(spare, 64000), gpus, threads, parts)


def cpus(node: SharedNode) -> dict[str, int]:
    return {place: amount.cpus for place, amount in SynergyTune().finish(node).items()}


def test_who_waits_for_data_half_the_time_gets_twice_the_cpus() -> None:
    assert cpus(shared(part("a", 0.5), part("b", 0.0))) == {"a": 8}


def test_who_hardly_waits_gets_what_it_asks_for() -> None:
    assert cpus(shared(part("a", 0.04))) == {}


def test_what_belongs_to_gpus_that_nobody_has_stays_with_them() -> None:
    assert cpus(shared(part("a", 0.75), spare=16, free_gpus=4)) == {"a": 8}
    assert cpus(shared(part("a", 0.75), spare=16, free_gpus=1)) == {"a": 16}


def test_where_there_is_too_little_for_all_nobody_is_below_its_share() -> None:
    assert cpus(shared(part("a", 0.9), part("b", 0.5), spare=8)) == {"a": 8, "b": 8}


def test_what_one_does_not_need_of_its_share_another_has() -> None:
    assert cpus(shared(part("a", 0.75), part("b", 0.0), spare=12)) == {"a": 16}


def test_whole_cores_are_given() -> None:
    assert cpus(shared(part("a", 0.9), spare=5, threads=2)) == {"a": 8}


@pytest.mark.parametrize("node", [shared(part("a", 0.5, gpus=0)), shared(part("a", 0.5), spare=0)])
def test_without_gpus_or_without_cpus_there_is_nothing_to_decide(node: SharedNode) -> None:
    assert cpus(node) == {}


def test_memory_and_gpus_stay_what_was_asked_for() -> None:
    (given,) = SynergyTune().finish(shared(part("a", 0.5, gpus=2))).values()
    assert (given.memory_mb, given.gpus, given.cpus) == (8000, 2, 8)


def test_without_a_finisher_all_get_what_they_ask_for() -> None:
    assert AsAsked().finish(shared(part("a", 0.9))) == {}
