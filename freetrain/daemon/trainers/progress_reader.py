"""Reports of trainers on themselves, read from their directories beside the loop: file systems may hang."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO

from freetrain.core.data_wait import DataWait, WaitProfile, summed_up
from freetrain.core.known_trainer import NOTHING_LOST, NOTHING_MISREAD, Losses, Misread
from freetrain.core.observed import SizeChange
from freetrain.core.throughput import Observation
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.elastic.on_disk.progress import MAX_NODES, ProgressLog, read_part

# A link must not be followed, a FIFO not be waited for, and a terminal not become the daemon's.
_HOW = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class WrongFileError(Exception):
    """There is something, but not a plain file of this owner; the message is a sentence for its owner."""


@contextlib.contextmanager
def directory_of(path: str) -> Iterator[int]:
    """A handle of the directory, good for what is in it; the right to pass through it is enough."""
    handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def open_plain(directory: int, name: str, owner: int) -> BinaryIO:
    """A plain file of this owner, to be read.

    Raises:
        WrongFileError: it is something else.
        OSError: it is not there, or cannot be opened.
    """
    try:
        handle = os.open(name, _HOW, dir_fd=directory)
    except OSError as error:
        # A link, or a socket.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise WrongFileError(f"{name} is not a plain file") from error
        raise
    # Of the open file, not of its name, which may have been given to another file in between.
    facts = os.fstat(handle)
    if stat.S_ISREG(facts.st_mode) and facts.st_uid == owner:
        return os.fdopen(handle, "rb")
    os.close(handle)
    is_foreign = stat.S_ISREG(facts.st_mode)
    raise WrongFileError(f"{name} belongs to another user" if is_foreign else f"{name} is not a plain file")


def has_plain(directory: int, name: str, owner: int) -> bool:
    """Whether there is a plain file of this owner; it is not opened."""
    try:
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == owner


_PROGRESS, _FINISHED = "progress.jsonl", "finished.json"
# Of all progress of one owner at once, and of each training at least: more is read at the next time.
_MOST_BYTES, _LEAST_BYTES = 1_000_000, 64_000
# Each that hangs keeps a thread: with so many of one owner's, no more of theirs are looked at.
_MOST_STUCK = 8
_COMES_BACK_S, _STUCK_S = 1.0, 10.0


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a trainer, read from its directory.

    Attributes:
        finished: whether the training is complete; None: there is no progress that could be read.
        samples_done: since the start of the training; 0: unknown.
        observations: what was seen since the last report.
        changes: changes of its size since then.
        offset_bytes: how far the progress has been read.
        misread: lines of progress that were not believed since the last report.
        fault: why its files cannot be used, a sentence for the owner; empty: they can, or are not there.
        data_wait: how long it waits for data; None: unknown.
        losses: work of its tasks that could not be saved since the last report.
    """

    finished: bool | None
    samples_done: float
    observations: tuple[Observation, ...]
    offset_bytes: int
    misread: Misread = NOTHING_MISREAD
    fault: str = ""
    changes: tuple[SizeChange, ...] = ()
    data_wait: WaitProfile | None = None
    losses: Losses = NOTHING_LOST


@dataclass(frozen=True, slots=True)
class ProgressFiles:
    """Directory to read, owner of its files, first byte to read, and most nodes that the trainer can have had."""

    directory: str
    owner: str
    offset_bytes: int
    most_nodes: int = MAX_NODES


