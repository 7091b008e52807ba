"""A lab's daemons, started and stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from freetrain.lab.configuration import ACCOUNT, CLUSTER, write_private
from freetrain.lab.layout import LabLayout
from freetrain.lab.options import LabOptions, People
from freetrain.lab.programs import (
    Launch,
    Process,
    ask,
    daemon_processes,
    failed,
    listens,
    require,
    send_signal,
    task_processes,
    wait_until,
)

_READY_S = 180.0
_KEY_BYTES = 128
_AT_ONCE = 32
_GONE_S = 1.0

_DETACHES_S = 5.0
"""A daemon that detaches itself is not among the processes for a moment."""


@dataclass(frozen=True)
class Daemons:
    """A lab's daemons."""

    layout: LabLayout
    options: LabOptions
    people: People

    def running(self, name: str) -> list[Process]:
        """The processes of a daemon."""
        return [process for process in daemon_processes(self.layout.root) if process.name == name]

    def start_munge(self) -> None:
        """Start munged with a key of its own."""
        layout = self.layout
        write_private(layout.munge / "munge.key", os.urandom(_KEY_BYTES), self.people.service_ids, 0o400)
        command = [
            "munged",
            f"--socket={layout.munge_socket}",
            f"--key-file={layout.munge / 'munge.key'}",
            f"--pid-file={layout.munge / 'munged.pid'}",
            f"--log-file={layout.munge / 'munged.log'}",
            f"--seed-file={layout.munge / 'munged.seed'}",
        ]
        Launch(layout, "munged", command, self.people.as_service).finish(f"{layout.munge / 'munged.log'}")

    def start_accounting(self) -> None:
        """Start the database and slurmdbd, and enter the cluster and its people."""
        log = f"{self.layout.log / 'slurmdbd.log'}"
        self._start_database()
        Launch(self.layout, "slurmdbd", ["slurmdbd"], self.people.as_service).finish(log)
        if not wait_until(lambda: listens(self.options.accounting_port), _READY_S):
            raise failed("slurmdbd", "", log)
        self._enter_people()

    def _start_database(self) -> None:
        layout, log = self.layout, self.layout.log / "mariadbd.log"
        install = [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={layout.database}",
            f"--tmpdir={layout.database_scratch}",
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={self.people.service}",
            "--skip-name-resolve",
        ]
        Launch(layout, "mariadb-install-db", install, self.people.as_service).finish(f"{log}")
        serve = [
            "setsid",
            "--fork",
            "mariadbd",
            "--no-defaults",
            f"--datadir={layout.database}",
            f"--tmpdir={layout.database_scratch}",
            f"--socket={layout.database_socket}",
            f"--pid-file={layout.log / 'mariadbd.pid'}",
            f"--log-error={log}",
            "--skip-networking",
            "--innodb-buffer-pool-size=64M",
            # It holds nothing that must survive a power cut.
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-lock-wait-timeout=900",
        ]
        Launch(layout, "mariadbd", serve, self.people.as_service).finish(f"{log}")
        if not wait_until(layout.database_socket.is_socket, _READY_S):
            raise failed("mariadbd", "", f"{log}")

    def _enter_people(self) -> None:
        people = sorted(set(self.people.roles.values()))
        for what in (
            ("add", "cluster", CLUSTER),
            ("add", "account", ACCOUNT, "Description=lab", "Organization=lab"),
            ("add", "user", ",".join(people), f"Account={ACCOUNT}"),
            ("modify", "user", self.people.roles["daemon"], "set", "AdminLevel=Operator"),
        ):
            require(self.layout, "sacctmgr", "--immediate", "--quiet", *what)

    def start_controller(self) -> None:
        """Start slurmctld, unless it runs, and wait until it answers."""
        log = f"{self.layout.log / 'slurmctld.log'}"
        if not self.running("slurmctld"):
            # Without -i newer ones do not start again if they vanished before they had saved all of their state.
            command = ["slurmctld", "-i", "-f", str(self.layout.slurm_conf)]
            Launch(self.layout, "slurmctld", command, self.people.as_service).finish(log)
        deadline_s = time.monotonic() + _READY_S
        while ask(self.layout, "scontrol", "ping").returncode != 0:
            is_there = wait_until(lambda: bool(self.running("slurmctld")), _DETACHES_S)
            if not is_there or time.monotonic() > deadline_s:
                raise failed("slurmctld", "", log)

    def start_nodes(self, names: Sequence[str]) -> None:
        """Start the slurmds of those nodes that have none."""
        absent = self._absent(names)
        for first in range(0, len(absent), _AT_ONCE):
            launches = {
                name: Launch(
                    self.layout, f"slurmd-{name}", ["slurmd", "-f", str(self.layout.slurm_conf), "-N", name]
                )
                for name in absent[first : first + _AT_ONCE]
            }
            for name, launch in launches.items():
                launch.finish(f"{self.layout.node(name) / 'slurmd.log'}")
        # The program of newer ones ends a moment before the daemon is in its directory, by which it is known.
        if not wait_until(lambda: not self._absent(names), _READY_S):
            name = self._absent(names)[0]
            raise failed(f"slurmd-{name}", "", f"{self.layout.node(name) / 'slurmd.log'}")

    def _absent(self, names: Sequence[str]) -> list[str]:
        """Nodes without a slurmd."""
        there = {process.node for process in self.running("slurmd")}
        return [name for name in names if name not in there]

    def stop(self, name: str, seconds: float) -> None:
        """Let a daemon end by itself; kill it if that takes too long."""
        send_signal(self.running(name), signal.SIGTERM)
        wait_until(lambda: not self.running(name), seconds)
        _kill(partial(self.running, name))

    def kill_controller(self) -> None:
        """Let slurmctld vanish, and the helper that it started."""
        _kill(lambda: [*self.running("slurmctld"), *self.running("slurmscriptd")])

    def kill_node(self, node: str | None) -> None:
        """Let a node vanish, or all: first slurmd, so that it starts nothing more, then the jobs."""
        _kill(partial(self._slurmds, node))
        _kill(partial(self._jobs, node))

    def _slurmds(self, node: str | None) -> list[Process]:
        return [process for process in self.running("slurmd") if node in (None, process.node)]

    def _jobs(self, node: str | None) -> list[Process]:
        steps = [process for process in self.running("slurmstepd") if node in (None, process.node)]
        return steps + task_processes(self.layout.root, node, {process.pid for process in steps})


def _kill(left: Callable[[], list[Process]]) -> None:
    """Kill until none is left: what is being killed may just have started another."""
    # The tasks' parents are known only while the parents live: all of them are found before any dies.
    while found := left():
        send_signal(found, signal.SIGKILL)
        wait_until(lambda: not left(), _GONE_S)
