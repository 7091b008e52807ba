"""The decision problem: the idle nodes and the trainers that want them, at one instant.

Its JSON form, ``freetrain-problem/1``, is described in docs/reference/formats.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from freetrain.core import bounds
from freetrain.core.aim import read_aim
from freetrain.core.classes import Choices, NodeClass, choices_of, first_of_life, group_nodes
from freetrain.core.deadlines import DeadlineRates, deadline_rates_of
from freetrain.core.objectives import find_objective
from freetrain.core.place import Place, Traits
from freetrain.core.terms import Sizes, Terms, read_only, terms_of, with_changes, with_sizes_that_stay
from freetrain.core.trainer import Serving, Trainer, TrainerPast, past_of_samples
from freetrain.errors import InputError

__all__ = ["Counts", "Place", "Problem", "Question", "first_error", "problem_from_json", "problem_to_dict"]

Question = tuple[Sequence[Place], tuple[Trainer, ...]]
"""Nodes, and the trainers that may have them: what is to be decided, without the rules by which."""

Counts = NDArray[np.int64]
"""Nodes of each trainer in each class, shape (trainers, classes)."""

PROBLEM_FORMAT = "freetrain-problem/1"
_MOST_TABLE_CELLS = 5_000_000
"""Trainers times sizes, at most: each table of the solver holds as many numbers."""


def _with_traits_together(node: object) -> object:
    """A node of a file, where its traits stand beside its name, in the form of :class:`Place`."""
    if not isinstance(node, dict):
        return node
    traits = {name: value for name, value in node.items() if name in Traits._fields}
    return {"traits": traits, **{name: value for name, value in node.items() if name not in traits}}


@dataclass(frozen=True)
class Problem:
    """A decision problem: which trainer shall have which idle node.

    Attributes:
        nodes: places that may be lent, lent ones included.
        trainers: trainers that may have them, in order of admission.
        horizon_s: seconds ahead for which value is counted.
        objective: name of what is maximised (see ``freetrain.core.objectives``).
        past: trainer → its past, as far as the policy or a deadline needs to know it; where neither does it is
            empty.
        changes: number of times that a trainer is expected to change its size within the horizon: growing and
            shrinking are charged so often.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    now_s: Annotated[float, Field(alias="now"), bounds.INSTANT.field]
    nodes: Sequence[Annotated[Place, BeforeValidator(_with_traits_together)]]
    trainers: tuple[Trainer, ...]
    horizon_s: Annotated[float, Field(gt=0, le=bounds.SECONDS.most)] = 120.0
    objective: str = "speedup"
    past: Mapping[str, TrainerPast] = field(default_factory=dict)
    serving: Serving = field(default_factory=dict)
    changes: Annotated[float, Field(ge=1, le=bounds.SECONDS.most)] = 1.0

    @cached_property
    def done_samples(self) -> Mapping[str, float]:
        """Trainer → samples that it has done so far; those of which nothing is known are left out."""
        return {trainer: past.done_samples for trainer, past in self.past.items() if past.done_samples}

    @cached_property
    def classes(self) -> tuple[NodeClass, ...]:
        """The nodes by the time they are expected to stay, longest first, and by kind.

        Those already due are left out.
        """
        return group_nodes(self.nodes, self.now_s, self.horizon_s)

    @cached_property
    def first_of_life(self) -> NDArray[np.int64]:
        """For each class the position of the first one that lives as long, shape (classes,)."""
        return read_only(first_of_life(self.classes))

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the nodes in all classes."""
        return frozenset().union(*(names for node_class in self.classes for names in node_class.names.values()))

    @cached_property
    def class_of_node(self) -> Mapping[str, int]:
        """Name of a node → position of its class."""
        return {
            name: position
            for position, node_class in enumerate(self.classes)
            for names in node_class.names.values()
            for name in names
        }

    @cached_property
    def capacity(self) -> NDArray[np.int64]:
        """Nodes in each class, shape (classes,)."""
        return read_only(np.array([node_class.count for node_class in self.classes], dtype=np.int64))

    @cached_property
    def node_count(self) -> int:
        """Nodes in all classes."""
        return int(self.capacity.sum())

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """Trainer → its position."""
        return {trainer.id: row for row, trainer in enumerate(self.trainers)}

    @cached_property
    def held(self) -> Counts:
        """Nodes that each trainer has now, by class."""
        row_of, counts = self.row_of, [[0] * len(self.trainers) for _ in self.classes]
        for column, node_class in zip(counts, self.classes, strict=True):
            for holder, names in node_class.names.items():
                if holder is not None and holder in row_of:
                    column[row_of[holder]] = len(names)
        shape = len(self.classes), len(self.trainers)
        return read_only(np.array(counts, dtype=np.int64).reshape(shape).T.copy())

    @cached_property
    def known_values(self) -> dict[bytes, float]:
        """Allocations that were valued → their worth: both a decision and its verification ask for it."""
        return {}

    @cached_property
    def held_nodes(self) -> Sizes:
        """Nodes that each trainer has now, shape (trainers,)."""
        return read_only(self.held.sum(axis=1))

    @cached_property
    def held_names(self) -> Mapping[str, tuple[str, ...]]:
        """Trainer → the nodes it has now; trainers without a node are left out."""
        if len(self.classes) == 1:
            # The usual case of large replays: one class, whose names need not be gathered.
            (node_class,) = self.classes
            return {holder: tuple(names) for holder, names in node_class.names.items() if holder is not None}
        held: defaultdict[str, list[str]] = defaultdict(list)
        for node_class in self.classes:
            for holder, names in node_class.names.items():
                if holder is not None:
                    held[holder] += names
        return {trainer: tuple(names) for trainer, names in held.items()}

    @cached_property
    def terms(self) -> Terms:
        """The trainers' limits, worth and costs as arrays, on nodes on which they are as fast as they say."""
        rows = range(len(self.trainers))
        return self._hurries.on(self._without_deadlines, rows, np.ones(len(rows)))

    @cached_property
    def choices(self) -> Choices:
        """Choices of the trainers: the kinds of nodes on which each may be, and its worth there."""
        return choices_of(self.trainers, self._without_deadlines, self.classes, self.held, self._hurries)

    @cached_property
    def joins(self) -> NDArray[np.bool_]:
        """Whether each choice may get a new node of each class, and that boots before it leaves."""
        lives_s = np.array([node_class.life_s for node_class in self.classes])
        return read_only(self.choices.may_join & (lives_s > self.choices.terms.boot_s[:, None]))

    @cached_property
    def needed_nodes(self) -> Sizes:
        """Nodes that each trainer's deadline asks for, of its fastest that are there; 0: none."""
        kinds = frozenset(node_class.traits.kind for node_class in self.classes)
        return read_only(self._hurries.needed(kinds, len(self.trainers)))

    @cached_property
    def _without_deadlines(self) -> Terms:
        terms = with_changes(terms_of(self.trainers, self.objective), self.changes)
        return with_sizes_that_stay(terms, self.held_nodes)

    @cached_property
    def _hurries(self) -> DeadlineRates:
        return deadline_rates_of(self.trainers, self.done_samples, self.now_s, read_aim(self.objective).deadlines)


