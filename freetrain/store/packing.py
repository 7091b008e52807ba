"""Packing: one problem and its placement in some 1 to 2 kB of compressed JSON.

The nodes and the trainers of a run are numbered once. A problem is then columns over its nodes, ordered by number:
by how much each number is larger than the one before, the position of its end among the different ones, and the
seat of its holder (0: none; 1, 2, …: the problem's trainers in their order). A placement is the seats of the new
owners where those differ from the holders.

What comes back is what went in, but for the order of the nodes: by number, in the problem and within each
trainer's placement. A node or a trainer that has no number is written by name; such nodes come last.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate, pairwise, starmap
from math import inf
from typing import Any

from pydantic import TypeAdapter

from freetrain.core.decision import Placement
from freetrain.core.grouping import grouped
from freetrain.core.place import NO_TRAITS, Place, Traits
from freetrain.core.problem import Problem
from freetrain.core.trainer import Serving, Trainer, TrainerPast
from freetrain.errors import StateError

TRAINER = TypeAdapter(Trainer)
"""Trainers to and from JSON."""
VERSION = b"\x02"
# Level 6 would make it 13 % smaller, in twice the time.
LEVEL = 1

FindTrainers = Callable[[Sequence[int]], Sequence[Trainer]]
"""Function that returns the run's trainers with these numbers, in this order."""


@dataclass(frozen=True, slots=True)
class PackedDecision:
    """A problem and its placement as the store keeps them."""

    problem: bytes
    placement: bytes


class Packer:
    """Packs the decisions of one run."""

    def __init__(self, node_names: Sequence[str]) -> None:
        self._numbers = {name: number for number, name in enumerate(node_names)}

    def pack(
        self,
        problem: Problem,
        placement: Placement,
        trainers: Sequence[int],
        redefined: Sequence[Trainer] = (),
        serving: Serving | None = None,
    ) -> PackedDecision:
        """Pack a problem and its placement, and the nodes that have servers then.

        ``trainers`` are the run's numbers of the problem's trainers, in its order; ``redefined`` are those of them
        that have changed since they got their numbers.
        """
        numbers = self._numbers
        nodes = sorted(problem.nodes, key=lambda node: numbers.get(node.name, inf))
        seats: dict[str | None, int | str] = {None: 0}
        seats.update((trainer.id, seat) for seat, trainer in enumerate(problem.trainers, start=1))
        # A dict, not a set: equal problems are packed into equal bytes.
        ends = {end_s: position for position, end_s in enumerate({node.until_s: 0 for node in nodes})}
        pasts = [problem.past.get(trainer.id) for trainer in problem.trainers]
        document = {
            "horizon_s": problem.horizon_s,
            "objective": problem.objective,
            **({"changes": problem.changes} if problem.changes != 1.0 else {}),
            "trainers": _steps(trainers),
            "redefined": [TRAINER.dump_python(trainer, mode="json", by_alias=True) for trainer in redefined],
            "nodes": _steps([numbers[node.name] for node in nodes if node.name in numbers]),
            "unnumbered": [node.name for node in nodes if node.name not in numbers],
            "ends_s": list(ends),
            "end": [ends[node.until_s] for node in nodes],
            **({"past": [None if past is None else astuple(past) for past in pasts]} if problem.past else {}),
            "holder": [seats.get(node.holder, node.holder) for node in nodes],
            **_serving(problem.serving),
            **_traits(nodes),
        }
        moves = {**self._moves(nodes, placement, seats), **_serving(serving or {})}
        return PackedDecision(compressed(document), compressed(moves))

    def _moves(
        self, nodes: Sequence[Place], placement: Placement, seats: Mapping[str | None, int | str]
    ) -> dict[str, Any]:
        owner = {name: trainer for trainer, names in placement.items() for name in names}
        moved = [
            (position, owner.get(node.name))
            for position, node in enumerate(nodes)
            if owner.get(node.name) != node.holder
        ]
        there = {node.name for node in nodes}
        others = [(seats.get(trainer, trainer), name) for name, trainer in owner.items() if name not in there]
        return {
            "moved": _steps([position for position, _ in moved]),
            "to": [seats.get(trainer, trainer) for _, trainer in moved],
            "others": others,
        }


