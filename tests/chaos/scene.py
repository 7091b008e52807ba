"""A virtual site in which everything may fail: its people, their jobs, and the daemon."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.live.site import TRAINER, Site
from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples
from freetrain.daemon.reports.status import StatusUnknownError, read_status
from freetrain.elastic.on_disk.progress import read_progress
from freetrain.lab.layout import ACCOUNT
from freetrain.lab.options import LabOptions
from freetrain.store.ledger import Ledger
from freetrain.store.store import Store
from tests.chaos.slurm_programs import SlurmPrograms
from tests.daemon.on_slurm.site import POLL_S
from tests.slurm_lab import on_free_ports

NODES, TASKS, STRANGER = 8, 1000, "mail"
"""The third user, who has nothing good in mind, has an account of every system."""
STATE_BYTES = "24m"
TIMEOUT_S, STOPS_S = 6, 90
_LOAD = 0.4
_LAST_BYTES = 16_384
_TRAINING = Path(__file__).parents[1] / "elastic/scripts/counting.py"
_DIFFERENT = 7
_TASK = f"""#!/bin/bash
sleep $((SLURM_ARRAY_TASK_ID % {_DIFFERENT} + 1)) || exit
exec bash -c 'echo done >> {{out}}/task-$SLURM_ARRAY_TASK_ID'
"""
_SCRIPT = """#!/bin/bash
export OMP_NUM_THREADS=1 OUT={out} EPOCHS=100000 STEP_ALONE_S=1.5 CHECKPOINT_EVERY_S=5
srun --quiet {python} -m freetrain.cli.main run --trainer {trainer} --nproc 1 -- {python} {training}
"""
# The daemon's clock goes as a file says: the machine's is not ours to set. Where it hangs it says at what.
_CLOCK = """import faulthandler, signal, time
faulthandler.register(signal.SIGUSR1)
_real = time.time
def _time():
    try:
        with open({path!r}) as file:
            return _real() + float(file.read() or 0)
    except OSError:
        return _real()
time.time = _time
"""


def task_s(task: int) -> float:
    """How long a task sleeps before it is done."""
    return task % _DIFFERENT + 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job as squeue shows it.

    Attributes:
        id: with its task.
        partition: where.
        state: in Slurm's word.
        reason: likewise.
        nodes: those that it has.
    """

    id: str
    partition: str
    state: str
    reason: str
    nodes: str


