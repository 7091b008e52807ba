"""Calls: each rank announces what it is about to do with the others, and knows it of all before any begins."""

from __future__ import annotations

import hashlib
import operator
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from freetrain.elastic.errors import OddOneOutError, OddRankError

PAYLOAD_BYTES = 176
"""Bytes of room for what ranks send beside the call itself."""

_LAYOUT = struct.Struct(f"<32s48sqqq{PAYLOAD_BYTES}s")
_PACKAGE = str(Path(__file__).parents[1])
# "<" begins the names of frozen modules and of code from strings.
_NOT_THE_SCRIPTS = (_PACKAGE, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")


@dataclass(frozen=True, slots=True)
class Call:
    """One rank's part in a collective."""

    what: str  # kind of the collective; the same on all ranks
    where: str = ""  # line of the script that asked for it: train.py:41; shown, and not compared
    digest: int = 0  # of all else that has to be the same: shapes, places in the data
    size: int = 0  # a number that each rank has of its own: bytes to come, for example
    joined: int = 0  # number of the first world that this rank was in
    payload: bytes = b""  # whatever else a rank sends

    def pack(self) -> torch.Tensor:
        """The call as bytes, always as many."""
        # Of a long place its end, where the number of the line is.
        what, where = self.what.encode()[:32], self.where.encode()[-48:]
        packed = _LAYOUT.pack(what, where, self.digest, self.size, self.joined, self.payload)
        # A bytearray: torch warns of memory that cannot be written to.
        return torch.frombuffer(bytearray(packed), dtype=torch.uint8)

    @classmethod
    def unpack(cls, row: torch.Tensor) -> Call:
        """The call that was packed."""
        what, where, digest, size, joined, payload = _LAYOUT.unpack(row.numpy().tobytes())
        return cls(_text(what), _text(where), digest, size, joined, payload)

    def __str__(self) -> str:
        return f"{self.what} at {self.where}" if self.where else self.what


@dataclass(slots=True)
class PendingCalls:
    """A call that is being sent to all ranks, and their calls."""

    number: int  # of the call in its world, from 1
    rank: int  # of this process
    collect: Callable[[], Sequence[torch.Tensor]]  # waits for everybody's rows; may raise LostRankError
    expel: Callable[[int, str], object]  # called with a rank that differs, on the first rank that does not
    _calls: list[Call] | None = None

    def wait(self) -> list[Call]:
        """Calls of all ranks, in order of rank; raises LostRankError, or OddOneOutError if this rank differs."""
        if self._calls is None:
            calls = [Call.unpack(row) for row in self.collect()]
            marks = [(call.what, call.digest) for call in calls]
            self.expel_odd(calls, marks, lambda odd, right: self._difference(calls[odd], calls[right]))
            self._calls = calls
        return self._calls

    def expel_odd(
        self,
        calls: Sequence[Call],
        marks: Sequence[Any],
        difference: Callable[[int, int], str],
        alike: Callable[[Any, Any], bool] = operator.eq,
        ranks: Sequence[int] | None = None,
    ) -> None:
        """End the ranks whose marks differ from those of the ranks that were there before, and only these.

        Marks of all ranks, or of some, are compared; ``difference`` makes a sentence, which begins with "it", of a
        rank that differs and a right one. Raises OddOneOutError if this rank differs, LostRankError if others do.
        """
        compared = range(len(calls)) if ranks is None else ranks
        right, odd = odd_ranks(
            [calls[rank].joined for rank in compared], [marks[rank] for rank in compared], alike
        )
        if not odd:
            return
        reasons = {compared[place]: difference(compared[place], compared[right]) for place in odd}
        if self.rank in reasons:
            is_new = calls[self.rank].joined > min(call.joined for call in calls)
            raise OddOneOutError(f"this worker differs from the others: {reasons[self.rank]}.", is_new=is_new)
        first_right = next(rank for rank in range(len(calls)) if rank not in reasons)
        # One rank alone reports them, and all ranks agree which.
        if self.rank == first_right:
            for rank, reason in reasons.items():
                self.expel(rank, f"it differs from the others: {reason}")
        named = "; ".join(f"rank {rank}: {reason}" for rank, reason in reasons.items())
        first = min(call.joined for call in calls)
        raise OddRankError(
            f"some ranks differ from the others ({named})",
            was_there_first=any(calls[rank].joined == first for rank in reasons),
        )

    def _difference(self, odd: Call, right: Call) -> str:
        if odd.what != right.what:
            return f"in exchange {self.number} of this world it comes to {odd}, and the others to {right}"
        return (
            f"in exchange {self.number} of this world, {odd}, it is at another place of the data, or sums other "
            "parameters, than the others"
        )


def odd_ranks(
    joined: Sequence[int], marks: Sequence[Any], alike: Callable[[Any, Any], bool]
) -> tuple[int, list[int]]:
    """The place of a rank that is right, and the places of those that differ from it.

    Right is the mark of most of the ranks that have been there longest; on a tie the mark of most ranks of all;
    otherwise that of the first rank.
    """
    # Nearly always: n comparisons in place of n².
    if all(alike(marks[0], mark) for mark in marks):
        return 0, []
    ranks, oldest = range(len(marks)), min(joined)
    with_me = [[other for other in ranks if alike(marks[rank], marks[other])] for rank in ranks]

    def weight(rank: int) -> tuple[int, int, int]:
        old = sum(joined[other] == oldest for other in with_me[rank]) if joined[rank] == oldest else 0
        return old, len(with_me[rank]), -rank

    right = max(ranks, key=weight)
    return right, [rank for rank in ranks if rank not in with_me[right]]


def line_of_script() -> str:
    """File and line of the script's frame that called the runtime."""
    # Not inspect or traceback, which read source files: this is asked in every step.
    frame: FrameType | None = sys._getframe(1)
    innermost = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if _is_scripts(name):
            return f"{name.rpartition('/')[2]}:{frame.f_lineno}"
        if not innermost and not name.startswith(_PACKAGE):
            innermost = f"{name.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return innermost


@lru_cache(maxsize=1024)
def _is_scripts(file: str) -> bool:
    return not file.startswith(_NOT_THE_SCRIPTS)


def _text(packed: bytes) -> str:
    return packed.rstrip(b"\0").decode(errors="replace")


def digest_of(*facts: object) -> int:
    """A number that is the same in all processes for the same facts: numbers, strings and tuples of them."""
    # Seven bytes: the number travels as a signed 64-bit integer.
    return int.from_bytes(hashlib.blake2b(repr(facts).encode(), digest_size=7).digest(), "big")
