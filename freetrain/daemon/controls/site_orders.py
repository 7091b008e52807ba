"""The site's orders, a pause, drains and a stop: what is not lent for a while, kept in files.

A pause lends nothing more; what is lent stays, and gives way as always. A drain empties some nodes and leaves them
alone. Who may write there changes the files, and the daemon reads them at each look; so they outlive the daemon,
and can be changed while it is down.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from freetrain.config.sections import State
from freetrain.core import bounds
from freetrain.core.node import Nodes
from freetrain.daemon.log_output import Problems
from freetrain.daemon.state_directory import CHANGE_HINT, READ_HINT, replace_file
from freetrain.errors import StateError, explained
from freetrain.lending.facts import SiteOrders

log = logging.getLogger(__name__)

_PAUSE, _DRAINS, _HEEDED = "pause.json", "drains.json", "drains.heeded"
_WHETHER_PAUSED, _WHAT_IS_DRAINED = "whether lending is paused", "what is drained"
# A restart of the machine empties /run, where the other stop file is, but not this one's directory.
LASTING = "/etc/freetrain/STOP"
_FileReader = Callable[[str, Callable[[], Any]], Any]
_Model = TypeVar("_Model", bound=BaseModel)


class Pause(BaseModel):
    """Order to lend nothing more: by whom, why, and until when, UTC epoch seconds; None: until it is ended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str
    reason: str
    since_s: Annotated[float, bounds.INSTANT.field]
    until_s: Annotated[float, bounds.INSTANT.field] | None = None

    @property
    def sentence(self) -> str:
        """Pause in words, as the end of a sentence."""
        until = "" if self.until_s is None else _until(self.until_s)
        return " ".join(filter(None, (f"paused by {self.by}", until, self.reason and f"({self.reason})")))


