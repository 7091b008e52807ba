"""One virtual site: a lab, its users' jobs, and freetrain's daemon where it is wanted."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ClusterShell.NodeSet import NodeSet

from benchmarks.live.workload import SiteJob
from freetrain.lab.lab import Lab
from freetrain.lab.options import LabOptions

_PATIENCE_S = 120.0
ENVIRONMENT = {"TZ": "UTC", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}

JOB = """#!/bin/bash
date +%s.%N > {out}/start-$SLURM_JOB_ID
exec sleep {run_s}
"""

# A fragment that the daemon submits has the PATH of a login, which may know another Slurm.
TRAINER = f"""#!/bin/bash
{shutil.which("srun") or "srun"} --quiet bash -c 'trap "exit 0" TERM; sleep infinity & wait'
"""

CONFIGURATION = """
[lend]
mode = "act"
launcher = "{launcher}"
{lend}
shortest_hole = "{shortest_hole_s}s"
margin = "{margin_s}s"
[pace]
poll = "{poll_s}s"
{more}
[state]
directory = "{state}"
stop_file = "{state}/STOP"
"""


def configuration(
    poll_s: float,
    margin_s: float,
    shortest_hole_s: float,
    state: Path,
    launcher: str = "steer",
    more: str = "",
    lend: str = "",
) -> str:
    """The daemon's settings."""
    return CONFIGURATION.format(
        state=state,
        poll_s=poll_s,
        margin_s=margin_s,
        shortest_hole_s=shortest_hole_s,
        launcher=launcher,
        more=more,
        lend=lend,
    )


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a job, as accounting tells.

    Attributes:
        id: Slurm's.
        submitted_s: when, epoch seconds.
        start_s: when.
        end_s: when.
        nodes: node list.
        state: how it ended.
        limit_s: its time limit.
        gpus: that it had of each node, where nodes have some.
    """

    id: str
    submitted_s: float
    start_s: float
    end_s: float
    nodes: str
    state: str
    limit_s: float = 0.0
    gpus: int = 0

    @property
    def node_names(self) -> list[str]:
        """Its nodes."""
        return list(NodeSet(self.nodes))


class Site:
    """A lab with people in it.

    Args:
        directory: all of it.
        options: of the lab.

    Attributes:
        daemons_environment: what the daemon's differs in from everybody's.
    """

    def __init__(self, directory: Path, options: LabOptions) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        self.directory = directory
        self.lab = Lab.up(directory / "lab", options)
        self.out = directory / "out"
        self.out.mkdir(exist_ok=True)
        self.out.chmod(0o777)
        self.submitted_s: dict[str, float] = {}
        self.jobs: dict[str, SiteJob] = {}
        self.daemons_environment: Mapping[str, str] = {}
        self._daemon: subprocess.Popen[bytes] | None = None

    def command(self, person: str, *argv: str) -> list[str]:
        """A command as somebody else, or as root; who is not root plays all parts himself."""
        if os.geteuid() != 0 or person == "root":
            return list(argv)
        user = self.lab.users[person]
        return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *argv]

    def run(self, person: str, *argv: str, stdin: str = "") -> str:
        """Run a command as somebody, and what it printed."""
        ran = subprocess.run(
            self.command(person, *argv),
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.out,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{argv}: {ran.stderr.strip()}")
        return ran.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's commands need."""
        return {**os.environ, **self.lab.environment, **ENVIRONMENT, "HOME": str(self.out)}

    def submit(self, job: SiteJob) -> str:
        """Submit one of the site's jobs."""
        script = JOB.format(out=self.out, run_s=job.run_s)
        at_s = time.time()
        part = (f"--gres=gpu:{job.gpus}", f"-c{job.gpus.rpartition(':')[2]}") if job.gpus else ()
        id_ = self.run(
            "bob", "sbatch", "--parsable", "-p", job.partition, f"-N{job.nodes}", f"-t{job.limit_min}",
            "-o", "/dev/null", *part, stdin=script,
        )  # fmt: skip
        self.submitted_s[id_] = at_s
        self.jobs[id_] = job
        return id_

    def submit_trainer(self, person: str, tasks: int, tag: str, script: str = TRAINER, *options: str) -> str:
        """Submit a trainer as its owner would; options of sbatch may name another partition."""
        return self.run(
            person, "sbatch", "--parsable", "--hold", f"--array=0-{tasks - 1}", "-N1", "--requeue",
            "-p", "freetrain", f"--comment=freetrain:{tag}", "-o", "/dev/null", *options, stdin=script,
        )  # fmt: skip

    def start_daemon(
        self,
        poll_s: float,
        margin_s: float,
        shortest_hole_s: float,
        launcher: str = "steer",
        more: str = "",
        lend: str = "",
    ) -> None:
        """Start freetrain: as its service account, or, where it is to submit for others, as root.

        ``more`` are further settings, those of [pace] first; ``lend`` are those of [lend].
        """
        person = "daemon" if launcher == "steer" else "root"
        state = self.directory / "state"
        state.mkdir(exist_ok=True)
        if os.geteuid() == 0 and person != "root":
            os.chown(state, *_ids(self.lab.users[person]))
        path = self.directory / "freetrain.toml"
        path.write_text(configuration(poll_s, margin_s, shortest_hole_s, state, launcher, more, lend))
        program = [sys.executable, "-m", "freetrain.cli.main", "daemon", "--config", str(path)]
        with (self.directory / "daemon.log").open("ab") as log:
            environment = {**self.environment, **self.daemons_environment}
            self._daemon = subprocess.Popen(self.command(person, *program), stderr=log, env=environment, cwd="/")

    def signal_daemon(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._daemon is not None
        # setpriv becomes the daemon, so that this reaches it.
        self._daemon.send_signal(number)

    def stop_daemon(self) -> int:
        """Stop it and wait; its exit status."""
        return self._end_daemon(signal.SIGTERM)

    def kill_daemon(self) -> int:
        """Kill it outright."""
        return self._end_daemon(signal.SIGKILL)

    def _end_daemon(self, number: signal.Signals) -> int:
        if self._daemon is None:
            return 0
        self.signal_daemon(number)
        self.signal_daemon(signal.SIGCONT)  # or one that is stopped would not hear of it
        daemon, self._daemon = self._daemon, None
        try:
            return daemon.wait(_PATIENCE_S)
        finally:
            daemon.kill()  # where it hangs: none is left beside the next one
            daemon.wait()

    @property
    def daemon_pid(self) -> int | None:
        """Its process; None: there is none, or it has ended."""
        return self._daemon.pid if self._daemon is not None and self._daemon.poll() is None else None

    @property
    def daemon_says(self) -> str:
        """All that the daemon has logged."""
        return (self.directory / "daemon.log").read_text()

    def freetrain(self, person: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """A command of freetrain's as somebody, with the daemon's configuration."""
        program = [sys.executable, "-m", "freetrain.cli.main", *argv]
        environment = {**self.environment, "FREETRAIN_CONFIG": str(self.directory / "freetrain.toml")}
        return subprocess.run(
            self.command(person, *program), env=environment, cwd="/", capture_output=True, text=True, timeout=300
        )

    def play(self, jobs: Sequence[SiteJob]) -> None:
        """Submit all jobs at their times; returns when the last one was submitted."""
        begin_s = time.monotonic()
        threads = []
        for job in jobs:
            time.sleep(max(0.0, begin_s + job.at_s - time.monotonic()))
            thread = threading.Thread(target=self.submit, args=(job,))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()

    def wait_for(self, jobs: Sequence[str], timeout_s: float) -> None:
        """Until none of these jobs waits or runs."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            left = set(self.run("bob", "squeue", "-h", "-a", "-o", "%A").split())
            if not left & set(jobs):
                return
            time.sleep(1)
        raise RuntimeError(f"jobs {sorted(left & set(jobs))} have not ended")

    def accounting(self, partitions: str, qos: str = "") -> list[Ran]:
        """All runs of jobs in these partitions, of one QOS only where that is given."""
        fields = "JobID,Submit,Start,End,NodeList,State,TimelimitRaw,NNodes,AllocTRES"
        text = self.run(
            "daemon", "sacct", "-a", "-D", "-X", "-P", "-n", "-r", partitions, *(("-q", qos) if qos else ()),
            "-S", "now-1days", "-o", fields,
        )  # fmt: skip
        now_s = time.time()
        return [one for line in text.splitlines() if (one := _ran(line.split("|"), now_s)) is not None]

    def started_s(self) -> Mapping[str, float]:
        """When each of the site's jobs really began, by its own clock."""
        marks = {path.name.removeprefix("start-"): path.read_text().strip() for path in self.out.glob("start-*")}
        return {id_: float(mark) for id_, mark in marks.items() if mark}

    def close(self) -> None:
        """Stop everything."""
        self.stop_daemon()
        self.lab.down()


def _ran(row: Sequence[str], now_s: float) -> Ran | None:
    """A row of accounting; None: it has not started."""
    id_, submit, start, end, nodes, state, limit, count, held = row
    if not start.isdigit():
        return None
    gpus = re.search(r"gres/gpu=(\d+)", held)
    return Ran(
        id_, float(submit), float(start), float(end) if end.isdigit() else now_s, nodes, state,
        60.0 * float(limit) if limit.isdigit() else 0.0, int(gpus[1]) // int(count) if gpus else 0,
    )  # fmt: skip


def _ids(user: str) -> tuple[int, int]:
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid
