"""Which kinds of nodes everybody is dealt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.needs import Needs
from freetrain.core.node import Node
from freetrain.core.place import Place
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Request
from freetrain.lending.rooms import Room
from freetrain.lending.sharing.claimants import Tasks
from freetrain.lending.sharing.claims import Claimant, SizeRange
from freetrain.lending.sharing.kinds import keep_to_kinds
from tests.facts import node

A100S = tuple(node(f"a{number}", gres=(("gpu:a100", 8),)) for number in (1, 2))
H100S = tuple(node(f"h{number}", gres=(("gpu:h100", 8),)) for number in (1, 2))
NODES = (*A100S, *H100S)
A, H = ({each.name for each in some} for some in (A100S, H100S))
ANY_GPU, H100 = Needs(gres=(("gpu", 1),)), Needs(gres=(("gpu:h100", 1),))


def request(id_: str, needs: Needs = ANY_GPU, most: int = 9, **facts: object) -> Request:
    trainer = Trainer(id_, ((1, 1.0), (most, float(most))))
    return replace(Request(trainer, f"owner of {id_}", needs=needs), **facts)


def claimant(*requests: Request, nodes: Sequence[Node] = NODES) -> Claimant:
    """Of one owner and with the same needs, as many nodes wanted as the curves say."""
    wants = tuple(SizeRange(request.id, 1, request.trainer.most_nodes) for request in requests)
    eligible = frozenset(each.name for each in nodes if requests[0].needs.met_by(each))
    return Claimant(requests[0].owner, (f"user {requests[0].owner}",), wants, eligible)


def kept(
    *groups: Sequence[Request],
    held: dict[str, str] | None = None,
    decided_with: str | None = None,
    tasks: Tasks | None = None,
    nodes: Sequence[Node] = NODES,
) -> list[set[str]]:
    """The nodes that each group of trainers, of one owner each, may use then."""
    offered = [Place(each.name, None, (held or {}).get(each.name)) for each in nodes]
    claimants = [replace(claimant(*some, nodes=nodes), decided_with=decided_with) for some in groups]
    competing = [request for some in groups for request in some]
    found = keep_to_kinds(claimants, competing, offered, Snapshot(0.0, tuple(nodes), ()), tasks or Tasks())
    return [set(claimant.eligible) for claimant in found]


def test_two_owners_with_a_trainer_each_take_a_kind_each() -> None:
    assert kept([request("1")], [request("2")]) == [A, H]


def test_who_can_use_one_kind_only_is_left_room_there() -> None:
    assert kept([request("1", H100)], [request("2")]) == [H, A]
    assert kept([request("1")], [request("2", H100)], [request("3", H100)]) == [A, H, H]


def test_who_has_nodes_stays_with_their_kind() -> None:
    assert kept([request("1")], [request("2")], held={"h1": "1"}) == [H, A]


def test_as_many_kinds_as_trainers_that_can_use_them() -> None:
    assert kept([request("1"), request("2")], [request("3")])[0] == A | H
    bound = kept([request("1"), request("2")], [request("3")], held={"a1": "1", "a2": "2"})
    assert bound == [A, H]


def test_who_may_mix_kinds_may_use_all_of_them() -> None:
    assert kept([request("1", mixed=True)], [request("2")])[0] == A | H
    filler = request("1")
    filler = replace(filler, trainer=replace(filler.trainer, independent=True))
    assert kept([filler], [request("2")])[0] == A | H
    assert kept([request("1"), request("4", mixed=True)], [request("2"), request("5")], [request("3")])[0] == A | H


def test_who_asks_for_no_gpu_tells_no_nodes_apart() -> None:
    assert kept([request("1", Needs())], [request("2")])[0] == A | H


def test_faster_nodes_are_chosen_before_larger_rooms() -> None:
    few = (*A100S, *H100S[:1])
    told = request("1", speeds=(("h100", 3.0), ("a100", 1.0)))
    assert kept([told], [request("2", Needs())], nodes=few) == [{"h1"}, A | {"h1"}]
    assert kept([request("1")], [request("2", Needs())], nodes=few)[0] == A


def test_who_shares_with_nobody_is_left_its_choice() -> None:
    assert kept([request("1")]) == [A | H]
    assert kept([request("1")], [request("2", H100)], decided_with="alice") == [A | H, H]


def test_what_is_held_stays_usable_whatever_is_chosen() -> None:
    (first, _) = kept([request("1")], [request("2")], held={"a1": "1", "h1": "1"})
    assert {"a1", "h1"} <= first


def test_nodes_in_parts_count_by_what_is_left_of_them() -> None:
    each = Amount(1, 0, (("gpu", 1),))
    whole = [Amount(8, 0, node.gres) for node in NODES]
    little = [
        Amount(1, 0, ((node.gres[0][0], 1),)) if node in A100S else of
        for node, of in zip(NODES, whole, strict=True)
    ]
    nodes = [replace(node, cpus=8, memory_mb=0) for node in NODES]
    rooms = {node.name: Room(left, of, True) for node, left, of in zip(nodes, little, whole, strict=True)}
    tasks = Tasks(rooms=rooms, each={ANY_GPU: each}, capacity={name: room.free for name, room in rooms.items()})
    assert kept([request("1")], [request("2", Needs())], tasks=tasks, nodes=nodes)[0] == H
