"""The one list of faults. Each breaks something, yields for how many seconds that lasts, and mends it."""

from __future__ import annotations

import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

from tests.chaos.scene import NODES, STRANGER, TIMEOUT_S, Scene

Breaking = Callable[[Scene], Iterator[float]]

CUTS = (
    "hang", "slow 3", "refuse", "busy", "nothing", "lost", "cut 0", "cut 1", "cut 100", "cut 3000", "garbage",
    "killed-before", "killed-after",
)  # fmt: skip
"""Where a command of Slurm's is cut off, in the words of ``slurm_programs.py``."""
CUT_PROGRAMS = ("scontrol", "squeue", "sbatch", "scancel", "sacct")
LAUNCHER_OF = {"sbatch": "submit"}
"""A program that the daemon uses with one launcher only."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One that may happen.

    Attributes:
        kind: what part of the site it concerns.
        name: for the table.
        breaking: what happens.
        is_slurms: whether it happens to Slurm itself, with or without freetrain.
        launcher: with which alone it makes sense; empty: with both.
        is_early: whether it happens in the first part of a run only: it costs what is checked at the end.
    """

    kind: str
    name: str
    breaking: Breaking
    is_slurms: bool = False
    launcher: str = ""
    is_early: bool = False


FAULTS: list[Fault] = []


def fault(
    kind: str, is_slurms: bool = False, launcher: str = "", is_early: bool = False
) -> Callable[[Breaking], Breaking]:
    """Add what a function breaks to the list."""

    def add(breaking: Breaking) -> Breaking:
        FAULTS.append(Fault(kind, breaking.__name__.replace("_", " "), breaking, is_slurms, launcher, is_early))
        return breaking

    return add


@fault("processes")
def daemon_killed(scene: Scene) -> Iterator[float]:
    scene.kill_daemon()
    yield scene.draw.uniform(0, 3)
    scene.start_daemon()


@fault("processes")
def daemon_stopped_by_systemd(scene: Scene) -> Iterator[float]:
    scene.stop_daemon()
    yield scene.draw.uniform(0, 3)
    scene.start_daemon()


@fault("processes")
def daemon_frozen(scene: Scene) -> Iterator[float]:
    pids = [pid for pid in [scene.site.daemon_pid] if pid]
    scene.signal(signal.SIGSTOP, *pids)
    yield scene.draw.uniform(1, 6)
    scene.signal(signal.SIGCONT, *pids)


@fault("processes")
def children_of_the_daemon_killed(scene: Scene) -> Iterator[float]:
    """The solver's process, or a question to Slurm that is being asked."""
    if pid := scene.site.daemon_pid:
        subprocess.run(["pkill", "-KILL", "-P", str(pid)])
    yield 0.5


@fault("processes", is_slurms=True)
def slurmctld_killed(scene: Scene) -> Iterator[float]:
    scene.site.lab.kill_controller()
    scene.controller_killed_s.append(time.time())
    yield scene.draw.uniform(1, 5)
    scene.site.lab.start_controller()


@fault("processes", is_slurms=True)
def slurmctld_restarted(scene: Scene) -> Iterator[float]:
    scene.site.lab.stop_controller()
    scene.site.lab.start_controller()
    yield 0.5


@fault("processes", is_slurms=True)
def slurmd_killed_with_its_jobs(scene: Scene) -> Iterator[float]:
    scene.crashed_nodes = True
    node = scene.draw.choice(scene.site.lab.node_names)
    scene.site.lab.crash(node)
    yield scene.draw.uniform(2, 8)
    scene.site.lab.start_node(node)
    with suppress(RuntimeError):
        scene.site.run("root", "scontrol", "update", f"NodeName={node}", "State=RESUME")


@fault("disk")
def disk_full(scene: Scene) -> Iterator[float]:
    if not scene.has_own_disk:
        return
    filler = scene.state / "filler"
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    yield scene.draw.uniform(2, 6)
    filler.unlink(missing_ok=True)


