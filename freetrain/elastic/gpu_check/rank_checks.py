"""Checks of several ranks, which are processes that come, go, are killed and hang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self

import torch

from freetrain import elastic
from freetrain.elastic.gpu_check.checks import NotPossibleError, small_model
from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE

_LOST_AFTER_S = 3
_WORKER = "freetrain.elastic.gpu_check.rank_checks"


def two_ranks_on_one_device(device: torch.device) -> str:
    """Whether a GPU can have more than one worker."""
    with RankProcesses(device, same_device=True) as ranks:
        ranks.start(2)
        if ranks.await_world(2):
            return "two ranks train on one device"
        if ranks.printed("Duplicate GPU"):
            raise NotPossibleError("NCCL refuses two ranks on one device, so that a GPU can have one worker only")
        raise AssertionError(f"two ranks on one device do not train: {ranks.last_words()}")


def _several(device: torch.device) -> None:
    if device.type == "cuda" and torch.cuda.device_count() < 2:
        raise NotPossibleError("needs two devices")


def joins_and_leaves(device: torch.device) -> str:
    """A second rank comes and goes, and is killed."""
    _several(device)
    with RankProcesses(device) as ranks:
        ranks.start(1)
        ranks.require_world(1, "no world of one")
        ranks.start(1)
        ranks.require_world(2, "no world of two")
        ranks.leave(1)
        ranks.require_world(1, "it did not leave")
        ranks.start(1)
        ranks.require_world(2, "no world of two again")
        ranks.kill(2)
        ranks.require_world(1, "nobody goes on after a loss")
        pauses = ", ".join(f"{pause_s:.2f}" for pause_s in ranks.pauses_s())
        return f"pauses of {pauses} s: join, leave, join, kill -9"


def hung_peer(device: torch.device) -> str:
    """A rank that is stopped in the middle of a sum is given up, and the other one gets out of it."""
    _several(device)
    with RankProcesses(device) as ranks:
        ranks.start(2)
        ranks.require_world(2, "no world of two")
        ranks.stop(1)
        ranks.require_world(1, "the other one hangs")
        return f"out of it, and on in {ranks.pauses_s()[-1]:.1f} s"


class RankProcesses:
    """A training in a temporary directory; used as a context, in whose end all of it ends.

    Args:
        same_device: all have the first one.
    """

    def __init__(self, device: torch.device, *, same_device: bool = False) -> None:
        self._device = device
        self._same_device = same_device
        self._folder = tempfile.TemporaryDirectory(prefix="freetrain-gpu-check-", ignore_cleanup_errors=True)
        self._root = Path(self._folder.name)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for log in self._logs:
            log.close()
        self._folder.cleanup()

    def start(self, count: int) -> None:
        """Start so many ranks."""
        for _ in range(count):
            place = len(self._processes)
            environment = {
                TRAINER_VARIABLE: str(self._trainer),
                "FREETRAIN_MEMBER": f"rank-{place}",
                "FREETRAIN_LOST_AFTER_S": str(_LOST_AFTER_S),
                LOCAL_RANK_VARIABLE: "0" if self._same_device else str(place % max(1, torch.cuda.device_count())),
                "OMP_NUM_THREADS": "1",
            }
            log = (self._root / f"rank-{place}.log").open("wb")
            self._logs.append(log)
            command = [sys.executable, "-m", _WORKER, self._device.type]
            process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
            self._processes.append(process)

    def leave(self, place: int) -> None:
        """Ask one to leave."""
        TrainerDirectory.open(self._trainer).leave(f"rank-{place}")

    def kill(self, place: int) -> None:
        """Without a warning."""
        self._processes[place].kill()

    def stop(self, place: int) -> None:
        """It is there, and does nothing."""
        self._processes[place].send_signal(signal.SIGSTOP)

    def await_world(self, size: int, patience_s: float = 120.0) -> bool:
        """Whether a world of this size trains within this time."""
        return self._await(lambda: self._world_size() == size, patience_s)

    def require_world(self, size: int, otherwise: str) -> None:
        """Wait until a world of this size trains; raises AssertionError, with a rank's last line, if none does."""
        if not self.await_world(size):
            raise AssertionError(f"{otherwise}: {self.last_words()}")

    def pauses_s(self) -> list[float]:
        """Pauses of all changes."""
        return [float(line["pause_s"]) for line in self._progress() if line["event"] == "rescale"]

    def printed(self, words: str) -> bool:
        """Whether a rank has printed these words."""
        return any(words in log for log in self._outputs())

    def last_words(self) -> str:
        """The last line that any of them printed."""
        return next((log.strip().splitlines()[-1] for log in self._outputs() if log.strip()), "nobody says why")

    @property
    def _trainer(self) -> Path:
        return self._root / "trainer"

    def _world_size(self) -> int:
        """Size of the world that did the last steps reported; 0 before the first."""
        return next((int(line["world"]) for line in reversed(self._progress())), 0)

    def _progress(self) -> list[dict[str, Any]]:
        path = self._trainer / "progress.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def _outputs(self) -> list[str]:
        return [path.read_text(errors="replace") for path in sorted(self._root.glob("rank-*.log"))]

    def _await(self, condition: Callable[[], bool], patience_s: float) -> bool:
        until_s = time.monotonic() + patience_s
        while not condition():
            # Where all have ended nothing comes any more.
            if time.monotonic() > until_s or not any(process.poll() is None for process in self._processes):
                return condition()
            time.sleep(0.1)
        return True


def main() -> None:
    """Train on this kind of device."""
    device = torch.device("cpu") if sys.argv[1] == "cpu" else elastic.device()
    torch.set_num_threads(1)
    model, optimizer = small_model(device)
    batch = elastic.FixedBatch(16)
    with elastic.Run(model, optimizer, 10**6, batch, epochs=1000, progress_every_s=0.5) as run:
        for step in run.steps():
            for ids in step:
                inputs = torch.sin(ids[:, None] * torch.arange(1, 33) / 50.0).to(device)
                step.backward(run.model(inputs).square().mean())
            time.sleep(0.01)


if __name__ == "__main__":
    main()
