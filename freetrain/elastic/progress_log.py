"""Reading a trainer's progress: for the daemon, which comes back for the new lines, and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

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
        pause_s: from the end of the old world's last step to the new world's first, as rank 0 saw it.
    """

    time_s: float
    generation: int
    world: int
    nodes: int
    cause: str
    step: int
    pause_s: float


@dataclass(frozen=True, slots=True)
class ProgressLog:
    """What some part of the file said.

    Attributes:
        rates: in order of time.
        rescales: in order of time.
        offset_bytes: where to read on.
        rejected: lines that could not be understood.
    """

    rates: tuple[Rate, ...]
    rescales: tuple[Rescale, ...]
    offset_bytes: int
    rejected: int


def read_progress(path: Path, offset_bytes: int = 0, most_bytes: int = -1) -> ProgressLog:
    """All whole lines from the offset on; a line that is being written is left for the next time.

    Args:
        path: the file.
        offset_bytes: where to begin.
        most_bytes: how much to read at once; -1: all.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        stream.seek(offset_bytes)
        content = stream.read(most_bytes)
    whole, newline, _ = content.rpartition(b"\n")
    rates, rescales, rejected = [], [], 0
    for text in whole.splitlines():
        document = _document(text)
        match document.get("event"):
            case "rate" if (rate := _line(Rate, document)) is not None:
                rates.append(rate)
            case "rescale" if (rescale := _line(Rescale, document)) is not None:
                rescales.append(rescale)
            case _:
                rejected += 1
    return ProgressLog(tuple(rates), tuple(rescales), offset_bytes + len(whole) + len(newline), rejected)


def _document(text: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _line(kind: type[Line], document: Mapping[str, Any]) -> Line | None:
    """The line, if each field is there and of its type; the file is the user's and may hold anything."""
    known = {"float": (int, float), "int": (int,), "str": (str,)}
    values = {field.name: document.get(field.name) for field in fields(kind)}
    fit = all(
        isinstance(values[field.name], known[str(field.type)]) and not isinstance(values[field.name], bool)
        for field in fields(kind)
    )
    return kind(**values) if fit else None  # type: ignore[arg-type]
