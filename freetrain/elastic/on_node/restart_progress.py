"""Progress of a training in restart mode: starts and sizes always, rates where its steps can be watched."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.on_disk.progress import Progress
from freetrain.elastic.on_node.watched_steps import WatchedSteps

_FIRST_STEP_POLL_S = 0.2


class RestartProgress:
    """Writes what the first agent of each generation sees.

    Args:
        path: of the progress.
        steps: where to read how far the script is; None: nowhere.
        samples_per_step: over all ranks.
        every_s: seconds between two lines.
        now_s: the clock.
    """

    def __init__(
        self,
        path: Path,
        steps: WatchedSteps | None = None,
        samples_per_step: int = 1,
        every_s: float = 5.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = Progress(path)
        self._steps = steps
        self._samples_per_step = samples_per_step
        self._every_s = every_s
        self._now_s = now_s
        self._paused_since_s: float | None = None
        self._started_s = 0.0
        self._save_s: float | None = None
        self._looked_s = self._since_s = now_s()
        self._generation: Generation | None = None
        self._world = 0
        self._step = 0
        self._trains = False

    def pause(self) -> None:
        """The workers are about to be ended."""
        self.look(at_once=True)
        self._paused_since_s = self._now_s()
        self._generation = None

    def end(self) -> None:
        """The workers have ended, or their time is up."""
        if self._paused_since_s is not None:
            self._save_s = self._now_s() - self._paused_since_s

    def start(self, generation: Generation, world: int) -> None:
        """This generation's workers have been started, so many in all; this agent is its first."""
        self._generation, self._world = generation, world
        self._trains = False
        self._started_s = self._now_s()
        self._step = self._latest()
        if self._steps is None:
            self._tell_start()

    def look(self, *, at_once: bool = False) -> None:
        """See how far the script is, when it is time to, and write a line on it."""
        now_s = self._now_s()
        rest_s = self._every_s if self._trains else _FIRST_STEP_POLL_S
        if self._steps is None or self._generation is None or (now_s - self._looked_s < rest_s and not at_once):
            return
        self._looked_s = now_s
        step = self._latest()
        if step == self._step:
            return
        if not self._trains:
            self._tell_start()
        elif step > self._step:
            self._tell_rate(step, now_s)
        # Fewer steps than before: the script went back to its checkpoint.
        self._step, self._since_s, self._trains = step, now_s, True

    def _latest(self) -> int:
        return (self._steps.latest() if self._steps else None) or 0

    def _tell_start(self) -> None:
        assert self._generation is not None
        now_s = self._now_s()
        parts: dict[str, float] = {
            "pause_s": 0.0 if self._paused_since_s is None else now_s - self._paused_since_s
        }
        if self._save_s is not None:
            parts["save_s"] = self._save_s
        if self._steps is not None:
            parts["start_s"] = now_s - self._started_s
        self._paused_since_s = self._save_s = None
        cause = self._generation.cause
        self._progress.write_event("rescale", **self._facts(self._step), cause=cause, **parts)

    def _tell_rate(self, step: int, now_s: float) -> None:
        steps, elapsed_s = step - self._step, now_s - self._since_s
        samples = steps * self._samples_per_step
        self._progress.write_event(
            "rate",
            **self._facts(step),
            epoch=0,
            samples_done=step * self._samples_per_step,
            samples=samples,
            elapsed_s=elapsed_s,
            samples_per_s=samples / elapsed_s,
            step_s=elapsed_s / steps,
            compute_s=elapsed_s / steps,
            communication_s=0.0,
            data_wait_share=0.0,
        )

    def _facts(self, step: int) -> dict[str, int]:
        assert self._generation is not None
        nodes = len(self._generation.members)
        return {"generation": self._generation.number, "world": self._world, "nodes": nodes, "step": step}
