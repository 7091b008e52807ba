"""SMD on idle nodes: all or nothing, and the menu that softens it."""

from __future__ import annotations

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer, past_of_samples
from freetrain.policies import find_policy
from tests.policies.deciding import decide

CURVE = ((1, 10.0), (2, 18.0), (4, 30.0))


def sizes(
    policy: str, trainers: tuple[Trainer, ...], nodes: int, done: dict[str, float] | None = None
) -> dict[str, int]:
    offers = tuple(Place(f"n{number}") for number in range(nodes))
    problem = Problem(
        0.0,
        offers,
        trainers,
        3600.0,
        past=past_of_samples(done or {}),
    )
    return {trainer: len(names) for trainer, names in decide(find_policy(policy), problem).placement.items()}


def test_each_gets_its_fastest_size_or_nothing() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=5e6) for name in "abc")
    assert sorted(sizes("smd", trainers, 9).values()) == [4, 4]


def test_with_the_menu_the_nodes_that_are_left_are_used() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=5e6) for name in "abc")
    assert sum(sizes("smd,sizes=menu", trainers, 9).values()) == 9


def test_where_fewer_nodes_are_there_the_fastest_is_the_fastest_on_these() -> None:
    assert sizes("smd", (Trainer("a", CURVE, target_samples=5e6),), 3) == {"a": 3}


def test_who_is_complete_soonest_goes_first() -> None:
    trainers = tuple(Trainer(name, CURVE, target_samples=5e6) for name in "ab")
    assert sizes("smd", trainers, 4, {"b": 4e6}) == {"b": 4}
    assert sizes("smd", trainers, 4, {"a": 4e6}) == {"a": 4}


def test_a_size_at_which_more_nodes_are_slower_is_not_taken() -> None:
    assert sizes("smd", (Trainer("a", ((1, 10.0), (2, 18.0), (4, 12.0)), target_samples=5e6),), 4) == {"a": 2}
