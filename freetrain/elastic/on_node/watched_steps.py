"""How far a script is that does not know freetrain: read from a file that it writes, its log for example."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

LAST_NUMBER = r"(\d+)\D*$"
"""The last whole number of a line."""

_TAIL_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class WatchedSteps:
    """Steps as a file tells them.

    Attributes:
        path: the file.
        pattern: whose first group is the number of steps completed; the last line that has it counts.
    """

    path: Path
    pattern: re.Pattern[str]

    def latest(self) -> int | None:
        """The number of steps completed; None: the file is not there, or does not say."""
        for line in reversed(self._last_lines()):
            found = self.pattern.search(line)
            if found:
                return _whole(found.group(1))
        return None

    def _last_lines(self) -> list[str]:
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
                # What follows the last newline is still being written.
                return stream.read().decode(errors="replace").split("\n")[:-1]
        except OSError:
            return []


def _whole(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
