"""The site's pause: nothing more is lent; what is lent stays, and gives way as always. It is kept in a file."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, ValidationError

from freetrain.config.sections import State
from freetrain.core import bounds
from freetrain.daemon.state_directory import CHANGE_HINT, READ_HINT, replace_file
from freetrain.errors import StateError

log = logging.getLogger(__name__)

_FILE = "pause.json"


class Pause(BaseModel):
    """Who wants nothing more to be lent, why, and until when, UTC epoch seconds; None: until it is ended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str
    reason: str
    since_s: Annotated[float, bounds.INSTANT.field]
    until_s: Annotated[float, bounds.INSTANT.field] | None = None

    @property
    def sentence(self) -> str:
        """As the end of a sentence."""
        until = "" if self.until_s is None else f"{datetime.fromtimestamp(self.until_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
        return " ".join([f"paused by {self.by}", *([f"until {until}"] if until else []), *self._because])

    @property
    def _because(self) -> list[str]:
        return [f"({self.reason})"] if self.reason else []


def read_pause(directory: Path, now_s: float) -> Pause | None:
    """The pause that counts now; None: there is none.

    Raises:
        StateError: the file cannot be read or understood.
    """
    path = directory / _FILE
    try:
        pause = Pause.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}.", READ_HINT) from error
    except ValidationError as error:
        raise StateError(f"{path} is damaged.", "Remove it, or pause again.") from error
    return None if pause.until_s is not None and pause.until_s <= now_s else pause


def write_pause(directory: Path, pause: Pause | None) -> None:
    """Pause, or end the pause: None.

    Raises:
        StateError: one may not, or there is no such directory.
    """
    path = directory / _FILE
    try:
        if pause is None:
            path.unlink(missing_ok=True)
        else:
            replace_file(path, pause.model_dump_json().encode() + b"\n", 0o644)
    except OSError as error:
        raise StateError(
            f"cannot change {path}: {error.strerror}.",
            CHANGE_HINT,
        ) from error


class PauseReader:
    """The pause as the daemon reads it, look by look; where it cannot be understood, as it was before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._last: Pause | None = None
        self._last_error = ""

    def read(self, now_s: float) -> str:
        """Why nothing more is lent; empty: it is."""
        try:
            found, error = read_pause(self._directory, now_s), ""
        except StateError as failure:
            found, error = self._last, failure.what
        if error and error != self._last_error:
            log.error("whether lending is paused stays as it was: %s", error)
        elif found != self._last:
            log.info("nothing more is lent: %s", found.sentence) if found else log.info("the pause has ended")
        self._last, self._last_error = found, error
        return found.sentence if found else ""


LASTING = "/etc/freetrain/STOP"
"""A restart of the machine empties /run, but not this one's directory."""


def stop_file_there(state: State) -> str:
    """The first stop file that exists; empty: there is none."""
    return next((path for path in (state.stop_file, LASTING) if os.path.exists(path)), "")  # noqa: PTH110 (raises not)
