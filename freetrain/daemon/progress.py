"""What trainers say of themselves, read from their directories beside the loop: file systems may hang."""

from __future__ import annotations

import pwd
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from freetrain.core.throughput_fit import Observation
from freetrain.elastic.progress_log import ProgressLog, read_progress

_MOST_BYTES = 4_000_000
_PROGRESS, _FINISHED = "progress.jsonl", "finished.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What a trainer's directory says.

    Attributes:
        finished: whether the training is complete; None: there is no progress that could be read.
        samples_done: since the start of the training; 0: unknown.
        observations: what was seen since the last report.
        offset_bytes: how far the progress has been read.
    """

    finished: bool | None
    samples_done: float
    observations: tuple[Observation, ...]
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look.

    Attributes:
        directory: the trainer's.
        owner: whose files these must be.
        offset_bytes: how far the progress was read before.
    """

    directory: str
    owner: str
    offset_bytes: int


class ProgressReader:
    """Reads all trainers' progress when called, and hands out what it found to whoever asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: Mapping[str, Place] = {}
        self._reports: dict[str, Report] = {}

    def look_at(self, places: Mapping[str, Place]) -> None:
        """From now on read these trainers' directories."""
        with self._lock:
            self._places = places

    def read(self) -> bool:
        """Read them all; whether a training has been completed since."""
        with self._lock:
            places, before = self._places, self._reports
        reports = {trainer: read_report(place) for trainer, place in places.items()}
        with self._lock:
            self._reports = reports
        return any(
            report.finished and not (trainer in before and before[trainer].finished)
            for trainer, report in reports.items()
        )

    def reports(self) -> Mapping[str, Report]:
        """What was read last."""
        with self._lock:
            return self._reports


def read_report(place: Place) -> Report:
    """What a directory says; nothing is believed that is not its owner's own plain file."""
    directory = Path(place.directory)
    nothing = Report(None, 0.0, (), place.offset_bytes)
    try:
        if not _is_owners(directory / _PROGRESS, place.owner):
            return nothing
        found = read_progress(directory / _PROGRESS, place.offset_bytes, _MOST_BYTES)
    except OSError:
        return nothing
    finished = _is_owners(directory / _FINISHED, place.owner)
    samples = float(found.rates[-1].samples_done) if found.rates else 0.0
    return Report(finished, samples, _observations(found), found.offset_bytes)


def _observations(found: ProgressLog) -> tuple[Observation, ...]:
    return tuple(
        Observation(rate.nodes, rate.samples_per_s, rate.elapsed_s)
        for rate in found.rates
        if rate.nodes > 0 and rate.samples_per_s > 0 and rate.elapsed_s > 0
    )


def _is_owners(path: Path, owner: str) -> bool:
    """Whether there is a plain file of this owner."""
    try:
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_uid == pwd.getpwnam(owner).pw_uid
    except (FileNotFoundError, KeyError):
        return False
