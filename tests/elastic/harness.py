"""Trainers made of real processes, each of them gone when the test is over."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from freetrain.elastic.on_disk.directory import TrainerDirectory
from tests.elastic.forking import PATIENCE_S, Forked

SCRIPTS = Path(__file__).parent / "scripts"
FREETRAIN = [sys.executable, "-m", "freetrain"]


@dataclass
class Log:
    """A worker's log as far as it has been read."""

    path: Path
    read_bytes: int = 0
    records: list[dict] = field(default_factory=list)

    def read(self) -> list[dict]:
        """All records, a half-written last line left out."""
        if self.path.exists():
            with self.path.open("rb") as log:
                log.seek(self.read_bytes)
                lines, newline, _ = log.read().rpartition(b"\n")
            self.read_bytes += len(lines) + len(newline)
            self.records += [json.loads(line) for line in lines.splitlines()]
        return self.records


class Workers:
    """Worker processes of one trainer, without agents; the test is the agent."""

    workers_each = 1

    def __init__(self, tmp_path: Path, script: str = "counting.py", **environment: str) -> None:
        self.root = tmp_path / "trainer"
        self.out = tmp_path / "out"
        self.out.mkdir(exist_ok=True)
        self.script = script
        self.environment = {
            "FREETRAIN_LOST_AFTER_S": "8",
            "FREETRAIN_POLL_S": "0.03",  # many workers share few cores
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self.processes: dict[str, subprocess.Popen[str] | Forked] = {}
        self._count = 0
        self._servers = 0
        self._logs: dict[Path, Log] = {}

    @property
    def directory(self) -> TrainerDirectory:
        return TrainerDirectory.open(self.root)

    def start(self, count: int = 1, **environment: str) -> list[str]:
        names = [f"w{number}" for number in range(self._count, self._count + count)]
        self._count += count
        for name in names:
            self._start(name, environment)
        return names

    def serve(self, count: int = 1) -> list[str]:
        """Start servers."""
        names = [f"s{number}" for number in range(self._servers, self._servers + count)]
        self._servers += count
        for name in names:
            self._start(name, {"FREETRAIN_SERVER": "1"})
        return names

    def _start(self, name: str, environment: Mapping[str, str]) -> None:
        facts = {"FREETRAIN_TRAINER": str(self.root), "FREETRAIN_MEMBER": name, "OUT": str(self.out)}
        self.processes[name] = Forked(
            SCRIPTS / self.script, os.environ | self.environment | facts | environment, self.out / name
        )

    def leave(self, *names: str) -> None:
        for name in names:
            self.directory.leave(name)

    def kill(self, *names: str) -> None:
        for name in names:
            self.processes[name].kill()
        for name in names:
            self.processes[name].wait()

    def stop(self, name: str) -> None:
        os.kill(self.processes[name].pid, signal.SIGSTOP)

    def ranks(self) -> tuple[str, ...]:
        return self.directory.view().current

    def servers(self) -> tuple[str, ...]:
        """Those of the latest world that are not gone."""
        view = self.directory.view()
        servers = view.generation.servers if view.generation else ()
        return tuple(name for name in servers if name not in view.gone)

    def await_servers(self, *names: str) -> None:
        self.wait_until(lambda: set(self.servers()) == set(names), f"world with the servers {names}")

    def wake(self, name: str) -> None:
        """Who was stopped and has been given up must notice and end by itself."""
        self.processes[name].send_signal(signal.SIGCONT)
        assert self.finish(name)[name] == 75

    def records(self, *names: str) -> list[dict]:
        """What these workers logged (all, by default)."""
        return [record for records in self._by_worker(*names) for record in records]

    def _by_worker(self, *names: str) -> list[list[dict]]:
        paths = [self.out / f"{name}.jsonl" for name in names] or self.out.glob("*.jsonl")
        return [self._logs.setdefault(path, Log(path)).read() for path in paths]

    def last_step(self, *names: str) -> int:
        return max((records[-1]["step"] for records in self._by_worker(*names) if records), default=0)

    def last_step_of(self, name: str) -> int:
        return self.last_step(name)

    def await_world(self, size: int, steps: int = 3, patience_s: float = PATIENCE_S) -> None:
        """Wait until a world of this size has completed some steps more."""
        after = self.last_step()

        def done() -> bool:
            # Not through all that was logged: trainings of thousands of steps are waited for, too.
            newer = (
                itertools.takewhile(lambda record: record["step"] > after, reversed(records))
                for records in self._by_worker()
            )
            found = itertools.chain.from_iterable(newer)
            return sum(record["world"] == size and record["rank"] == 0 for record in found) >= steps

        self.wait_until(done, f"{steps} steps in a world of {size}", patience_s)

    def wait_until(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        until_s = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < until_s, f"no {what} within {patience_s} s\n{self.errors()}"
            time.sleep(0.02)

    def pace(self, slow: bool) -> None:
        (self.out / "pace").touch() if slow else (self.out / "pace").unlink()

    def finish(self, *names: str, patience_s: float = PATIENCE_S) -> dict[str, int]:
        """Wait for these workers (all that run, by default); their exit statuses."""
        statuses = {}
        until_s = time.monotonic() + patience_s
        for name in names or list(self.processes):
            try:
                statuses[name] = self.processes[name].wait(max(0.1, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.processes[name].send_signal(signal.SIGABRT)
                self.processes[name].wait()
                raise AssertionError(f"{name} hangs\n{self.errors()}") from None
        return statuses

    def error_of(self, name: str) -> str:
        return (self.out / f"{name}.err").read_text()

    def errors(self) -> str:
        return "\n".join(f"{name}: {self.error_of(name)[-2000:]}" for name in self.processes)

    def counts(self) -> list[list[float]]:
        return [json.loads(path.read_text()) for path in sorted(self.out.glob("counts-*.json"))]

    def end(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Agents(Workers):
    """Agents instead of workers; docs/examples are tested with the command that users type."""

    def start_agent(self, *options: str, **environment: str) -> str:
        name = f"agent{len(self.processes)}"
        run = ["run", "--trainer", str(self.root), *options, "--", sys.executable, str(SCRIPTS / self.script)]
        self.processes[name] = Forked(
            SCRIPTS / "agent.py",
            os.environ | self.environment | {"OUT": str(self.out)} | environment,
            self.out / name,
            run,
        )
        return name

    def name_of(self, agent: str) -> str:
        pid = self.directory.agents()[agent]["pid"]
        return next(name for name, process in self.processes.items() if process.pid == pid)

    def hosts(self) -> set[str]:
        """The agents of the latest world's servers."""
        members = self.directory.view().members
        return {self.name_of(members[name].agent) for name in self.servers()}

    def servers_of(self, generation: int) -> list[str]:
        """Of the world with this number."""
        path = self.root / "generations" / f"{generation:08d}.json"
        return list(json.loads(path.read_text())["servers"])

    def poke(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*FREETRAIN, "poke", str(self.root), *options], capture_output=True, text=True, timeout=PATIENCE_S
        )


@contextlib.contextmanager
def workers(tmp_path: Path, script: str = "counting.py", **environment: str) -> Iterator[Workers]:
    trainer = Workers(tmp_path, script, **environment)
    try:
        yield trainer
    finally:
        trainer.end()


def ended_script(script: str | Path, *arguments: str, in_folder: Path, **environment: str) -> Forked:
    """A script of one process that has ended, with its status and all that it printed."""
    process = Forked(SCRIPTS / script, os.environ | environment, in_folder / "script", arguments)
    try:
        process.wait(PATIENCE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process


def printed_by(script: str, *arguments: str, in_folder: Path) -> str:
    """What a script of one process prints that ends well."""
    process = ended_script(script, *arguments, in_folder=in_folder)
    assert process.returncode == 0, process.stderr
    return process.stdout


def losses(trainer: Workers) -> dict[int, float]:
    """Loss by step as all ranks logged it, redone steps too; they must agree. NaN (not known) is left out."""
    found: dict[int, float] = {}
    for record in trainer.records():
        if record["loss"] == record["loss"]:
            assert abs(found.setdefault(record["step"], record["loss"]) - record["loss"]) < 1e-4
    return found


def assert_exactly_once(trainer: Workers, epochs: int, tolerance: float = 1e-2) -> None:
    """Every sample took part in the gradients exactly once per epoch, as the parameters themselves tell.

    The tolerance is for the rounding of single precision, which grows with the epochs.
    """
    counts = trainer.counts()
    assert counts, trainer.errors()
    for seen in counts:
        assert max(abs(count - epochs) for count in seen) < tolerance
    steps_per_epoch = 10
    by_epoch: dict[int, dict[int, list[int]]] = {}
    for record in trainer.records():
        by_epoch.setdefault((record["step"] - 1) // steps_per_epoch, {})[record["step"]] = record["ids"]
    for steps in by_epoch.values():
        ids = [id_ for step in steps.values() for id_ in step]
        assert len(ids) == len(set(ids))
