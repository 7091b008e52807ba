"""A real Slurm on one machine."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.lab.layout import (
    ACCOUNT,
    CLUSTER,
    LabLayout,
    cgroup_conf,
    gres_conf,
    prepare,
    read_parameters,
    slurm_conf,
    slurmdbd_conf,
    topology_conf,
    write_private,
)
from freetrain.lab.options import LabOptions, People
from freetrain.lab.programs import (
    Launch,
    Process,
    are_gone,
    ask,
    daemon_processes,
    failed,
    is_free,
    listens,
    node_states,
    require,
    require_programs,
    send_signal,
    slurm_version,
    task_processes,
    wait_until,
)

# On an idle machine seconds; other work on it may take most of the processors.
_READY_S = 180.0
_JOBS_GONE_S = 5.0
_STOP_S = 20.0
_GONE_S = 1.0
# A daemon that detaches itself is not among the processes for a moment.
_DETACHES_S = 5.0
_KEY_BYTES = 128
_AT_ONCE = 32


@dataclass(frozen=True)
class Lab:
    """A real Slurm on one machine, made with :meth:`up` or found with :meth:`find`; its owner alone may change it.

    ``users`` has the accounts of alice and bob, who are people, and of daemon, which is freetrain's.
    """

    directory: Path
    options: LabOptions
    owner: int
    users: Mapping[str, str]

    @classmethod
    def up(cls, directory: Path, options: LabOptions) -> Lab:
        """Make a lab, and return when all its nodes are idle.

        A lab that ended in this directory, in whatever way, makes room: nothing of it is kept.
        """
        require_programs(options.accounting)
        people = People.of_this_process()
        lab = cls(directory.resolve(), options, os.geteuid(), people.roles)
        lab._layout.require_usable(options.node_names[-1])
        lab._require_room()
        prepare(lab._layout, options, people)
        lab._write_configuration(people)
        try:
            lab._start()
        except BaseException:
            lab.down()
            raise
        return lab

    @classmethod
    def find(cls, directory: Path) -> Lab:
        """The lab in a directory, whether it runs or not."""
        root = directory.resolve()
        return cls(root, *read_parameters(LabLayout(root)))

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands mean this lab."""
        return {"SLURM_CONF": str(self._layout.slurm_conf)}

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes, without the imaginary ones."""
        return self.options.node_names

    def status(self) -> LabStatus:
        """The parts of the lab that run."""
        self._require_owner()
        running = daemon_processes(self.directory)
        names = {process.name for process in running}
        nodes = {process.node for process in running if process.name == "slurmd"}
        expected = ("munged", *(("mariadbd", "slurmdbd") if self.options.accounting else ()), "slurmctld")
        return LabStatus(
            {name: name in names for name in expected},
            {name: name in nodes for name in self.node_names},
            node_states(self._layout) if "slurmctld" in names else {},
        )

    def down(self) -> None:
        """Cancel all jobs and stop everything; the files stay until the next lab is made in the directory."""
        self._require_owner()
        if self._running("slurmctld"):
            for partition in ("main", "freetrain"):
                ask(self._layout, "scancel", f"--partition={partition}")
            wait_until(lambda: not self._running("slurmstepd"), _JOBS_GONE_S)
        # slurmd would wait for jobs that do not want to end, and has nothing to save.
        self._kill_node(None)
        # slurmctld first: it still sends slurmdbd what ended last. slurmscriptd is a helper of newer ones.
        for name in ("slurmctld", "slurmscriptd", "slurmdbd", "mariadbd", "munged"):
            self._stop(name)

    def crash(self, node: str) -> None:
        """Let a node vanish at once: its slurmd, its slurmstepds and all processes of its jobs."""
        self._require_node(node)
        self._kill_node(node)

    def start_node(self, node: str) -> None:
        """Start a node's slurmd, unless it runs."""
        self._require_node(node)
        self._start_nodes([node])

    def stop_controller(self) -> None:
        """Let slurmctld save its state and end."""
        self._require_owner()
        self._stop("slurmctld")

    def kill_controller(self) -> None:
        """Let slurmctld vanish."""
        self._require_owner()
        # With the helper that it started.
        _kill(lambda: [*self._running("slurmctld"), *self._running("slurmscriptd")])

    def start_controller(self) -> None:
        """Start slurmctld from its saved state, unless it runs, and wait until it answers."""
        self._require_owner()
        log = f"{self._layout.log / 'slurmctld.log'}"
        if not self._running("slurmctld"):
            # Without -i newer ones do not start again if they vanished before they had saved all of their state.
            command = ["slurmctld", "-i", "-f", str(self._layout.slurm_conf)]
            Launch(self._layout, "slurmctld", command, self._people.as_service).finish(log)
        deadline_s = time.monotonic() + _READY_S
        while ask(self._layout, "scontrol", "ping").returncode != 0:
            is_there = wait_until(lambda: bool(self._running("slurmctld")), _DETACHES_S)
            if not is_there or time.monotonic() > deadline_s:
                raise failed("slurmctld", log)

    @property
    def _layout(self) -> LabLayout:
        return LabLayout(self.directory)

    @property
    def _people(self) -> People:
        return People.of_this_process()

    def _write_configuration(self, people: People) -> None:
        layout, options = self._layout, self.options
        host = socket.gethostname().partition(".")[0]
        layout.slurm_conf.write_text(slurm_conf(layout, options, people, host))
        layout.gres_conf.write_text(gres_conf(layout, options))
        if options.nodes_per_leaf:
            layout.topology_conf.write_text(topology_conf(options))
        layout.cgroup_conf.write_text(cgroup_conf(options, slurm_version()))
        if options.accounting:
            # slurmdbd refuses a file that anyone else could read or owns.
            write_private(layout.slurmdbd_conf, slurmdbd_conf(layout, options, people), people.service_ids)
        for script, where in ((options.job_submit, layout.job_submit), (options.job_comp, layout.job_comp)):
            if script:
                where.write_bytes(script.read_bytes())

    def _start(self) -> None:
        # In this order: all prove by munge who they are, and slurmctld asks slurmdbd for its associations.
        self._start_munge()
        if self.options.accounting:
            self._start_accounting()
        self.start_controller()
        self._start_nodes(self.node_names)
        wanted = self.options.nodes + self.options.fake
        if not wait_until(lambda: node_states(self._layout).get("idle", 0) >= wanted, _READY_S):
            states = ", ".join(f"{count} {state}" for state, count in node_states(self._layout).items())
            raise FreetrainError(
                f"After {_READY_S:g} s not all {wanted} nodes are idle, but {states or 'none answers'}.",
                f"The logs are in {self._layout.log} and {self._layout.nodes}.",
                ExitCode.UNREACHABLE,
            )

    def _require_room(self) -> None:
        if daemon_processes(self.directory):
            raise InputError(
                f"A lab, or what is left of one, runs in {self.directory}.",
                f"End it with: freetrain lab down --dir {self.directory}",
            )
        taken = [port for port in self.options.ports if not is_free(port)]
        if taken:
            raise InputError(
                f"Port {taken[0]}, which the lab would use, is taken.",
                "Choose others with --port, for example 21000.",
            )

    def _require_owner(self) -> None:
        if self.owner != os.geteuid():
            raise InputError(f"The lab in {self.directory} belongs to another user, who alone may change it.")

    def _require_node(self, node: str) -> None:
        self._require_owner()
        if node not in self.node_names:
            raise InputError(
                f"The lab has no node {node}.", f"It has {self.node_names[0]} to {self.node_names[-1]}."
            )

    def _running(self, name: str, node: str | None = None) -> list[Process]:
        """The processes of a daemon, on a node or anywhere."""
        found = daemon_processes(self.directory)
        return [process for process in found if process.name == name and node in (None, process.node)]

    def _start_munge(self) -> None:
        """Start munged with a key of its own."""
        layout = self._layout
        # munged refuses a key that others could read.
        write_private(layout.munge / "munge.key", os.urandom(_KEY_BYTES), self._people.service_ids, 0o400)
        command = [
            "munged",
            f"--socket={layout.munge_socket}",
            f"--key-file={layout.munge / 'munge.key'}",
            f"--pid-file={layout.munge / 'munged.pid'}",
            f"--log-file={layout.munge / 'munged.log'}",
            f"--seed-file={layout.munge / 'munged.seed'}",
        ]
        Launch(layout, "munged", command, self._people.as_service).finish(f"{layout.munge / 'munged.log'}")

    def _start_accounting(self) -> None:
        """Start the database and slurmdbd, and enter the cluster and its people."""
        log = f"{self._layout.log / 'slurmdbd.log'}"
        self._start_database()
        Launch(self._layout, "slurmdbd", ["slurmdbd"], self._people.as_service).finish(log)
        if not wait_until(lambda: listens(self.options.accounting_port), _READY_S):
            raise failed("slurmdbd", log)
        people = sorted(set(self._people.roles.values()))
        for what in (
            ("add", "cluster", CLUSTER),
            ("add", "account", ACCOUNT, "Description=lab", "Organization=lab"),
            ("add", "user", ",".join(people), f"Account={ACCOUNT}"),
            # Only an Operator may change other users' jobs.
            ("modify", "user", self._people.roles["daemon"], "set", "AdminLevel=Operator"),
        ):
            require(self._layout, "sacctmgr", "--immediate", "--quiet", *what)

    def _start_database(self) -> None:
        layout, log = self._layout, self._layout.log / "mariadbd.log"
        common = ["--no-defaults", f"--datadir={layout.database}", f"--tmpdir={layout.database_scratch}"]
        install = [
            "mariadb-install-db",
            *common,
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={self._people.service}",
            "--skip-name-resolve",
        ]
        Launch(layout, "mariadb-install-db", install, self._people.as_service).finish(f"{log}")
        serve = [
            # It does not detach itself, as the other daemons do.
            "setsid",
            "--fork",
            "mariadbd",
            *common,
            f"--socket={layout.database_socket}",
            f"--pid-file={layout.log / 'mariadbd.pid'}",
            f"--log-error={log}",
            "--skip-networking",
            # Slurm's manual asks for a large pool, which a lab's tables do not need, and to wait 900 s for locks.
            "--innodb-buffer-pool-size=64M",
            # It holds nothing that must survive a power cut.
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-lock-wait-timeout=900",
        ]
        Launch(layout, "mariadbd", serve, self._people.as_service).finish(f"{log}")
        if not wait_until(layout.database_socket.is_socket, _READY_S):
            raise failed("mariadbd", f"{log}")

    def _start_nodes(self, names: Sequence[str]) -> None:
        """Start the slurmds of those nodes that have none."""
        absent, command = self._absent(names), ["slurmd", "-f", str(self._layout.slurm_conf), "-N"]
        for first in range(0, len(absent), _AT_ONCE):
            launches = {
                name: Launch(self._layout, f"slurmd-{name}", [*command, name])
                for name in absent[first : first + _AT_ONCE]
            }
            for name, launch in launches.items():
                launch.finish(f"{self._layout.node(name) / 'slurmd.log'}")
        if not wait_until(lambda: not self._absent(names), _READY_S):
            name = self._absent(names)[0]
            raise failed(f"slurmd-{name}", f"{self._layout.node(name) / 'slurmd.log'}")

    def _absent(self, names: Sequence[str]) -> list[str]:
        """Nodes without a slurmd that has written its pid file."""
        # On its way into the background slurmd is two processes that end, one after the other: only the third one
        # writes its pid.
        pids = {str(process.pid) for process in self._running("slurmd")}
        files = {name: self._layout.node(name) / "slurmd.pid" for name in names}
        return [name for name, file in files.items() if not file.exists() or file.read_text().strip() not in pids]

    def _stop(self, name: str) -> None:
        """Let a daemon end by itself; kill it if that takes too long."""
        found = self._running(name)
        send_signal(found, signal.SIGTERM)
        wait_until(lambda: are_gone(found), _STOP_S)
        _kill(lambda: self._running(name))

    def _kill_node(self, node: str | None) -> None:
        """Let a node vanish, or all: first slurmd, so that it starts nothing more, then the jobs."""
        _kill(lambda: self._running("slurmd", node))
        _kill(lambda: self._jobs(node))

    def _jobs(self, node: str | None) -> list[Process]:
        steps = self._running("slurmstepd", node)
        return steps + task_processes(self.directory, node, {process.pid for process in steps})


@dataclass(frozen=True)
class LabStatus:
    """The daemons and the slurmds that run, and the number of nodes in each of Slurm's states, if it answers."""

    daemons: Mapping[str, bool]
    nodes: Mapping[str, bool]
    states: Mapping[str, int]

    @property
    def anything(self) -> bool:
        """Whether any daemon runs."""
        return any(self.daemons.values()) or any(self.nodes.values())


def _kill(left: Callable[[], list[Process]]) -> None:
    """Kill until none is left: what is being killed may just have started another."""
    # The tasks' parents are known only while the parents live: all of them are found before any dies.
    while found := left():
        send_signal(found, signal.SIGKILL)
        wait_until(lambda: are_gone(found), _GONE_S)
