"""Several ranks of one training, processes that a check starts, stops and kills."""

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
from types import TracebackType
from typing import IO, Any, Self

import torch

from freetrain.elastic.on_disk.directory import TRAINER_VARIABLE, TrainerDirectory
from freetrain.elastic.on_disk.members import LOCAL_RANK_VARIABLE

_LOST_AFTER_S = 3
_WORKER = "freetrain.elastic.gpu_check.worker"


class Ranks:
    """A training in a temporary directory; used as a context, in whose end all of it ends.

    Args:
        device: its kind; each rank has a device of its own.
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
        """Nobody is there yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all."""
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
        return self._await(lambda: self._told_world() == size, patience_s)

    def require_world(self, size: int, otherwise: str) -> None:
        """Wait until a world of this size trains.

        Raises:
            AssertionError: none does; it says ``otherwise``, and what the ranks said last.
        """
        if not self.await_world(size):
            raise AssertionError(f"{otherwise}: {self.last_words()}")

    def pauses_s(self) -> list[float]:
        """Of all changes."""
        return [float(line["pause_s"]) for line in self._progress() if line["event"] == "rescale"]

    def said(self, words: str) -> bool:
        """Whether a rank has complained in these words."""
        return any(words in log for log in self._told())

    def last_words(self) -> str:
        """The last line that any of them said."""
        return next((log.strip().splitlines()[-1] for log in self._told() if log.strip()), "nobody says why")

    @property
    def _trainer(self) -> Path:
        return self._root / "trainer"

    def _told_world(self) -> int:
        """Ranks of the world that did the last steps that were told; 0 before the first."""
        return next((int(line["world"]) for line in reversed(self._progress())), 0)

    def _progress(self) -> list[dict[str, Any]]:
        path = self._trainer / "progress.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def _told(self) -> list[str]:
        return [path.read_text(errors="replace") for path in sorted(self._root.glob("rank-*.log"))]

    def _await(self, condition: Callable[[], bool], patience_s: float) -> bool:
        until_s = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > until_s or not any(process.poll() is None for process in self._processes):
                return condition()
            time.sleep(0.1)
        return True