class Drain(BaseModel):
    """Nodes that are emptied together, until a time (UTC epoch seconds) or, None, until somebody ends it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: frozenset[str]
    until_s: Annotated[float, bounds.INSTANT.field] | None

    @property
    def end_s(self) -> float:
        """Time of its end, UTC epoch seconds; inf: somebody has to end it."""
        return math.inf if self.until_s is None else self.until_s


class _DrainsFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: str = "freetrain-drains/1"
    drains: tuple[Drain, ...] = ()


def _until(until_s: float) -> str:
    return f"until {datetime.fromtimestamp(until_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def reasons(drains: Iterable[Drain]) -> Mapping[str, str]:
    """Drained node → a sentence; of several drains the one that ends last."""
    return {
        node: f"drained by the site {'until further notice' if drain.until_s is None else _until(drain.until_s)}"
        for drain in sorted(drains, key=lambda drain: drain.end_s)
        for node in drain.nodes
    }


def without(drains: Iterable[Drain], nodes: Nodes) -> tuple[Drain, ...]:
    """The drains, but for these nodes."""
    left = (drain.model_copy(update={"nodes": drain.nodes - nodes}) for drain in drains)
    return tuple(drain for drain in left if drain.nodes)


def read_pause(directory: Path, now_s: float) -> Pause | None:
    """The pause that counts now; None: there is none.

    Raises:
        StateError: the file cannot be read or understood.
    """
    pause = _read(directory / _PAUSE, Pause, "Remove it, or pause again.")
    return None if pause is None or (pause.until_s is not None and pause.until_s <= now_s) else pause


def read_drains(directory: Path, now_s: float) -> tuple[Drain, ...]:
    """The drains that have not ended.

    Raises:
        StateError: the file cannot be read or understood.
    """
    found = _read(directory / _DRAINS, _DrainsFile, "Remove it, and drain the nodes again.")
    return tuple(drain for drain in found.drains if drain.end_s > now_s) if found else ()


def _read(path: Path, model: type[_Model], remedy: str) -> _Model | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}.", READ_HINT) from error
    except ValidationError as error:
        raise StateError(f"{path} is damaged.", remedy) from error


def write_pause(directory: Path, pause: Pause | None) -> None:
    """Pause, or end the pause: None."""
    path = directory / _PAUSE
    with explained(f"cannot change {path}", CHANGE_HINT, StateError):
        if pause is None:
            path.unlink(missing_ok=True)
        else:
            replace_file(path, pause.model_dump_json().encode() + b"\n", 0o644)


@contextlib.contextmanager
def changing(directory: Path, now_s: float) -> Iterator[list[Drain]]:
    """The drains, to be changed by nobody else meanwhile; they are kept when the block ends well.

    Raises:
        StateError: this account may not, or there is no such directory.
    """
    try:
        # The directory is locked, not the file, which is replaced by each change.
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            drains = list(read_drains(directory, now_s))
            yield drains
            text = _DrainsFile(drains=tuple(drains)).model_dump_json() + "\n"
            replace_file(directory / _DRAINS, text.encode(), 0o644)
        finally:
            os.close(lock)
    except OSError as error:
        raise StateError(
            f"cannot change which nodes are drained: {directory}: {error.strerror}.", CHANGE_HINT
        ) from error


def are_heeded(directory: Path) -> bool:
    """Whether the daemon has ordered all that follows from the drains as they are now."""
    with contextlib.suppress(OSError):
        return (directory / _DRAINS).read_bytes() == (directory / _HEEDED).read_bytes()
    return False


def read_orders(state: State, now_s: float) -> SiteOrders:
    """Orders of the site that count now.

    Raises:
        StateError: one of the files cannot be read or understood.
    """
    return _orders(state, now_s, lambda _what, read: read())


def _orders(state: State, now_s: float, read_file: _FileReader) -> SiteOrders:
    """The orders, each file of them read by ``read_file``, which is given what it says and the function for it."""
    directory, stop_file = Path(state.directory), stop_file_there(state)
    pause = read_file(_WHETHER_PAUSED, lambda: read_pause(directory, now_s))
    drains = read_file(_WHAT_IS_DRAINED, lambda: read_drains(directory, now_s)) or ()
    return SiteOrders(
        stopped=f"stopped by {stop_file}" if stop_file else "",
        paused=pause.sentence if pause else "",
        kept_off={"drained": reasons(drain for drain in drains if drain.end_s > now_s)},
    )


class OrdersReader:
    """The site's orders as the daemon reads them, look by look; where a file is damaged, as it was before.

    When all that follows from the drains has been ordered, the daemon writes the same text beside their file.
    """

    def __init__(self) -> None:
        self._last_read: dict[str, Any] = {}
        self._drains_text: bytes | None = None
        self._problems = Problems()

    def read(self, state: State, now_s: float) -> SiteOrders:
        """Read the orders of the site that count now."""
        # Read first: drains that change in between are then not taken for heeded yet.
        try:
            drains_text = (Path(state.directory) / _DRAINS).read_bytes()
        except OSError:
            drains_text = None
        pause_before = self._last_read.get(_WHETHER_PAUSED)
        orders, pause = _orders(state, now_s, self._read_or_keep), self._last_read.get(_WHETHER_PAUSED)
        self._drains_text = None if self._problems.exists(_WHAT_IS_DRAINED) else drains_text
        if pause != pause_before:
            log.info("nothing more is lent: %s", pause.sentence) if pause else log.info("the pause has ended")
        return orders

    def _read_or_keep(self, what: str, read: Callable[[], Any]) -> Any:
        """Read a file, or keep what was read of it before where it is damaged, which is logged once."""
        problem = ""
        try:
            self._last_read[what] = read()
        except StateError as error:
            problem = error.what
        if self._problems.is_new(what, problem):
            log.error("%s stays as it was: %s", what, problem)
        return self._last_read.get(what)

    def note_heeded(self, state: State) -> None:
        """Note that all that follows from the drains as they were read last has been ordered."""
        path, text = Path(state.directory) / _HEEDED, self._drains_text
        if text is not None and not (path.exists() and path.read_bytes() == text):
            replace_file(path, text, 0o644)


def stop_file_there(state: State) -> str:
    """The first stop file that exists; empty: there is none."""
    return next((path for path in (state.stop_file, LASTING) if os.path.exists(path)), "")  # noqa: PTH110 (raises not)
