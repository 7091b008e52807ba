from __future__ import annotations

import random

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.guest.guest import Guest
from freetrain.policies import Finisher, find_finisher, finishers
from freetrain.policies.finishers import AsAsked
from freetrain.policies.programme import ProgrammeGuest
from freetrain.policies.synergy.opt import split_optimally


@pytest.fixture(params=["synergy-tune", "synergy-opt"])
def finisher(request: pytest.FixtureRequest) -> Finisher:
    """Both, where they are to agree."""
    return find_finisher(request.param)


def part(place: str, waits: float, cpus: int = 4, gpus: int = 1, cache_mb: int = 0) -> NewPart:
    return NewPart(place, place, Amount(cpus, 8000, (("gpu", gpus),) if gpus else ()), waits, cache_mb)


def shared(
    *parts: NewPart, spare: int = 16, spare_mb: int = 64000, free_gpus: int = 0, threads: int = 1
) -> SharedNode:
    """All free GPUs are those of the new parts, unless more are given."""
    gpus = free_gpus or sum(each.asks.gpus for each in parts)
    return SharedNode("n1", Amount(spare, spare_mb), gpus, threads, parts)


def cpus(finisher: Finisher, *parts: NewPart, **node: int) -> dict[str, int]:
    return {place: amount.cpus for place, amount in finisher.finish(shared(*parts, **node)).items()}


def memory_mb(finisher: Finisher, *parts: NewPart, **node: int) -> dict[str, int]:
    return {place: amount.memory_mb for place, amount in finisher.finish(shared(*parts, **node)).items()}


def test_who_waits_for_data_half_the_time_gets_twice_the_cpus(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.5), part("b", 0.0)) == {"a": 8}


def test_who_hardly_waits_gets_what_it_asks_for(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.04)) == {}


def test_what_belongs_to_gpus_that_nobody_has_stays_with_them(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.75), spare=16, free_gpus=4) == {"a": 8}
    assert cpus(finisher, part("a", 0.75), spare=16, free_gpus=1) == {"a": 16}


def test_where_there_is_too_little_for_all_nobody_is_below_its_share(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.9), part("b", 0.5), spare=8) == {"a": 8, "b": 8}


def test_what_one_does_not_need_of_its_share_another_has(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.75), part("b", 0.0), spare=12) == {"a": 16}


def test_whole_cores_are_given(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.9), spare=5, threads=2) == {"a": 8}


@pytest.mark.parametrize("node", [shared(part("a", 0.5, gpus=0)), shared(part("a", 0.5), spare=0)])
def test_without_gpus_or_without_cpus_there_is_nothing_to_decide(finisher: Finisher, node: SharedNode) -> None:
    assert finisher.finish(node) == {}


def test_memory_and_gpus_stay_what_was_asked_for(finisher: Finisher) -> None:
    (given,) = finisher.finish(shared(part("a", 0.5, gpus=2))).values()
    assert (given.memory_mb, given.gpus, given.cpus) == (8000, 2, 8)


def test_who_has_a_cache_gets_the_memory_for_all_of_its_data_and_no_more_cpus(finisher: Finisher) -> None:
    assert memory_mb(finisher, part("a", 0.5, cache_mb=30_000)) == {"a": 38_000}
    assert cpus(finisher, part("a", 0.5, cache_mb=30_000)) == {"a": 4}


def test_where_the_data_do_not_fit_into_its_share_memory_would_bring_nothing(finisher: Finisher) -> None:
    assert memory_mb(finisher, part("a", 0.5, cache_mb=30_000), spare_mb=29_999) == {}
    assert memory_mb(finisher, part("a", 0.5, cache_mb=30_000), spare_mb=32_000, free_gpus=2) == {}


def test_a_cache_of_who_does_not_wait_is_not_filled(finisher: Finisher) -> None:
    assert memory_mb(finisher, part("a", 0.0, cache_mb=30_000), part("b", 0.5, cache_mb=30_000)) == {"b": 38_000}


def test_cpus_go_to_who_reads_with_them_and_memory_to_who_reads_from_it(finisher: Finisher) -> None:
    parts = (part("a", 0.5), part("b", 0.5, cache_mb=50_000))
    assert cpus(finisher, *parts) == {"a": 8, "b": 4}
    assert memory_mb(finisher, *parts) == {"a": 8000, "b": 58_000}


def drawn(seed: int) -> SharedNode:
    draw = random.Random(seed)
    parts = tuple(
        part(
            f"p{number}",
            draw.choice([0.0, draw.uniform(0, 1)]),
            draw.randint(1, 8),
            draw.choice([0, 1, 1, 2]),
            draw.choice([0, draw.randint(1, 60_000)]),
        )
        for number in range(draw.randint(1, 6))
    )
    gpus = sum(one.asks.gpus for one in parts) + draw.randint(0, 3)
    return SharedNode("n1", Amount(draw.randint(0, 24), draw.randint(0, 100_000)), gpus, 1, parts)


@pytest.mark.parametrize("name", ["synergy-tune", "synergy-opt"])
def test_whatever_is_on_a_node_nobody_gets_less_and_all_together_no_more_than_there_is(name: str) -> None:
    for seed in range(100):
        node = drawn(seed)
        asked = {one.place: one.asks for one in node.parts}
        given = find_finisher(name).finish(node)
        assert given == find_finisher(name).finish(node), seed
        more = [
            (each.cpus - asked[place].cpus, each.memory_mb - asked[place].memory_mb)
            for place, each in given.items()
        ]
        assert all(cpus >= 0 and mb >= 0 and cpus + mb > 0 for cpus, mb in more), seed
        assert sum(cpus for cpus, _ in more) <= node.spare.cpus, seed
        assert sum(mb for _, mb in more) <= node.spare.memory_mb, seed
        assert all(each.gres == asked[place].gres for place, each in given.items())


def test_the_optimum_lets_one_cache_all_rather_than_nobody() -> None:
    """Of two whose data fill all memory TUNE, which keeps each one's share for it, serves none, and OPT one."""
    two = shared(part("a", 0.5, cache_mb=60_000), part("b", 0.5, cache_mb=60_000))
    assert find_finisher("synergy-tune").finish(two) == {}
    assert len(find_finisher("synergy-opt").finish(two)) == 1


def test_where_highs_fails_the_optimum_is_tunes(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ProgrammeGuest(Guest(), "nowhere:solve")
    monkeypatch.setattr(
        finishers, "split_optimally", lambda server, jobs, time_s: split_optimally(server, jobs, time_s, broken)
    )
    node = shared(part("a", 0.75), part("b", 0.0), spare=12)
    assert find_finisher("synergy-opt").finish(node) == find_finisher("synergy-tune").finish(node)
    assert {place: amount.cpus for place, amount in find_finisher("synergy-opt").finish(node).items()} == {"a": 16}


def test_without_a_finisher_all_get_what_they_ask_for() -> None:
    assert AsAsked().finish(shared(part("a", 0.9))) == {}
