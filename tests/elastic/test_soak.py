"""A training that is never left in peace: nothing hangs, nothing is lost, nothing is counted twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

from tests.elastic.harness import PATIENCE_S, Agents, Workers, assert_exactly_once, workers
from tests.elastic.scripts.sharded import BATCH

pytestmark = pytest.mark.slow

MOST = 4
MOST_SERVERS = 2
EPOCHS_PER_CHANGE = 4
SHARDED_EPOCHS_PER_CHANGE = 2


class Chaos:
    """Changes the membership at random, and knows who should be in."""

    def __init__(self, trainer: Workers, seed: int, most: int = MOST) -> None:
        self.trainer = trainer
        self.most = most
        self.random = random.Random(seed)
        self.feeding = random.Random(seed)
        self.inside: list[str] = []
        self.stopped: list[str] = []
        self.done: Counter[str] = Counter()

    def change(self) -> None:
        """One change, or two at once; then the training must go on in the world that remains."""
        names = ["join", "leave", "kill", "kill on arrival", "stop", "two at once", "all killed", "all left"]
        name = self.random.choices(names, weights=[10, 5, 6, 3, 2, 5, 1, 1])[0]
        if name == "two at once":
            self._one(self.random.choice(["join", "leave", "kill"]))
            self._one(self.random.choice(["join", "leave", "kill"]))
        elif name == "kill on arrival":
            self._kill_on_arrival()
        else:
            self._one(name)
        self.done[name] += 1
        if not self.inside:
            self._one("join")
        self.trainer.wait_until(self._all_inside, f"world of {self.inside}")
        self.trainer.await_world(len(self.inside) * self.trainer.workers_each, steps=2)
        self._wake()

    def let_finish(self) -> None:
        """Nobody disturbs any more: the training must come to its end without ever standing still."""
        processes = [self.trainer.processes[name] for name in self.inside]
        while any(process.poll() is None for process in processes):
            done = self.trainer.last_step_of(self.inside[0])
            self.trainer.wait_until(
                lambda done=done: (
                    self.trainer.last_step_of(self.inside[0]) > done
                    or all(process.poll() is not None for process in processes)
                ),
                "progress",
            )
        assert {process.wait() for process in processes} == {0}, self.trainer.errors()

    def _all_inside(self) -> bool:
        return set(self.trainer.ranks()) == set(self.inside)

    def _one(self, name: str) -> None:
        if name == "join" or not self.inside:
            if len(self.inside) < self.most:
                self.inside += self._start()
            return
        some = self.inside[:] if name.startswith("all") else [self.random.choice(self.inside)]
        self.inside = [worker for worker in self.inside if worker not in some]
        if name in ("leave", "all left"):
            self.trainer.leave(*some)
        elif name in ("kill", "all killed"):
            self.trainer.kill(*some)
        else:
            self.trainer.stop(*some)
            self.stopped += some

    def _kill_on_arrival(self) -> None:
        """Somebody vanishes from a world that is still forming, and another one comes in its place."""
        (newcomer,) = self._start()
        replacement = self._start()
        self.trainer.wait_until(lambda: newcomer in self.trainer.ranks(), "the newcomer's generation")
        time.sleep(self.random.uniform(0.0, 0.03))
        self.trainer.kill(newcomer)
        self.inside += replacement

    def _start(self) -> list[str]:
        """A newcomer, which is fed before it joins, or gets the state when it does."""
        return self.trainer.start(1, FREETRAIN_FEED_FROM_MB=self.feeding.choice(["0", "1000"]))

    def _wake(self) -> None:
        for name in self.stopped:
            self.trainer.wake(name)
        self.stopped = []


class ServerChaos(Chaos):
    """Servers come, leave and are killed as well, before the workers do or at once with them."""

    def __init__(self, trainer: Workers, seed: int) -> None:
        super().__init__(trainer, seed)
        self.servers: list[str] = []

    def change(self) -> None:
        name = self.random.choices(["serve", "server leaves", "server killed", "servers stay"], [4, 2, 2, 4])[0]
        if name == "serve" and len(self.servers) < MOST_SERVERS:
            self.servers += self.trainer.serve()
        elif name in ("server leaves", "server killed") and self.servers:
            server = self.servers.pop(self.random.randrange(len(self.servers)))
            (self.trainer.leave if name == "server leaves" else self.trainer.kill)(server)
        self.done[name] += 1
        if self.random.random() < 0.5 and self.inside:  # servers alone are no world
            self.trainer.await_servers(*self.servers)
        super().change()

    def _all_inside(self) -> bool:
        return super()._all_inside() and set(self.trainer.servers()) == set(self.servers)


class Nodes(Agents):
    """Nodes of two workers each, which share a model: what is done to one worker is done to its node."""

    workers_each = 2

    def start(self, count: int = 1, **environment: str) -> list[str]:
        return [self.start_agent("--nproc", "2", "--max-restarts", "0", **environment) for _ in range(count)]

    def ranks(self) -> tuple[str, ...]:
        view = self.directory.view()
        return tuple(dict.fromkeys(self.name_of(view.members[id_].agent) for id_ in view.current))

    def leave(self, *names: str) -> None:
        for name in names:
            self.processes[name].send_signal(signal.SIGTERM)

    def kill(self, *names: str) -> None:
        for name in names:
            os.kill(random.choice(self._pids_of(name)), signal.SIGKILL)
        for name in names:
            assert self.processes[name].wait(PATIENCE_S) in (0, 1), self.errors()

    def stop(self, name: str) -> None:
        os.kill(random.choice(self._pids_of(name)), signal.SIGSTOP)

    def wake(self, name: str) -> None:
        """Its agent has not waited for that."""
        assert self.finish(name)[name] == 1

    def last_step_of(self, name: str) -> int:
        return self.last_step()

    def _pids_of(self, name: str) -> list[int]:
        """Of those of its workers that have joined, for which it waits."""
        found: list[int] = []
        while len(found) < self.workers_each:
            members = self.directory.view().members.values()
            found = [member.pid for member in members if self.name_of(member.agent) == name]
            time.sleep(0.02)
        return found


def soak(tmp_path: Path, changes: int, seed: int, make: type[Chaos] = Chaos) -> Counter[str]:
    epochs = changes * EPOCHS_PER_CHANGE
    environment = {"FREETRAIN_LOST_AFTER_S": "4", "CHECKPOINT_EVERY_S": "1", "EPOCHS": str(epochs)}
    with workers(tmp_path, **environment) as trainer:
        trainer.pace(slow=True)
        chaos = make(trainer, seed)
        for _ in range(changes):
            chaos.change()
        trainer.pace(slow=False)
        chaos.let_finish()
        assert_exactly_once(trainer, epochs, tolerance=0.4)
        return chaos.done


@pytest.mark.soak
def test_a_short_soak(tmp_path: Path) -> None:
    assert sum(soak(tmp_path, changes=12, seed=1).values()) == 12


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_changes_of_nodes_with_a_sharded_model(tmp_path: Path) -> None:
    seed, changes = int(os.environ.get("SOAK_SEED", "0")), int(os.environ.get("SOAK_CHANGES", "200"))
    epochs = changes * SHARDED_EPOCHS_PER_CHANGE
    environment = {"FREETRAIN_LOST_AFTER_S": "4", "CHECKPOINT_EVERY_S": "1", "EPOCHS": str(epochs)}
    trainer = Nodes(tmp_path, "sharded.py", **environment)
    try:
        trainer.pace(slow=True)
        chaos = Chaos(trainer, seed, most=3)
        for _ in range(changes):
            chaos.change()
        trainer.pace(slow=False)
        chaos.let_finish()
    finally:
        trainer.end()
    print(f"seed {seed}: {dict(chaos.done)}")
    for path in trainer.out.glob("model-*.pt"):
        seen = torch.load(path)["seen"] * BATCH
        assert (seen - epochs).abs().max() < 0.4
    assert list(trainer.out.glob("model-*.pt"))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_random_changes_of_membership(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED", "0"))
    done = soak(tmp_path, changes=200, seed=seed)
    print(f"seed {seed}: {dict(done)}")
    assert sum(done.values()) == 200
    assert len(done) == 8


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_changes_of_workers_and_of_servers(tmp_path: Path) -> None:
    seed, changes = int(os.environ.get("SOAK_SEED", "0")), int(os.environ.get("SOAK_CHANGES", "200"))
    done = soak(tmp_path, changes, seed, ServerChaos)
    print(f"seed {seed}: {dict(done)}")
    assert done["serve"] + done["server leaves"] + done["server killed"] + done["servers stay"] == changes
