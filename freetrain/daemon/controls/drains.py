"""Drains: nodes that freetrain empties for an admin, and leaves alone until a time or until the drain is ended.

They are kept in a file in the daemon's state directory. Anybody who may write there changes it, and the daemon
reads it at each look; so drains outlive the daemon, and can be set while it is down. When all that follows from
them has been ordered, the daemon writes the same text beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, ValidationError

from freetrain.core import bounds
from freetrain.core.node import Nodes
from freetrain.daemon.state_directory import CHANGE_HINT, READ_HINT, replace_file
from freetrain.errors import StateError

log = logging.getLogger(__name__)

_FILE, _HEEDED = "drains.json", "drains.heeded"


class Drain(BaseModel):
    """Nodes that are emptied together, until a time (UTC epoch seconds) or, None, until somebody ends it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: frozenset[str]
    until_s: Annotated[float, bounds.INSTANT.field] | None

    @property
    def end_s(self) -> float:
        """When it ends, inf included."""
        return math.inf if self.until_s is None else self.until_s


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: str = "freetrain-drains/1"
    drains: tuple[Drain, ...] = ()


def reasons(drains: Iterable[Drain]) -> Mapping[str, str]:
    """Drained node → a sentence; of several drains the one that ends last."""
    in_order = sorted(drains, key=lambda drain: drain.end_s)
    return {node: f"drained by the site {_until(drain.until_s)}" for drain in in_order for node in drain.nodes}


def without(drains: Iterable[Drain], nodes: Nodes) -> tuple[Drain, ...]:
    """The drains, but for these nodes."""
    left = (drain.model_copy(update={"nodes": drain.nodes - nodes}) for drain in drains)
    return tuple(drain for drain in left if drain.nodes)


def read_drains(directory: Path, now_s: float) -> tuple[Drain, ...]:
    """The drains that have not ended.

    Raises:
        StateError: the file cannot be read.
    """
    path = directory / _FILE
    try:
        found = _File.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}.", READ_HINT) from error
    except ValidationError as error:
        raise StateError(f"{path} is damaged.", "Remove it, and drain the nodes again.") from error
    return tuple(drain for drain in found.drains if drain.end_s > now_s)


@contextlib.contextmanager
def changing(directory: Path, now_s: float) -> Iterator[list[Drain]]:
    """The drains, to be changed by nobody else meanwhile; they are kept when the block ends well.

    Raises:
        StateError: one may not, or there is no such directory.
    """
    try:
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            drains = list(read_drains(directory, now_s))
            yield drains
            text = _File(drains=tuple(drains)).model_dump_json() + "\n"
            replace_file(directory / _FILE, text.encode(), 0o644)
        finally:
            os.close(lock)
    except OSError as error:
        raise StateError(
            f"cannot change which nodes are drained: {directory}: {error.strerror}.",
            CHANGE_HINT,
        ) from error


def are_heeded(directory: Path) -> bool:
    """Whether the daemon has ordered all that follows from the drains as they are now."""
    with contextlib.suppress(OSError):
        return (directory / _FILE).read_bytes() == (directory / _HEEDED).read_bytes()
    return False


class DrainsReader:
    """The drains as the daemon reads them, look by look."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._text: bytes | None = None
        self._last: tuple[Drain, ...] = ()
        self._last_error = ""

    def read(self, now_s: float) -> Mapping[str, str]:
        """Drained node → why; where the file cannot be understood, as it was before."""
        try:
            self._text = self._read_text()
            self._last = read_drains(self._directory, now_s)
            self._last_error = ""
        except (StateError, OSError) as error:
            self._text = None
            if self._last_error != str(error):
                self._last_error = str(error)
                log.error("what is drained stays as it was: %s", error)
        return reasons(drain for drain in self._last if drain.end_s > now_s)

    def note_heeded(self) -> None:
        """All that follows from what was read last has been ordered."""
        path = self._directory / _HEEDED
        if self._text is not None and not (path.exists() and path.read_bytes() == self._text):
            replace_file(path, self._text, 0o644)

    def _read_text(self) -> bytes | None:
        path = self._directory / _FILE
        return path.read_bytes() if path.exists() else None


def _until(until_s: float | None) -> str:
    if until_s is None:
        return "until further notice"
    return f"until {datetime.fromtimestamp(until_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