def unpack(
    packed: PackedDecision, now_s: float, node_names: Sequence[str], find_trainers: FindTrainers
) -> tuple[Problem, Placement]:
    """The problem and the placement that were packed, nodes ordered by number.

    Raises:
        StateError: they are damaged, or of a version that this freetrain does not know.
    """
    document, moves = decompressed(packed.problem), decompressed(packed.placement)
    try:
        redefined = {trainer.id: trainer for trainer in map(TRAINER.validate_python, document["redefined"])}
        found = find_trainers(list(accumulate(document["trainers"])))
        trainers = tuple(redefined.get(trainer.id, trainer) for trainer in found)
        sitting = [None, *(trainer.id for trainer in trainers)]

        def named(seat: int | str) -> str | None:
            return sitting[seat] if isinstance(seat, int) else seat

        names = [*(node_names[number] for number in accumulate(document["nodes"])), *document["unnumbered"]]
        ends_s = [document["ends_s"][position] for position in document["end"]]
        holders = [named(seat) for seat in document["holder"]]
        columns = (document.get(name, [none] * len(names)) for name, none in NO_TRAITS._asdict().items())
        traits = starmap(Traits, zip(*columns, strict=True))
        nodes = tuple(Place(*node) for node in zip(names, ends_s, holders, traits, strict=True))
        past = {
            trainer.id: TrainerPast(*values)
            for trainer, values in zip(trainers, _pasts(document), strict=False)
            if values is not None
        }
        serving = _served(document)
        looks_ahead = document["horizon_s"], document["objective"]
        problem = Problem(now_s, nodes, trainers, *looks_ahead, past, serving, document.get("changes", 1.0))
        owners = dict(zip(names, holders, strict=True))
        positions = accumulate(moves["moved"])
        owners |= {names[at]: named(seat) for at, seat in zip(positions, moves["to"], strict=True)}
        owners |= {name: named(seat) for seat, name in moves["others"]}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(error) from error
    owned = grouped((owner, name) for name, owner in owners.items() if owner is not None)
    return problem, {trainer: tuple(names) for trainer, names in owned.items()}


def unpack_serving(packed: PackedDecision) -> Serving:
    """Nodes that have servers by the decision, by trainer."""
    try:
        return _served(decompressed(packed.placement))
    except (AttributeError, TypeError) as error:
        raise _damaged(error) from error


def compressed(document: Mapping[str, Any]) -> bytes:
    """Bytes of a document, as the store keeps them."""
    return VERSION + zlib.compress(json.dumps(document, separators=(",", ":")).encode(), LEVEL)


def decompressed(kept: bytes) -> dict[str, Any]:
    """Document of bytes that the store kept."""
    if kept[:1] != VERSION:
        raise StateError("A recorded decision is packed in a way that this freetrain does not know.")
    try:
        document: dict[str, Any] = json.loads(zlib.decompress(kept[1:]))
    except (zlib.error, ValueError, RecursionError) as error:
        raise _damaged(error) from error
    return document


def _damaged(error: Exception) -> StateError:
    return StateError(
        f"A recorded decision is damaged: {error}.", "Restore the store from a backup, or replay the log again."
    )


def _pasts(document: Mapping[str, Any]) -> Sequence[Sequence[Any] | None]:
    """The values of each trainer's past; decisions kept by an older freetrain have its samples alone."""
    samples = document.get("done", ())
    return document.get("past") or [None if done is None else (done,) for done in samples]


def _traits(nodes: Sequence[Place]) -> dict[str, Any]:
    """A column for each trait; left out where it says nothing of any node."""
    columns = zip(*(node.traits for node in nodes), strict=True)
    return {name: column for name, column in zip(Traits._fields, columns, strict=False) if any(column)}


def _serving(serving: Serving) -> dict[str, Any]:
    """Entry with the nodes that have servers, by trainer; empty where no trainer uses servers."""
    return {"serving": {trainer: list(nodes) for trainer, nodes in serving.items()}} if serving else {}


def _served(document: Mapping[str, Any]) -> Serving:
    return {trainer: tuple(nodes) for trainer, nodes in document.get("serving", {}).items()}


def _steps(numbers: Sequence[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise([0, *numbers])]