class Scene:
    """The site, and what goes on there.

    Args:
        directory: all of it.
        launcher: steer or submit.
        seed: draws the site's jobs.
        seconds: for how long jobs are submitted.
        has_daemon: whether freetrain lends there.

    Attributes:
        site: Slurm, its people and the daemon.
        programs: what the daemon takes for Slurm's commands.
        draw: all that is left to chance.
        training: the array of the training that has a real script.
        filler: the array of tasks; empty: there is none.
        lost: copies of the databases that were taken away from the daemon.
        wrong: what faults themselves have found that must not be.
        may_be_down: whether somebody has ended the daemon on purpose.
        ended: exit status → how often it had ended by itself.
        has_own_disk: whether the daemon's directory is a file system of its own, that may be full.
        crashed_nodes: whether a node has ever vanished with its jobs.
        controller_killed_s: when slurmctld was killed, which then knows nothing of its last seconds.
    """

    def __init__(self, directory: Path, launcher: str, seed: int, seconds: float, has_daemon: bool = True) -> None:
        self.launcher, self.has_daemon, self.draw = launcher, has_daemon, random.Random(seed)
        settings = {
            "SchedulerParameters": f"bf_continue,bf_interval={POLL_S},bf_resolution=60",
            "SlurmdTimeout": "15",
        }
        options = LabOptions(nodes=NODES, accounting=True, settings=settings)
        self.site = Site(directory, on_free_ports(options))
        self.site.lab = replace(self.site.lab, users={**self.site.lab.users, "stranger": STRANGER})
        self.site.run("root", "sacctmgr", "-iQ", "add", "user", STRANGER, f"Account={ACCOUNT}")
        self.programs = SlurmPrograms(directory)
        self.state, self.clock = directory / "state", directory / "clock"
        self.lost: list[Path] = []
        self.wrong: list[str] = []
        self.may_be_down, self.ended, self.crashed_nodes = False, Counter[int](), False
        self.controller_killed_s: list[float] = []
        self.lost_at_s = time.time()
        self.training, self.filler = "", ""
        self.jobs = draw(read_samples(SAMPLE_LOG), NODES, seconds, _LOAD, seed)
        self._player = threading.Thread(target=self._play, daemon=True)
        self.is_over = False
        self._prepare()

    def _prepare(self) -> None:
        self.state.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={STATE_BYTES},mode=755", "chaos", str(self.state)]
        self.has_own_disk = subprocess.run(mount, capture_output=True).returncode == 0  # a container may forbid it
        python = self.site.directory / "python"
        python.mkdir()
        (python / "sitecustomize.py").write_text(_CLOCK.format(path=str(self.clock)))
        self.site.daemons_environment = {
            "PATH": f"{self.programs.path}:{os.environ['PATH']}",
            "PYTHONPATH": f"{python}:{os.environ.get('PYTHONPATH', '')}",
        }

    def begin(self) -> None:
        """Everybody submits what they have, and the daemon starts."""
        out = self.site.out
        if self.has_daemon:
            self.trainer = out / "trainer"
            counting = out / "counting"
            counting.mkdir()
            counting.chmod(0o777)
            (counting / "pace").touch()
            names = {"out": counting, "trainer": self.trainer, "python": sys.executable, "training": _TRAINING}
            tag = f"min=1,dir={self.trainer}"
            self.training = self.site.submit_trainer("alice", 2, tag, _SCRIPT.format(**names))
            self.site.submit_trainer("alice", NODES, "min=1", TRAINER)
            if self.launcher == "steer":
                self.filler = self.site.submit_trainer(
                    "bob", TASKS, "kind=tasks,shortest=1", _TASK.format(out=out)
                )
            self.start_daemon()
        self._player.start()

    def _play(self) -> None:
        begin_s = time.monotonic()
        for job in self.jobs:
            while not self.is_over and time.monotonic() < begin_s + job.at_s:
                time.sleep(0.1)
            if self.is_over:
                return
            self._submit(job)

    def _submit(self, job: SiteJob) -> None:
        """As a user would who tries again while Slurm is away."""
        while not self.is_over:
            with suppress(RuntimeError):
                self.site.submit(job)
                return
            time.sleep(1)

    def start_daemon(self) -> None:
        """Start it, as systemd would."""
        self.may_be_down = False
        more = f'[slurm]\nbackend = "cli"\ntimeout = "{TIMEOUT_S}s"\n'
        self.site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10, launcher=self.launcher, more=more)

    def stop_daemon(self) -> None:
        """Stop it as systemd would, which kills what has not ended in time. Its log shows where it hung."""
        self.may_be_down = True
        pid, until_s = self.site.daemon_pid, time.monotonic() + STOPS_S
        self.signal(signal.SIGTERM, *filter(None, [pid]))
        while self.daemon_runs and time.monotonic() < until_s:
            time.sleep(0.1)
        if pid and self.daemon_runs:
            self.wrong.append(f"the daemon has not stopped after {STOPS_S:.0f} s")
            self.signal(signal.SIGUSR1, pid)
            time.sleep(1)
        self.site.kill_daemon()

    def kill_daemon(self) -> None:
        """End it; it stays down until somebody starts it."""
        self.may_be_down = True
        self.site.kill_daemon()

    def keep_daemon_alive(self) -> None:
        """Start it where it has ended by itself."""
        if self.has_daemon and not self.may_be_down and not self.daemon_runs:
            self.ended[self.site.kill_daemon()] += 1
            self.start_daemon()

    @property
    def daemon_runs(self) -> bool:
        """Whether there is one."""
        return self.site.daemon_pid is not None

    def limit_daemon(self, *limits: str) -> None:
        """Change what the kernel allows the daemon, as ``--as=1000``; nothing where it has ended."""
        if pid := self.site.daemon_pid:
            subprocess.run(["prlimit", f"--pid={pid}", *limits], capture_output=True)

    def signal(self, number: signal.Signals, *pids: int) -> None:
        """Send a signal to processes that may have ended."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def reload_daemon(self) -> bool:
        """Have it read its settings again; False: as systemd, not before it has said that it is ready."""
        with suppress(StatusUnknownError):
            pid = read_status(self.state).daemon.pid
            if pid == self.site.daemon_pid:
                self.signal(signal.SIGHUP, pid)
                return True
        return False

    def workers(self) -> list[int]:
        """The processes of the training's script."""
        found = subprocess.run(["pgrep", "-f", f"^{sys.executable} {_TRAINING}"], capture_output=True, text=True)
        ours = f"OUT={self.site.out}/counting\0".encode()
        return [int(pid) for pid in found.stdout.split() if ours in _environment_of(pid)]

    def queue(self) -> list[Job]:
        """All jobs; nothing while Slurm does not answer."""
        with suppress(RuntimeError):
            text = self.site.run("daemon", "squeue", "-h", "-a", "-r", "-t", "all", "-o", "%i|%P|%T|%r|%N")
            return [Job(*line.split("|")) for line in text.splitlines()]
        return []

    def ledger(self) -> Ledger | None:
        """The daemon's; None: there is none at the moment."""
        with suppress(Exception):
            return Store.open_existing(self.state / "freetrain.db").ledger()
        return None

    def samples_done(self) -> int:
        """By the training's progress."""
        with suppress(Exception):
            path = self.trainer / "progress.jsonl"
            return read_progress(path, max(0, path.stat().st_size - _LAST_BYTES)).rates[-1].samples_done
        return 0

    def lose_database(self) -> None:
        """Take the database away, wherever the daemon is; what it held is kept for the end."""
        kept = self.site.directory / f"lost-{len(self.lost)}"
        kept.mkdir()
        for file in self.state.glob("freetrain.db*"):
            shutil.move(file, kept / file.name)
        self.lost.append(kept / "freetrain.db")
        self.lost_at_s = time.time()

    def keep(self, directory: Path) -> None:
        """Copy what shows what happened: the daemon's log and database, and accounting."""
        directory.mkdir(parents=True, exist_ok=True)
        for file in (self.site.directory / "daemon.log", *self.state.glob("freetrain.db*")):
            shutil.copy(file, directory)
        (directory / "sacct").write_text("\n".join(map(str, self.site.accounting("freetrain"))))

    def close(self) -> None:
        """End all of it."""
        self.is_over = True
        self.programs.mend()
        self.site.close()
        subprocess.run(["umount", "-l", str(self.state)], capture_output=True)


def _environment_of(pid: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