class ProgressReader:
    """Reads all trainers' progress when called, and hands out what it found when asked.

    Each owner's trainers are read in a thread of their own. One that hangs is left behind with the trainer at
    which it hangs, and another goes on with the owner's others.
    """

    def __init__(self, stuck_s: float = _STUCK_S) -> None:
        self._lock = threading.Lock()
        self._places: Mapping[str, ProgressFiles] = {}
        self._reports: dict[str, Report] = {}
        self._rounds: dict[str, list[_Round]] = {}
        self._stuck_s = stuck_s
        self._was_completed = False

    def look_at(self, places: Mapping[str, ProgressFiles]) -> None:
        """Read these trainers' directories from now on."""
        with self._lock:
            self._places = places

    def read(self) -> bool:
        """Read them all, as far as they answer soon, and return whether a training has been completed since."""
        with self._lock:
            places = self._places
            self._reports = {trainer: report for trainer, report in self._reports.items() if trainer in places}
        by_owner: defaultdict[str, dict[str, ProgressFiles]] = defaultdict(dict)
        for trainer, place in places.items():
            by_owner[place.owner][trainer] = place
        owners = self._rounds.keys() | by_owner.keys()
        self._rounds = {owner: self._go_round(owner, by_owner.get(owner, {})) for owner in owners}
        deadline_s = time.monotonic() + _COMES_BACK_S
        for rounds in self._rounds.values():
            for round_ in rounds:
                if not round_.is_stuck(self._stuck_s):
                    round_.join(max(0.0, deadline_s - time.monotonic()))
        with self._lock:
            was_completed, self._was_completed = self._was_completed, False
        return was_completed

    def reports(self) -> Mapping[str, Report]:
        """Trainer → its report, as it was read last."""
        with self._lock:
            return dict(self._reports)

    def _go_round(self, owner: str, places: Mapping[str, ProgressFiles]) -> list[_Round]:
        """Start a round for this owner, unless one gets on, and return all of theirs that are under way."""
        rounds = [round_ for round_ in self._rounds.get(owner, []) if round_.is_alive()]
        stuck = [round_ for round_ in rounds if round_.is_stuck(self._stuck_s)]
        hanging = {round_.at for round_ in stuck}
        for trainer in hanging & places.keys():
            last = self.reports().get(trainer) or _nothing(places[trainer])
            self._take(trainer, replace(last, fault="its directory does not answer"))
        if not places or len(rounds) > len(stuck) or len(stuck) >= _MOST_STUCK:
            return rounds
        for round_ in stuck:
            round_.is_last = True
        new = _Round({trainer: place for trainer, place in places.items() if trainer not in hanging}, self._take)
        try:
            new.start()
        except RuntimeError:
            # No thread is left, as at TasksMax: what was read last holds until there is one.
            return rounds
        return [*rounds, new]

    def _take(self, trainer: str, report: Report) -> None:
        with self._lock:
            before = self._reports.get(trainer)
            if before is not None:
                now = report.data_wait
                report = replace(report, data_wait=now.after(before.data_wait) if now else before.data_wait)
            self._was_completed |= bool(report.finished) and not (before and before.finished)
            self._reports[trainer] = report


class _Round(threading.Thread):
    """Reads some trainers one after the other; ``at`` is the current one, the last one once ``is_last`` is set."""

    def __init__(self, places: Mapping[str, ProgressFiles], take: Callable[[str, Report], None]) -> None:
        super().__init__(name="progress", daemon=True)
        self._places = places
        self._take = take
        self._since_s = time.monotonic()
        self.at = ""
        self.is_last = False

    def run(self) -> None:
        """Read until all are read, or until ``is_last`` is set."""
        most_bytes = max(_LEAST_BYTES, _MOST_BYTES // max(len(self._places), 1))
        for trainer, place in self._places.items():
            if self.is_last:
                return
            self.at, self._since_s = trainer, time.monotonic()
            report = isolated(partial(read_report, place, most_bytes))
            if isinstance(report, Fault):
                report = replace(_nothing(place), fault=report.what)
            self._take(trainer, report)

    def is_stuck(self, stuck_s: float) -> bool:
        """Whether it has been at one trainer for that long."""
        return self.is_alive() and time.monotonic() - self._since_s > stuck_s


def read_report(place: ProgressFiles, most_bytes: int = _MOST_BYTES) -> Report:
    """Report of a directory; nothing is believed that is not its owner's own plain file."""
    try:
        owner = pwd.getpwnam(place.owner).pw_uid
        with directory_of(place.directory) as directory:
            with open_plain(directory, _PROGRESS, owner) as stream:
                # A file that is shorter than what was read of it is another one.
                is_other = stream.seek(0, 2) < place.offset_bytes
                found = read_part(stream, 0 if is_other else place.offset_bytes, most_bytes, place.most_nodes)
            finished = has_plain(directory, _FINISHED, owner)
    except WrongFileError as error:
        return replace(_nothing(place), fault=str(error))
    except PermissionError as error:
        return replace(_nothing(place), fault=f"freetrain may not read its {_PROGRESS}: {error.strerror}")
    except (OSError, KeyError):
        return _nothing(place)
    return _report(found, finished)


def _report(found: ProgressLog, finished: bool) -> Report:
    rates, first, last = found.rates, found.first_rejected, found.losses[-1] if found.losses else None
    lost_s = sum(loss.elapsed_s for loss in found.losses)
    return Report(
        finished,
        float(rates[-1].samples_done) if rates else 0.0,
        tuple(
            Observation(rate.nodes, rate.samples_per_s, rate.elapsed_s, began_s=rate.time_s - rate.elapsed_s)
            for rate in rates
        ),
        found.offset_bytes,
        Misread(found.rejected, first.at_byte, first.why) if first else NOTHING_MISREAD,
        changes=tuple(
            SizeChange(rescale.time_s, rescale.nodes, rescale.cause, rescale.pause_s, rescale.start_s)
            for rescale in found.rescales
        ),
        data_wait=summed_up(
            [(DataWait(rate.data_wait_share, rate.cpus, rate.memory_mb), rate.elapsed_s) for rate in rates]
        ),
        losses=Losses(len(found.losses), lost_s, last.time_s, last.cause) if last else NOTHING_LOST,
    )


def _nothing(place: ProgressFiles) -> Report:
    return Report(None, 0.0, (), place.offset_bytes)
