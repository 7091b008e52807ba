"""The wake file: who appends a byte to it makes the daemon look; for slurmctld, which must wait for nobody."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

WAKE_NAME = "wake"

_MODE = 0o620
_LARGEST_BYTES = 1 << 16


class WakeFile:
    """Whether it was written to. It is made where it is missing; its owner and mode are the site's."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / WAKE_NAME
        self._make()
        self._seen = self._now()

    def has_changed(self) -> bool:
        """Whether somebody has written since the last time."""
        now = self._now()
        changed = now is not None and now != self._seen
        self._seen = now
        if changed and now is not None and now[1] > _LARGEST_BYTES:
            self._empty()
        return changed

    def _now(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _make(self) -> None:
        """Make it, unless it is there, with its mode whatever the umask."""
        with contextlib.suppress(OSError):
            file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0)
            try:
                os.fchmod(file, _MODE)
            finally:
                os.close(file)

    def _empty(self) -> None:
        with contextlib.suppress(OSError):
            os.truncate(self._path, 0)
        self._seen = self._now()
