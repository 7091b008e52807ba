"""A training that is never left in peace: nothing hangs, nothing is lost, nothing is counted twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.elastic.harness import Workers, assert_exactly_once, workers

pytestmark = pytest.mark.slow

MOST = 4
EPOCHS_PER_CHANGE = 4


class Chaos:
    """Changes the membership at random, and knows who should be in."""

    def __init__(self, trainer: Workers, seed: int) -> None:
        self.trainer = trainer
        self.random = random.Random(seed)
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
        self.trainer.await_world(len(self.inside), steps=2)
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
            if len(self.inside) < MOST:
                self.inside += self.trainer.start(1)
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
        (newcomer,) = self.trainer.start(1)
        replacement = self.trainer.start(1)
        self.trainer.wait_until(lambda: newcomer in self.trainer.ranks(), "the newcomer's generation")
        time.sleep(self.random.uniform(0.0, 0.03))
        self.trainer.kill(newcomer)
        self.inside += replacement

    def _wake(self) -> None:
        """Who was stopped and has been given up must notice and end by itself."""
        for name in self.stopped:
            self.trainer.processes[name].send_signal(signal.SIGCONT)
            assert self.trainer.finish(name)[name] == 75
        self.stopped = []


def soak(tmp_path: Path, changes: int, seed: int) -> Counter[str]:
    epochs = changes * EPOCHS_PER_CHANGE
    environment = {"FREETRAIN_LOST_AFTER_S": "4", "CHECKPOINT_EVERY_S": "1", "EPOCHS": str(epochs)}
    with workers(tmp_path, **environment) as trainer:
        trainer.pace(slow=True)
        chaos = Chaos(trainer, seed)
        for _ in range(changes):
            chaos.change()
        trainer.pace(slow=False)
        chaos.let_finish()
        assert_exactly_once(trainer, epochs, tolerance=0.4)
        return chaos.done


def test_a_short_soak(tmp_path: Path) -> None:
    assert sum(soak(tmp_path, changes=12, seed=1).values()) == 12


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_random_changes_of_membership(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED", "0"))
    done = soak(tmp_path, changes=200, seed=seed)
    print(f"seed {seed}: {dict(done)}")
    assert sum(done.values()) == 200
    assert len(done) == 8