@fault("disk")
def disk_read_only(scene: Scene) -> Iterator[float]:
    if not scene.has_own_disk:
        return
    subprocess.run(["mount", "-o", "remount,ro", str(scene.state)], capture_output=True)
    yield scene.draw.uniform(2, 6)
    subprocess.run(["mount", "-o", "remount,rw", str(scene.state)], check=True)


@fault("memory")
def no_memory(scene: Scene) -> Iterator[float]:
    scene.limit_daemon("--as=100000000:unlimited")
    yield scene.draw.uniform(2, 5)
    scene.limit_daemon("--as=unlimited:unlimited")


@fault("memory")
def no_files(scene: Scene) -> Iterator[float]:
    scene.limit_daemon("--nofile=10:4096")
    yield scene.draw.uniform(2, 5)
    scene.limit_daemon("--nofile=4096:4096")


@fault("memory", launcher="steer")
def no_processes(scene: Scene) -> Iterator[float]:
    """Root, as which the daemon submits, has no such limit."""
    scene.limit_daemon("--nproc=1:1000")
    yield scene.draw.uniform(2, 5)
    scene.limit_daemon("--nproc=1000:1000")


@fault("clock")
def clock_ahead(scene: Scene) -> Iterator[float]:
    scene.clock.write_text("120")
    yield scene.draw.uniform(1, 5)
    scene.clock.unlink()


@fault("clock")
def clock_back(scene: Scene) -> Iterator[float]:
    scene.clock.write_text("-120")
    yield scene.draw.uniform(1, 5)
    scene.clock.unlink()


@fault("database")
def database_locked(scene: Scene) -> Iterator[float]:
    path = scene.state / "freetrain.db"
    if not path.exists():
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with suppress(sqlite3.Error):
            connection.execute("BEGIN IMMEDIATE")
        yield scene.draw.uniform(2, 12)
        with suppress(sqlite3.Error):
            connection.rollback()


@fault("database", is_early=True)
def database_removed(scene: Scene) -> Iterator[float]:
    scene.lose_database()
    yield 2.0


@fault("configuration")
def configuration_broken_at_a_reload(scene: Scene) -> Iterator[float]:
    path = scene.site.directory / "freetrain.toml"
    text = path.read_text()
    for broken in (f"{text}\n[lend\n", text.replace('mode = "act"', 'mode = "perhaps"'), ""):
        path.write_text(broken)
        scene.reload_daemon()
        yield 1.0
    path.write_text(text)
    if not scene.reload_daemon():  # it may have started without any settings, and keep its state elsewhere
        scene.stop_daemon()
        scene.start_daemon()


@fault("network of the training")
def worker_cut_off(scene: Scene) -> Iterator[float]:
    """As a link that carries nothing: the process neither sends nor hears."""
    pids = scene.workers()[:1]
    scene.signal(signal.SIGSTOP, *pids)
    yield scene.draw.uniform(2, 6)
    scene.signal(signal.SIGCONT, *pids)


@fault("network of the training")
def worker_gone(scene: Scene) -> Iterator[float]:
    scene.signal(signal.SIGKILL, *scene.workers()[:1])
    yield 1.0


@fault("network of the training")
def garbage_at_the_ports_of_a_worker(scene: Scene) -> Iterator[float]:
    for port in _ports_of(scene.workers()):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            connection.sendall(scene.draw.randbytes(2000))
    yield 0.5


@fault("misuse")
def tags_that_make_no_sense(scene: Scene) -> Iterator[float]:
    tags = (
        "min=0",
        "min=9,max=1",
        "grow=1e300",
        "weight=nan",
        "kind=tasks,shortest=-1",
        "min=" + "9" * 500,
        "\x1b[2J",
    )
    for tag in scene.draw.sample(tags, 3):
        _of_stranger(
            scene, "sbatch", "--hold", "--array=0-1", "--requeue", "-p", "freetrain", f"--comment=freetrain:{tag}"
        )
    yield 2.0
    _of_stranger(scene, "scancel", "-u", STRANGER)


