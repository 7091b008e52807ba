"""The decision problem: the idle nodes and the trainers that want them, at one instant.

Its JSON form, ``freetrain-problem/1``, is described in docs/formats.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from freetrain.core.objectives import find_objective
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError

PROBLEM_FORMAT = "freetrain-problem/1"


@dataclass(frozen=True, slots=True)
class Node:
    """An idle node that freetrain may lend, or lends already.

    Attributes:
        name: Slurm's name of it.
        free_until_s: when it is expected to be taken back, UTC epoch seconds; None: not within the horizon.
        held_by: trainer that has it now; None: nobody.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    free_until_s: Annotated[float | None, Field(alias="free_until", allow_inf_nan=False)] = None
    held_by: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Who shall have which idle node?

    Attributes:
        now_s: the instant, UTC epoch seconds.
        nodes: what there is to lend, lent nodes included.
        trainers: who may have it, in order of admission.
        horizon_s: how far ahead value is counted.
        objective: name of what is maximised (see ``freetrain.core.objectives``).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    now_s: Annotated[float, Field(alias="now", allow_inf_nan=False)]
    nodes: tuple[Node, ...]
    trainers: tuple[Trainer, ...]
    horizon_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120.0
    objective: str = "speedup"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What in the trainers is not as its owner may think."""
        cut = tuple(
            f"trainer {trainer.id}: max_nodes {trainer.max_nodes} lies past the last throughput point and is cut "
            f"to {trainer.most_nodes}"
            for trainer in self.trainers
            if trainer.max_nodes is not None and trainer.max_nodes > trainer.most_nodes
        )
        stuck = tuple(
            f"trainer {trainer.id}: min_nodes {trainer.min_nodes} lies past the last throughput point "
            f"({trainer.most_nodes} nodes), so it never gets a node"
            for trainer in self.trainers
            if not trainer.can_run
        )
        return cut + stuck


@dataclass(frozen=True, slots=True)
class _ProblemFile(Problem):
    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal["freetrain-problem/1"] = "freetrain-problem/1"


_FILE = TypeAdapter(_ProblemFile)
_PROBLEM = TypeAdapter(Problem)


def problem_from_json(text: str | bytes) -> Problem:
    """Read a problem.

    Raises:
        InputError: it is not one; the sentence names the field.
    """
    try:
        file = _FILE.validate_json(text)
    except ValidationError as error:
        raise InputError(f"This is no problem that can be solved: {first_complaint(error)}.") from error
    problem = Problem(file.now_s, file.nodes, file.trainers, file.horizon_s, file.objective)
    _check_names(problem)
    find_objective(problem.objective)
    return problem


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """The problem in its JSON form."""
    return {"format": PROBLEM_FORMAT, **_PROBLEM.dump_python(problem, mode="json", by_alias=True)}


def first_complaint(error: ValidationError) -> str:
    """One clause on the first thing pydantic found wrong, led by the field's path."""
    first = error.errors(include_url=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    said = first["msg"].removeprefix("Value error, ")
    said = {"Field required": "is missing", "Unexpected keyword argument": "is no field of it"}.get(said, said)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{path}: {said}{more}" if path else f"{said}{more}"


def _check_names(problem: Problem) -> None:
    ids = Counter(trainer.id for trainer in problem.trainers)
    names = Counter(node.name for node in problem.nodes)
    for what, counted in (("trainers: the id", ids), ("nodes: the name", names)):
        for name, times in counted.items():
            if times > 1:
                raise InputError(f"This is no problem that can be solved: {what} {name!r} occurs {times} times.")
    for position, node in enumerate(problem.nodes):
        if node.held_by is not None and node.held_by not in ids:
            raise InputError(
                f"This is no problem that can be solved: nodes[{position}].held_by: "
                f"there is no trainer {node.held_by!r}."
            )
