"""Whether a daemon grows: looks of the whole service at an accelerated clock, on the tests' imagined Slurm.

    python -m benchmarks.looks --looks 100000

Half a minute passes from one look to the next, during which the site's jobs, trainings and fillers come and go.
Memory and database are printed twenty times, with the CPU time of a look since the row before. What is in use is
what Python and the C library have given out and not got back: that grows if something is kept. Anonymous memory is
the daemon's own, with the room between, when the allocators have given back their free pages; resident memory has
pages of files besides, which the kernel takes back when it likes. ``state.keep`` is short, so that the warm-up is:
what is older than that is forgotten.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from freetrain.config import Config, Loaded
from freetrain.core.job import JobState
from freetrain.daemon import service
from freetrain.daemon.timetable import Timetable
from freetrain.slurm.site.facts import Site
from freetrain.store.store import DAEMONS_STORE
from tests.daemon.fake_slurm import NODES, FakeSlurm

POLL_S = 30.0
ROWS = 20
TAGS = ("freetrain:min=1", "freetrain:min=2,max=4", "freetrain:kind=tasks", "freetrain:kind=tasks,nodes=1-2")
TRAININGS = 5
MIN_JOB_AGE_S = 300.0
"""So long Slurm shows a job that has ended."""
REMEMBERED_RUNS = 1000
SECOND_OPINION = 5000
"""Looks follow each other a thousand times as fast as usual; a process that solves again does not."""


class BusySite(FakeSlurm):
    """A Slurm of the imagination where jobs come and go, and which forgets what has ended, as a real one does."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = time.time()
        self._draw = random.Random(1)
        self._site = super().site(0.0, 1)

    def site(self, max_age_s: float, most_questions: int) -> Site:
        """Its settings and partitions, which never change."""
        return self._site

    def go_on(self) -> None:
        """Half a minute passes."""
        self._forget_ended()
        running = [job for job in self.jobs.values() if job.state is JobState.RUNNING]
        for job in running:
            if self._draw.random() < POLL_S / 1800:
                self.finish(job.id)
        present = {job.array for job in self.jobs.values() if self.queue.has(job) and not job.state.is_final}
        if len(present) < TRAININGS:
            self.submit_array(self._draw.choice(TAGS), self._draw.randint(2, 8), f"user{self._draw.randrange(9)}")
        waiting = sum(job.partition == "main" and job.state is JobState.PENDING for job in self.jobs.values())
        if not waiting and self._draw.random() < POLL_S / 600:
            self.submit(self._draw.randint(1, len(NODES) // 2))
        self.advance(POLL_S)

    def _forget_ended(self) -> None:
        for job in list(self.jobs.values()):
            if job.state.is_final and (job.end_s or 0.0) < self.now_s - MIN_JOB_AGE_S:
                self.forget(job.id)
        arrays = {job.array for job in self.jobs.values()}
        self.asked = {array: asked for array, asked in self.asked.items() if array in arrays}
        self.told.clear()
        del self.history[:-REMEMBERED_RUNS]


class Accelerated(Timetable):
    """Waits for nothing: time passes on the site instead, and what is due again and again is done in between."""

    def __init__(self, site: BusySite, after_look: Callable[[], None], *given: Any) -> None:
        super().__init__(*given)
        self._site, self._after_look = site, after_look
        self._again: list[tuple[float, Callable[[], object]]] = []

    def every(self, period_s: float, job: Callable[[], object]) -> None:
        """Do this whenever so much of the site's time has passed."""
        self._again.append((period_s, job))

    def wait(self, look_s: float) -> None:
        """Let the site go on."""
        before_s = self._site.now_s
        self._site.go_on()
        for period_s, job in self._again:
            if before_s // period_s != self._site.now_s // period_s:
                job()
        self._after_look()


class Growth:
    """Prints what the daemon takes, now and then.

    Args:
        database: its file.
        every: so many looks from one row to the next.
    """

    def __init__(self, database: Path, every: int) -> None:
        self._database, self._every = database, every
        self._looks, self._cpu_s = 0, time.process_time()
        print(
            f"{'looks':>8} {'RSS MB':>8} {'anonymous MB':>13} {'in use MB':>10} {'database MB':>12} {'log MB':>8}"
            f" {'CPU ms a look':>14}"
        )

    def count(self) -> None:
        """One more look."""
        self._looks += 1
        if self._looks % self._every == 0:
            cpu_s, resident_mb = time.process_time(), _memory_mb("VmRSS")
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            print(
                f"{self._looks:8,} {resident_mb:8.1f} {_memory_mb('RssAnon'):13.2f} {_in_use_mb():10.2f}"
                f" {_mb(self._database):12.3f}"
                f" {_mb(self._database.with_name(f'{DAEMONS_STORE}-wal')):8.3f}"
                f" {1000 * (cpu_s - self._cpu_s) / self._every:14.1f}",
                flush=True,
            )
            self._cpu_s = cpu_s


class _Mallinfo(ctypes.Structure):
    """What ``mallinfo2(3)`` returns."""

    _fields_ = (
        ("arenas", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("fast", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("rest", ctypes.c_size_t * 2),
    )


def _in_use_mb() -> float:
    """What Python's allocator, which only prints it, and the C library's have given out."""
    with tempfile.TemporaryFile() as printed:
        errors = os.dup(2)
        os.dup2(printed.fileno(), 2)
        sys._debugmallocstats()
        os.dup2(errors, 2)
        os.close(errors)
        printed.seek(0)
        found = re.search(r"bytes in allocated blocks *= *([\d,]+)", printed.read().decode())
    libc: Any = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    given: Any = libc.mallinfo2()
    return ((int(found[1].replace(",", "")) if found else 0) + int(given.uordblks + given.hblkhd)) / 1e6


def _mb(path: Path) -> float:
    return path.stat().st_size / 1e6 if path.exists() else 0.0


def _memory_mb(kind: str) -> float:
    """Memory of this process, as ``/proc/self/status`` counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) * 1024 / 1e6


def main() -> None:
    """Look, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--looks", type=int, default=100_000)
    parser.add_argument("--keep", default="1d", help="state.keep")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="freetrain-looks-") as directory:
        config = Loaded(
            Config.model_validate(
                {
                    "lend": {"mode": "act"},
                    "pace": {"poll": POLL_S},
                    "decide": {"second_opinion": SECOND_OPINION},
                    "state": {"directory": directory, "stop_file": f"{directory}/STOP", "keep": given.keep},
                }
            )
        )
        site, growth = BusySite(), Growth(Path(directory) / DAEMONS_STORE, max(1, given.looks // ROWS))
        with patch.object(service, "Timetable", partial(Accelerated, site, growth.count)):
            service.Service(config, site, lambda: config, lambda: site.now_s).run(cycles=given.looks + 1)


if __name__ == "__main__":
    main()
