"""The trainer's progress, a line of JSON every few seconds: as rank 0 writes it, and as it is read and believed.

A user may write anything into the file: a line that is not understood is refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from freetrain.elastic.on_disk.files import append_line

MAX_LINE_BYTES = 16_384
"""Longest line that is believed, in bytes: far more than the runtime writes."""

MAX_NODES = 100_000
# A line is flat; what is nested thousands deep would exhaust the parser's stack.
_MAX_BRACKETS = 50
_COUNT, _DURATION_S, _PART_S = (0, 10**15), (1e-9, 1e9), (0.0, 1e9)
# The bounds within which each number is believed.
_RANGES: Mapping[str, tuple[float, float]] = {
    "time_s": (0.0, 1e11),
    "generation": _COUNT,
    "world": (1, 10**7),
    "nodes": (1, MAX_NODES),
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
_CAUSE = re.compile(r"[a-z][a-z ]{0,39}")
MAX_LINES = 2_000
"""Lines of a part that are read at once."""


@dataclass(slots=True)
class Tally:
    """Steps of one world, added up."""

    steps: int = 0
    samples: int = 0
    wait_s: float = 0.0  # of them, for data
    exposed_s: float = 0.0  # of them, for sums of gradients
    since_s: float = field(default_factory=time.perf_counter)
    elapsed_s: float = 0.0  # known when they are written down


class ProgressWriter:
    """Adds up what rank 0 sees, at a microsecond per step, and appends a line at most once per ``every_s``."""

    def __init__(self, path: Path, every_s: float = 5.0) -> None:
        self._path = path
        self._every_s = every_s
        self._tally = Tally()

    def start(self) -> None:
        """A world begins: what was added up before belongs to another size."""
        self._tally = Tally()

    def add(self, samples: int, wait_s: float, exposed_s: float) -> None:
        """A step is complete."""
        tally = self._tally
        tally.steps += 1
        tally.samples += samples
        tally.wait_s += wait_s
        tally.exposed_s += exposed_s

    @property
    def due(self) -> bool:
        """Whether it is time for a line."""
        return time.perf_counter() - self._tally.since_s >= self._every_s

    def write_rate(self, **facts: Any) -> None:
        """Append a line on the steps since the last one."""
        tally = self._tally
        if tally.steps:
            tally.elapsed_s = time.perf_counter() - tally.since_s
            self.write_rate_of(tally, **facts)
            self.start()

    def write_rate_of(self, tally: Tally, **facts: Any) -> None:
        """Append a line on these steps."""
        step_s = tally.elapsed_s / tally.steps
        communication_s = tally.exposed_s / tally.steps
        wait_s = tally.wait_s / tally.steps
        self.write_event(
            "rate",
            elapsed_s=tally.elapsed_s,
            steps=tally.steps,
            samples=tally.samples,
            samples_per_s=tally.samples / tally.elapsed_s,
            step_s=step_s,
            compute_s=max(0.0, step_s - communication_s - wait_s),
            communication_s=communication_s,
            data_wait_share=wait_s / step_s,
            **facts,
        )

    def write_event(self, event: str, **facts: Any) -> None:
        """Append a line on something that happened."""
        # A full disk must not end the training.
        with contextlib.suppress(OSError):
            append_line(self._path, {"time_s": time.time(), "event": event, **facts})


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of a world over some seconds."""

    time_s: float  # when it was written, epoch seconds
    generation: int  # which world
    world: int  # its ranks
    nodes: int  # agents: fragments of one node each
    step: int  # the last one completed
    epoch: int  # from 0
    samples_done: int  # since the start of the training
    samples: int  # in these seconds
    elapsed_s: float  # how many seconds
    samples_per_s: float  # samples / elapsed_s
    step_s: float  # mean duration of a step
    compute_s: float  # of it, computing
    communication_s: float  # of it, waiting for sums of gradients that no computing hides
    data_wait_share: float  # part of the step that waited for data
    servers: int = 0  # that added up its gradients; 0: the workers did it themselves
    cpus: int = 0  # that Slurm gave rank 0's task; 0: not known
    memory_mb: int = 0  # that Slurm gave it; 0: not known


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of the world."""

    time_s: float  # when it was over, epoch seconds
    generation: int  # of the new world
    world: int  # its ranks
    nodes: int  # its agents
    cause: str  # start, join, leave, loss or broken
    step: int  # the last one completed
    pause_s: float  # from the end of the last step before to that of the first one after, as rank 0 saw it
    save_s: float | None = None  # in restart mode, from SIGTERM until the old workers had ended
    start_s: float | None = None  # in restart mode, from the start of the new workers to their first step


@dataclass(frozen=True, slots=True)
class LostRun:
    """Work of a frozen task that was not saved when its node was taken back."""

    time_s: float  # when that was noticed, epoch seconds
    elapsed_s: float  # how long the run was whose work is lost
    cause: str  # the save failed, was late or was cut off


ProgressLine: TypeAlias = Rate | Rescale | LostRun
_LINES: Mapping[str, type[ProgressLine]] = {"rate": Rate, "rescale": Rescale, "loss": LostRun}


def parse_line(text: bytes, max_nodes: int = MAX_NODES) -> ProgressLine:
    """The content of a line (any bytes, no newline), if each field is there, of its type and within its bounds.

    Raises ValueError otherwise, with the end of a sentence that begins with *because* and has nothing of the line.
    """
    document = _document(text)
    event = document.get("event")
    if not isinstance(event, str) or event not in _LINES:
        raise ValueError("its event is none of rate, rescale and loss")
    kind = _LINES[event]
    values: dict[str, Any] = {}
    for known in fields(kind):
        if known.name in document:
            kind_of_value = str(known.type).removesuffix(" | None")
            values[known.name] = _believed_value(known.name, kind_of_value, document[known.name])
        elif known.default is MISSING:
            raise ValueError(f"{known.name} is missing")
    if values.get("nodes", 0) > max_nodes:
        raise ValueError(f"nodes is more than the {max_nodes} that there are")
    return kind(**values)


def _document(text: bytes) -> Mapping[str, Any]:
    if len(text) > MAX_LINE_BYTES:
        raise ValueError(f"it is longer than {MAX_LINE_BYTES} bytes")
    if text.count(b"[") + text.count(b"{") > _MAX_BRACKETS:
        raise ValueError("it is nested too deep")
    try:
        # As pairs: of a key that is given twice the last one would count. An array stays a list, and is refused.
        pairs = json.loads(text.decode(), object_pairs_hook=tuple)
    except ValueError as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(pairs, tuple):
        raise ValueError("it is not a JSON object")
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("one of its keys is given twice")
    return document


def _believed_value(name: str, kind: str, value: object) -> float | str:
    """The value, if it is of this kind and within its bounds."""
    if kind == "str":
        if not isinstance(value, str) or not _CAUSE.fullmatch(value):
            raise ValueError("cause is not a short word")
        return value
    # Exact types, as a boolean is an integer to Python.
    if type(value) is float and kind == "float":
        if not math.isfinite(value):
            raise ValueError(f"{name} is not finite")
    elif type(value) is not int:
        raise ValueError(f"{name} is not a number" if kind == "float" else f"{name} is not a whole number")
    minimum, maximum = _RANGES[name]
    if not minimum <= value <= maximum:
        raise ValueError(f"{name} is not between {minimum:,.15g} and {maximum:,.15g}")
    return float(value) if kind == "float" else value


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that was not believed."""

    at_byte: int  # where it begins
    why: str  # the end of a sentence that begins with *because*