@dataclass(frozen=True)
class _ProblemFile(Problem):
    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal["freetrain-problem/1"] = "freetrain-problem/1"
    # As freetrain wrote it before there was more to know of a trainer's past.
    done_samples: Mapping[str, Annotated[float, bounds.SAMPLES.field]] = field(default_factory=dict)


# Made when they are first needed: that takes 30 ms, and most commands read no problem.
@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def problem_from_json(text: str | bytes) -> Problem:
    """Read a problem.

    Raises:
        InputError: it is not one; the sentence names the field.
    """
    try:
        file: _ProblemFile = _adapter(_ProblemFile).validate_json(text)
    except ValidationError as error:
        raise InputError(f"This problem cannot be solved: {first_error(error)}.") from error
    known: dict[str, Any] = {own.name: getattr(file, own.name) for own in fields(Problem)}
    past = past_of_samples(file.done_samples) | dict(file.past)
    problem = Problem(**known | {"nodes": tuple(file.nodes), "past": past})
    _check_names_and_size(problem)
    find_objective(problem.objective)
    return problem


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """The problem in its JSON form."""
    # Alike nodes make their places when they are asked for: pydantic has to see all of them.
    problem = replace(problem, nodes=tuple(problem.nodes))
    document = {"format": PROBLEM_FORMAT, **_adapter(Problem).dump_python(problem, mode="json", by_alias=True)}
    for name, unsaid in (("past", {}), ("serving", {}), ("changes", 1.0)):
        if document[name] == unsaid:
            del document[name]
    for past in document.get("past", {}).values():
        _leave_out(past, tuple(past))
    for trainer in document["trainers"]:
        _leave_out(trainer, ("servers", "bytes_per_sample", "task"))
    given = {name for node in problem.nodes for name, value in node.traits._asdict().items() if value}
    for node in document["nodes"]:
        traits = zip(Traits._fields, node.pop("traits"), strict=True)
        node |= {name: value for name, value in traits if name in given}
    return document


def _leave_out(document: dict[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if not document[name]:
            del document[name]


def first_error(error: ValidationError) -> str:
    """A clause on the first mistake that pydantic found, with the field's path in front."""
    first = error.errors(include_url=False)[0]
    # In a file the traits of a node stand beside its name.
    parts = (part for part in first["loc"] if part != "traits")
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
    what = first["msg"].removeprefix("Value error, ")
    what = {"Field required": "is missing", "Unexpected keyword argument": "is not a field of it"}.get(what, what)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{path}: {what}{more}" if path else f"{what}{more}"


def _check_names_and_size(problem: Problem) -> None:
    ids = Counter(trainer.id for trainer in problem.trainers)
    names = Counter(node.name for node in problem.nodes)
    for what, counted in (("trainers: the id", ids), ("nodes: the name", names)):
        for name, times in counted.items():
            if times > 1:
                raise InputError(f"This problem cannot be solved: {what} {name!r} occurs {times} times.")
    for position, node in enumerate(problem.nodes):
        if node.holder is not None and node.holder not in ids:
            raise InputError(
                f"This problem cannot be solved: nodes[{position}].held_by: there is no trainer {node.holder!r}."
            )
    largest = max((trainer.most_nodes for trainer in problem.trainers), default=0)
    if len(problem.trainers) * (largest + 1) > _MOST_TABLE_CELLS:
        raise InputError(
            f"This problem cannot be solved: {len(problem.trainers):,} trainers on up to {largest:,} nodes are "
            f"more than {_MOST_TABLE_CELLS:,} sizes to choose from.",
            "Leave the largest sizes out of the throughput, or give a smaller max_nodes.",
        )
