"""Reading a trainer's progress: for the daemon, which comes back for the new lines, and for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from freetrain.elastic.on_disk.progress_line import (
    LONGEST_LINE_BYTES,
    MOST_NODES,
    Rate,
    Rescale,
    WrongLine,
    parse_line,
)

MOST_LINES = 2_000
"""How many lines of a part are read at once."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that was not believed.

    Attributes:
        at_byte: where it begins.
        why: the end of a sentence that begins with *because*.
    """

    at_byte: int
    why: str


@dataclass(frozen=True, slots=True)
class ProgressLog:
    """What some part of the file said.

    Attributes:
        rates: in order of time.
        rescales: in order of time.
        offset_bytes: where to read on.
        rejected: how many lines were not believed.
        first_rejected: the first of them.
    """

    rates: tuple[Rate, ...]
    rescales: tuple[Rescale, ...]
    offset_bytes: int
    rejected: int
    first_rejected: Rejected | None = None


def read_progress(path: Path, offset_bytes: int = 0) -> ProgressLog:
    """All whole lines from the offset on; a line that is being written is left for the next time.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        return read_part(stream, offset_bytes)


def read_part(
    stream: BinaryIO, offset_bytes: int, most_bytes: int | None = None, most_nodes: int = MOST_NODES
) -> ProgressLog:
    """The whole lines from the offset on; of one that is too long, what is there is skipped, and counted once.

    Args:
        stream: the file.
        offset_bytes: where to begin; within the file.
        most_bytes: how much to read, and no more than ``MOST_LINES`` lines then; None: everything. Not less than
            the longest line, or that would be read for ever.
        most_nodes: see :func:`parse_line`.

    Raises:
        OSError: the file cannot be read.
    """
    # The byte before tells whether a line begins here, or a line that was too long goes on.
    at_byte = max(offset_bytes - 1, 0)
    stream.seek(at_byte)
    content = stream.read(-1 if most_bytes is None else most_bytes + 1)
    if offset_bytes:
        end = content.find(b"\n") + 1 or len(content)
        at_byte, content = at_byte + end, content[end:]
    *lines, rest = content.split(b"\n", -1 if most_bytes is None else MOST_LINES)
    parsed: list[tuple[int, Rate | Rescale | WrongLine]] = []
    for line in lines:
        parsed.append((at_byte, parse_line(line, most_nodes)))
        at_byte += len(line) + 1
    if len(rest) > LONGEST_LINE_BYTES and b"\n" not in rest:
        parsed.append((at_byte, parse_line(rest)))
        at_byte += len(rest)
    return _log(parsed, at_byte)


def _log(parsed: list[tuple[int, Rate | Rescale | WrongLine]], offset_bytes: int) -> ProgressLog:
    rejected = [Rejected(at_byte, line.why) for at_byte, line in parsed if isinstance(line, WrongLine)]
    return ProgressLog(
        tuple(line for _, line in parsed if isinstance(line, Rate)),
        tuple(line for _, line in parsed if isinstance(line, Rescale)),
        offset_bytes,
        len(rejected),
        rejected[0] if rejected else None,
    )
