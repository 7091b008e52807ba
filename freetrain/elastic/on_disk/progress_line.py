"""A line of a trainer's progress. A user may write anything there: what is not understood is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

LONGEST_LINE_BYTES = 16_384
"""Far more than the runtime writes."""

MOST_NODES = 100_000

_MOST_BRACKETS = 50
"""A line is flat; what is nested thousands deep would exhaust the parser's stack."""

_COUNT, _DURATION_S, _PART_S = (0, 10**15), (1e-9, 1e9), (0.0, 1e9)
_RANGES: Mapping[str, tuple[float, float]] = {
    "time_s": (0.0, 1e11),
    "generation": _COUNT,
    "world": (1, 10**7),
    "nodes": (1, MOST_NODES),
    "servers": (0, 10**7),
    "step": _COUNT,
    "epoch": _COUNT,
    "samples_done": _COUNT,
    "samples": _COUNT,
    "elapsed_s": _DURATION_S,
    "samples_per_s": (1e-9, 1e12),
    "step_s": _DURATION_S,
    "compute_s": _PART_S,
    "communication_s": _PART_S,
    "data_wait_share": (0.0, 1e3),
    "cpus": (0, 10**6),
    "memory_mb": _COUNT,
    "pause_s": _PART_S,
    "save_s": _PART_S,
    "start_s": _PART_S,
}
"""The least and the most that is believed of each number."""

_CAUSE = re.compile(r"[a-z][a-z ]{0,39}")

Line = TypeVar("Line", bound="Rate | Rescale")


@dataclass(frozen=True, slots=True)
class Rate:
    """What a world did for some seconds.

    Attributes:
        time_s: when it was written, epoch seconds.
        generation: which world.
        world: its ranks.
        nodes: its agents: fragments of one node each.
        step: the last one completed.
        epoch: from 0.
        samples_done: since the start of the training.
        samples: in these seconds.
        elapsed_s: how many seconds.
        samples_per_s: samples / elapsed_s.
        step_s: mean duration of a step.
        compute_s: of it, computing.
        communication_s: of it, waiting for the sum of the gradients where no computing hides it.
        data_wait_share: part of the step that waited for data.
        servers: that added up its gradients; 0: the workers did it themselves.
        cpus: that Slurm gave rank 0's task; 0: not known.
        memory_mb: likewise.
    """

    time_s: float
    generation: int
    world: int
    nodes: int
    step: int
    epoch: int
    samples_done: int
    samples: int
    elapsed_s: float
    samples_per_s: float
    step_s: float
    compute_s: float
    communication_s: float
    data_wait_share: float
    servers: int = 0
    cpus: int = 0
    memory_mb: int = 0


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of the world.

    Attributes:
        time_s: when it was over, epoch seconds.
        generation: of the new world.
        world: its ranks.
        nodes: its agents.
        cause: start, join, leave, loss or broken.
        step: the last one completed.
        pause_s: from the end of the old world's last step to that of the new world's first, as rank 0 saw it.
        save_s: of it, in restart mode, from SIGTERM until the old workers had ended; None: not known.
        start_s: from the start of the new workers to their first step, where steps are watched; None: not known.
    """

    time_s: float
    generation: int
    world: int
    nodes: int
    cause: str
    step: int
    pause_s: float
    save_s: float | None = None
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class WrongLine:
    """A line that is not believed.

    Attributes:
        why: the end of a sentence that begins with *because*; nothing of the line stands in it.
    """

    why: str


def parse_line(text: bytes, most_nodes: int = MOST_NODES) -> Rate | Rescale | WrongLine:
    """What a line says, if each of its fields is there, of its type and within its bounds.

    Args:
        text: without the newline; any bytes.
        most_nodes: no training can have had more.
    """
    try:
        document = _document(text)
        match document.get("event"):
            case "rate":
                return _line(Rate, document, most_nodes)
            case "rescale":
                return _line(Rescale, document, most_nodes)
        return WrongLine("its event is neither rate nor rescale")
    except ValueError as error:
        return WrongLine(str(error))


def _document(text: bytes) -> Mapping[str, Any]:
    if len(text) > LONGEST_LINE_BYTES:
        raise ValueError(f"it is longer than {LONGEST_LINE_BYTES} bytes")
    if text.count(b"[") + text.count(b"{") > _MOST_BRACKETS:
        raise ValueError("it is nested too deep")
    try:
        pairs = json.loads(text.decode(), object_pairs_hook=tuple)
    except ValueError as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(pairs, tuple):
        raise ValueError("it is not a JSON object")
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("one of its keys is given twice")
    return document


def _line(kind: type[Line], document: Mapping[str, Any], most_nodes: int) -> Line:
    values: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in document and field.default is MISSING:
            raise ValueError(f"{field.name} is missing")
        if field.name in document:
            values[field.name] = _value(field.name, str(field.type).removesuffix(" | None"), document[field.name])
    if values["nodes"] > most_nodes:
        raise ValueError(f"nodes is more than the {most_nodes} that there are")
    return kind(**values)


def _value(name: str, kind: str, value: object) -> float | str:
    return _cause(value) if kind == "str" else _number(name, kind, value)


def _cause(value: object) -> str:
    if not isinstance(value, str) or not _CAUSE.fullmatch(value):
        raise ValueError("cause is not a short word")
    return value


def _number(name: str, kind: str, value: object) -> float:
    """The number; exact types, for a boolean is an integer to Python."""
    if type(value) is float and kind == "float":
        if not math.isfinite(value):
            raise ValueError(f"{name} is not finite")
    elif type(value) is not int:
        raise ValueError(f"{name} is not a number" if kind == "float" else f"{name} is not a whole number")
    least, most = _RANGES[name]
    if not least <= value <= most:
        raise ValueError(f"{name} is not between {least:,.15g} and {most:,.15g}")
    return float(value) if kind == "float" else value
