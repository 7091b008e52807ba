"""What tells nodes apart for trainers that are decided together."""

from __future__ import annotations

from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.needs import Needs
from freetrain.core.node import Node
from freetrain.core.place import Place
from freetrain.core.problem import Question
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.lending.facts import Request
from freetrain.lending.sharing.kinds import ask_by_kind
from tests.facts import node

NODES = (
    node("a1", features=frozenset({"a100", "ib"}), gres=(("gpu:a100", 4),)),
    node("a2", features=frozenset({"a100"}), gres=(("gpu:a100", 4),)),
    node("v1", features=frozenset({"v100"}), gres=(("gpu:v100", 4),)),
    node("c1"),
)
GPUS = (("gpu", 1),)


def request(id_: str = "7", constraint: str = "", **facts: object) -> Request:
    gpus = facts.pop("gpus", ())
    assert isinstance(gpus, tuple)
    return replace(Request(Trainer(id_, ((1, 1.0), (4, 4.0))), "alice", needs=Needs(constraint, gpus)), **facts)


def usable(request: Request) -> frozenset[str]:
    return frozenset(each.name for each in NODES if request.needs.met_by(each))


def asked(*requests: Request, nodes: tuple[Node, ...] = NODES) -> Question:
    groups = [([request], usable(request)) for request in requests]
    there = frozenset().union(*(names for _, names in groups))
    offered = [Place(each.name) for each in nodes if each.name in there]
    return ask_by_kind(offered, groups, Snapshot(0.0, nodes, ()))


def kinds(question: Question) -> dict[str, str]:
    return {offer.name: offer.traits.kind for offer in question[0]}


def choices(question: Question) -> list[tuple[KindChoice, ...] | None]:
    return [trainer.choices for trainer in question[1]]


def test_where_nobody_tells_nodes_apart_all_are_of_one_kind() -> None:
    alone = asked(request())
    assert set(kinds(alone).values()) == {""}
    assert choices(alone) == [None]
    assert set(kinds(asked(request(gpus=(("gpu:a100", 1),)))).values()) == {""}


def test_who_asks_for_gpus_has_them_of_one_type() -> None:
    found = asked(request(gpus=GPUS))
    assert kinds(found) == {"a1": "a100", "a2": "a100", "v1": "v100"}
    assert choices(found) == [(KindChoice(("a100",)), KindChoice(("v100",)))]


def test_who_names_several_features_has_one_of_them_at_a_time() -> None:
    found = asked(request(constraint="a100|v100"))
    assert choices(found) == [(KindChoice(("a100",)), KindChoice(("v100",)))]


def test_who_says_that_its_nodes_may_differ_has_all_of_them() -> None:
    assert choices(asked(request(gpus=GPUS, mixed=True))) == [(KindChoice(("a100", "v100")),)]
    filler = request(gpus=GPUS)
    filler = replace(filler, trainer=replace(filler.trainer, independent=True))
    assert choices(asked(filler)) == [(KindChoice(("a100", "v100")),)]


def test_what_others_ask_for_takes_nothing_from_who_asks_for_nothing() -> None:
    found = asked(request("7"), request("8", "a100"))
    assert kinds(found) == {"a1": "a100", "a2": "a100", "v1": "other", "c1": "other"}
    assert choices(found) == [(KindChoice(("a100", "other")),), (KindChoice(("a100",)),)]


def test_nodes_that_others_may_not_use_are_another_kind() -> None:
    careful = request("8")
    careful = replace(careful, needs=replace(careful.needs, excluded=frozenset({"c1"})))
    found = asked(request("7"), careful)
    assert kinds(found) == {"a1": "other 2", "a2": "other 2", "v1": "other 2", "c1": "other"}
    assert choices(found) == [(KindChoice(("other", "other 2")),), (KindChoice(("other 2",)),)]


def test_speeds_tell_nodes_apart_and_are_its_own() -> None:
    found = asked(request("7", speeds=(("a100", 2.0), ("v100", 0.5))), request("8", "ib"))
    assert kinds(found) == {"a1": "a100+ib", "a2": "a100", "v1": "v100", "c1": "other"}
    first, second = choices(found)
    assert first is not None
    assert {each.kinds: each.speed for each in first} == {
        ("a100", "a100+ib"): 2.0, ("v100",): 0.5, ("other",): 1.0,
    }  # fmt: skip
    assert second == (KindChoice(("a100+ib",)),)


def test_who_mixes_is_as_fast_as_on_the_slowest() -> None:
    (its,) = choices(asked(request(gpus=GPUS, mixed=True, speeds=(("v100", 0.5),))))
    assert its == (KindChoice(("a100", "v100"), 0.5),)
