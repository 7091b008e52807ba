"""Frames: a small JSON header and some integer or float arrays, compressed into one byte string."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freetrain.errors import StateError

Array = NDArray[Any]

VERSION = b"\x01"
# Level 1 is within 2 % of level 6 on run-length encoded planes, at half the time.
LEVEL = 1
_LENGTH_BYTES = 4


def join(header: dict[str, Any], arrays: Sequence[Array]) -> bytes:
    """Compress a header and one-dimensional arrays into a frame."""
    shapes = [[array.dtype.str, len(array)] for array in arrays]
    head = json.dumps([header, shapes], separators=(",", ":")).encode()
    size = len(head).to_bytes(_LENGTH_BYTES, "little")
    return VERSION + zlib.compress(b"".join((size, head, *(array.tobytes() for array in arrays))), LEVEL)


def split(frame: bytes) -> tuple[dict[str, Any], list[Array]]:
    """The header and the arrays of a frame.

    Raises:
        StateError: it is damaged, or of a version that this freetrain does not know.
    """
    if frame[:1] != VERSION:
        raise StateError("A recorded decision is packed in a way that this freetrain does not know.")
    try:
        data = zlib.decompress(frame[1:])
        start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
        header, shapes = json.loads(data[_LENGTH_BYTES:start])
        arrays = []
        for kind, length in shapes:
            arrays.append(np.frombuffer(data, dtype=kind, count=length, offset=start))
            start += arrays[-1].nbytes
    except (zlib.error, ValueError) as error:
        raise StateError(
            f"A recorded decision is damaged: {error}.",
            "Restore the store from a backup, or replay the log again.",
        ) from error
    return header, arrays


def run_lengths(values: Array) -> tuple[Array, Array]:
    """How often each value is repeated, and the value, for each run of equal values."""
    if not len(values):
        return values, values
    starts = np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))
    return np.diff(starts, append=len(values)), values[starts]


def narrow(values: Array) -> Array:
    """The same whole numbers (none below 0) in the smallest type that holds them."""
    return values.astype(np.min_scalar_type(values.max(initial=0)))