@dataclass(frozen=True, slots=True)
class ProgressLog:
    """The lines of some part of the file."""

    rates: tuple[Rate, ...]  # in order of time
    rescales: tuple[Rescale, ...]  # in order of time
    offset_bytes: int  # where to read on
    rejected: int  # number of lines that were not believed
    first_rejected: Rejected | None = None  # the first of them
    losses: tuple[LostRun, ...] = ()  # in order of time


def read_progress(path: Path, offset_bytes: int = 0) -> ProgressLog:
    """All whole lines from the offset on; a line that is being written is left for the next time."""
    with path.open("rb") as stream:
        return read_part(stream, offset_bytes)


def read_part(
    stream: BinaryIO, offset_bytes: int, max_bytes: int | None = None, max_nodes: int = MAX_NODES
) -> ProgressLog:
    """The whole lines from the offset on: all of them, or at most so many bytes and ``MAX_LINES`` lines.

    Of a line that is too long, what is there is skipped, and counted once. ``max_bytes`` has to be more than the
    longest line, or that would be read for ever. Raises OSError if the file cannot be read.
    """
    # The byte before tells whether a line begins here, or a line that was too long goes on.
    at_byte = max(offset_bytes - 1, 0)
    stream.seek(at_byte)
    content = stream.read(-1 if max_bytes is None else max_bytes + 1)
    if offset_bytes:
        end = content.find(b"\n") + 1 or len(content)
        at_byte, content = at_byte + end, content[end:]
    *lines, rest = content.split(b"\n", -1 if max_bytes is None else MAX_LINES)
    parsed: list[ProgressLine | Rejected] = []
    for line in lines:
        parsed.append(_believed(line, at_byte, max_nodes))
        at_byte += len(line) + 1
    if len(rest) > MAX_LINE_BYTES and b"\n" not in rest:
        parsed.append(_believed(rest, at_byte, max_nodes))
        at_byte += len(rest)
    rejected = [line for line in parsed if isinstance(line, Rejected)]
    return ProgressLog(
        tuple(line for line in parsed if isinstance(line, Rate)),
        tuple(line for line in parsed if isinstance(line, Rescale)),
        at_byte,
        len(rejected),
        rejected[0] if rejected else None,
        tuple(line for line in parsed if isinstance(line, LostRun)),
    )


def _believed(line: bytes, at_byte: int, max_nodes: int) -> ProgressLine | Rejected:
    try:
        return parse_line(line, max_nodes)
    except ValueError as error:
        return Rejected(at_byte, str(error))
