"""Records that rank 0 writes: rates and changes, checkpoints, and that the training is complete.

Checkpoints of a sharded model are written by its whole replica.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from freetrain.elastic.errors import CheckpointError
from freetrain.elastic.membership.identity import given_by_slurm
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.files import write_json
from freetrain.elastic.on_disk.progress import ProgressWriter
from freetrain.elastic.training.checkpoints import Checkpoints, StateCopy
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.worlds.replica import this_replica
from freetrain.elastic.worlds.world import World
from freetrain.errors import StateError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The script's options for records, as :class:`freetrain.elastic.script.loop.Loop` has them."""

    progress_every_s: float
    checkpoint_every_s: float
    keep_checkpoints: int
    background_checkpoints: bool


class Records:
    """The records of one training; each rank has them, and rank 0 uses them.

    One checkpoint is written at a time. The process does not end before what was begun is written; if it is
    killed, the checkpoint before is the newest. Where none is written in the background, the training waits and no
    memory is needed for a copy.
    """

    def __init__(self, directory: TrainerDirectory, state: TrainingState, options: RecordOptions) -> None:
        self._directory = directory
        self._state = state
        self._progress = ProgressWriter(directory.progress_path, options.progress_every_s)
        self._replica = this_replica()
        self._checkpoints = Checkpoints(directory.checkpoints, options.keep_checkpoints)
        if self._replica.is_joined:
            # Imported here: it brings torch.distributed.checkpoint along.
            from freetrain.elastic.training.sharded_checkpoints import ShardedCheckpoints

            folder = directory.checkpoints
            self._checkpoints = ShardedCheckpoints(folder, options.keep_checkpoints, self._replica, state.mesh)
        self._options = options
        self._copy = StateCopy()
        # Not a daemon thread: Python waits for an executor's before it ends.
        self._thread = ThreadPoolExecutor(1, "freetrain-checkpoint")
        self._being_written: Future[Path] | None = None
        self._checkpointed_s = time.monotonic()
        self._wants_checkpoint = False
        self._paused_since_s: float | None = None
        self._is_unfinished = False
        self._world: World
        self._nodes = 0

    def enter(self, world: World, nodes: int) -> None:
        """A world begins, with so many agents."""
        self._world, self._nodes = world, nodes
        self._progress.start()

    def pause(self) -> None:
        """The world's last step is over, or was lost; only the first word of it counts."""
        self._paused_since_s = self._paused_since_s or time.perf_counter()

    def resume(self) -> None:
        """The training goes on."""
        if self._paused_since_s is None:
            return
        pause_s = time.perf_counter() - self._paused_since_s
        self._paused_since_s = None
        if self._world.rank == 0:
            generation = self._world.generation
            self._progress.write_event(
                "rescale",
                generation=generation.number,
                world=generation.world,
                nodes=self._nodes,
                cause=generation.cause,
                step=self._state.step,
                pause_s=pause_s,
            )

    def add(self, samples: int, wait_s: float, exposed_s: float, *, wants_checkpoint: bool) -> None:
        """Rank 0 has completed a step of so many samples, having waited so long for data and for gradients."""
        # Workers with the other shards of its model come here as well, as they write checkpoints with it.
        if self._world.rank == 0:
            self._progress.add(samples, wait_s, exposed_s)
            if self._progress.due or self._paused_since_s is not None:
                self.write_rate()
        self._wants_checkpoint |= wants_checkpoint
        if self._world.rank == 0:
            self._wants_checkpoint |= time.monotonic() - self._checkpointed_s >= self._options.checkpoint_every_s
        if self._replica.shards == 1:
            is_time = not self._is_writing
        else:
            # They begin it together, though one of them alone may know that it is due.
            is_time = self._replica.any(self._wants_checkpoint and not self._is_writing)
            self._wants_checkpoint |= is_time
        if is_time:
            self._checkpoint()

    @property
    def _is_writing(self) -> bool:
        return self._being_written is not None and not self._being_written.done()

    def _checkpoint(self) -> None:
        """Warn if the one before could not be written, and start the next one if it is due."""
        try:
            self._finish_writing()
            if self._wants_checkpoint:
                self._wants_checkpoint = False
                self._checkpointed_s = time.monotonic()
                state, step = self._state.capture(), self._state.step
                if self._options.background_checkpoints:
                    self._being_written = self._thread.submit(self._checkpoints.save, self._copy.of(state), step)
                else:
                    self._checkpoints.save(state, step)
        except CheckpointError as error:
            log.warning("%s The training goes on; the next one is tried on schedule.", error.what)

    def _finish_writing(self) -> None:
        """Wait until what was begun is on disk; raises CheckpointError if it could not be written."""
        being_written, self._being_written = self._being_written, None
        if being_written is not None:
            being_written.result()

    def write_rate(self) -> None:
        """A line on the steps since the last one."""
        self._progress.write_rate(
            generation=self._world.generation.number,
            world=self._world.size,
            nodes=self._nodes,
            step=self._state.step,
            epoch=self._state.sampler.epoch,
            samples_done=self._state.samples_done,
            servers=len(self._world.generation.servers),
            **given_by_slurm(),
        )

    def save(self) -> None:
        """Write a checkpoint after the one under way, and return when it is on disk; raises CheckpointError."""
        self.wait()
        self._checkpoints.save(self._state.capture(), self._state.step)

    def wait(self) -> None:
        """Wait until no checkpoint is being written any more."""
        try:
            self._finish_writing()
        except CheckpointError as error:
            log.warning("%s", error.what)

    def load(self) -> bool:
        """Go on from the newest checkpoint; False if there is none; raises CheckpointError if none can be used."""
        saved = self._checkpoints.load_newest()
        if saved is None:
            return False
        try:
            self._state.restore(saved)
        # load_state_dict() raises these where names, shapes or groups are others.
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"the checkpoints in {self._directory.checkpoints} are of another model: {error}",
                "Give each trainer a directory of its own, or move the old checkpoints away.",
            ) from error
        log.info("resumed at step %d", self._state.step)
        return True

    def finish(self) -> None:
        """The training is complete. What follows the script's loop is run in any case: it may save its model."""
        try:
            self._finish()
        except StateError as error:
            self._is_unfinished = True
            log.warning("%s It is tried once more when the script ends.", error.what)

    def finish_at_last(self) -> None:
        """Try once more, if it could not be written before; raises StateError if it still cannot be written."""
        if self._replica.any(self._is_unfinished):
            self._finish()

    def _finish(self) -> None:
        """Write the last checkpoint, and only then the file that the daemon reads."""
        is_first = self._world.rank == 0
        if is_first:
            self.write_rate()
        self.save()
        facts = {"time_s": time.time(), "step": self._state.step, "samples_done": self._state.samples_done}
        if is_first:
            # The daemon reads it, under an account of its own.
            write_json(self._directory.finished_path, facts, mode=0o644)