@fault("misuse", launcher="steer")
def own_tasks_released_by_hand(scene: Scene) -> Iterator[float]:
    found = _of_stranger(
        scene, "sbatch", "--parsable", "--hold", "--array=0-9", "-N1", "-t5", "--requeue", "-p", "freetrain",
        "--comment=freetrain:kind=tasks",
    )  # fmt: skip
    if array := found.strip():
        _of_stranger(scene, "scontrol", "release", array)
        yield 3.0
        _of_stranger(scene, "scancel", array)


@fault("misuse")
def arrays_that_come_and_go(scene: Scene) -> Iterator[float]:
    for _ in range(3):
        found = _of_stranger(
            scene, "sbatch", "--parsable", "--hold", "--array=0-99", "-N1", "--requeue", "-p", "freetrain",
            "--comment=freetrain:min=1",
        )  # fmt: skip
        yield 1.0
        _of_stranger(scene, "scancel", found.strip() or "0")


@fault("misuse")
def flood_of_nudges(scene: Scene) -> Iterator[float]:
    path = str(scene.state / "nudge")
    for _ in range(200):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(0.05)
            connection.connect(path)
    yield 0.5


@fault("misuse")
def progress_of_a_stranger_that_is_no_file(scene: Scene) -> Iterator[float]:
    directory = scene.site.out / "strange"
    subprocess.run(scene.site.command("stranger", "mkdir", "-p", str(directory)), capture_output=True)
    subprocess.run(
        scene.site.command("stranger", "mkfifo", str(directory / "progress.jsonl")), capture_output=True
    )
    _of_stranger(
        scene, "sbatch", "--hold", "--array=0-1", "--requeue", "-p", "freetrain",
        f"--comment=freetrain:min=1,dir={directory}",
    )  # fmt: skip
    yield 3.0
    _of_stranger(scene, "scancel", "-u", STRANGER)


@fault("people")
def nodes_drained_and_lent_again(scene: Scene) -> Iterator[float]:
    nodes = f"n[001-{scene.draw.randrange(2, NODES):03}]"
    scene.site.freetrain("root", "drain", nodes)
    yield scene.draw.uniform(1, 4)
    scene.site.freetrain("root", "undrain", nodes)


@fault("people")
def panic(scene: Scene) -> Iterator[float]:
    scene.site.freetrain("root", "panic", "--yes")
    yield scene.draw.uniform(1, 4)
    (scene.state / "STOP").unlink(missing_ok=True)


@fault("people")
def pause_and_resume(scene: Scene) -> Iterator[float]:
    scene.site.freetrain("root", "pause", "--for", "1h")
    yield scene.draw.uniform(1, 3)
    scene.site.freetrain("root", "resume")


def _cut(scene: Scene, program: str, cut: str) -> Iterator[float]:
    scene.programs.break_(program, cut)
    yield scene.draw.uniform(2, TIMEOUT_S + 3) if cut == "hang" else scene.draw.uniform(1, 4)
    scene.programs.mend()


FAULTS.extend(
    Fault(
        "Slurm's commands",
        f"{program}: {cut}",
        partial(_cut, program=program, cut=cut),
        launcher=LAUNCHER_OF.get(program, ""),
    )
    for program in CUT_PROGRAMS
    for cut in CUTS
)


def _of_stranger(scene: Scene, *command: str) -> str:
    with suppress(RuntimeError):
        script = "#!/bin/bash\nsleep 5\n" if command[0] == "sbatch" else ""
        return scene.site.run("stranger", *command, *(("-o", "/dev/null") if script else ()), stdin=script)
    return ""


def _ports_of(pids: list[int]) -> list[int]:
    shown = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
    lines = [line for line in shown.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    return [int(line.split()[3].rpartition(":")[2]) for line in lines]
