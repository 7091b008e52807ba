"""One worker's part in a training beside computing: from joining over all worlds to the end."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.errors import (
    CheckpointError,
    Departed,
    LostRankError,
    OddOneOutError,
    OddRankError,
    as_exit,
)
from freetrain.elastic.feeding.newcomer import prewarm, wants_to_be_fed
from freetrain.elastic.membership.session import Session
from freetrain.elastic.on_disk.directory import TrainerDirectory, trainer_from_environment
from freetrain.elastic.timeouts import Timeouts
from freetrain.elastic.training.ballots import Ballot, Samples, StepVerdict, count_ballots
from freetrain.elastic.training.records import RecordOptions, Records
from freetrain.elastic.training.state import TrainingState, groups_of
from freetrain.elastic.training.worlds import Worlds
from freetrain.elastic.worlds.calls import PendingCalls, digest_of
from freetrain.elastic.worlds.device import check_device, device_of, keep_memory, sum_device
from freetrain.elastic.worlds.replica import this_replica
from freetrain.elastic.worlds.world import World
from freetrain.errors import FreetrainError, InputError

log = logging.getLogger(__name__)

# How long it takes at most until a worker that has ended is seen to be gone.
_NOTICE_S = 1.0


class ElasticTraining:
    """A worker's part beside computing: it joins, enters worlds, concludes steps, keeps records and ends.

    Args:
        trainer: the trainer's directory; the agent's if None, a temporary one without agent.
        on_world: called with every world, once all have the same state; with None where there is none any more.
        can_be_fed: whether a newcomer could follow the updates of the others.
    """

    def __init__(
        self,
        state: TrainingState,
        batch: object,
        trainer: Path | None,
        records: RecordOptions,
        on_world: Callable[[World | None], object],
        *,
        can_be_fed: bool,
    ) -> None:
        self.state = state
        self.wants_checkpoint = False
        self.wants_stop = False
        self.broke_with: BaseException | None = None  # why the present world does not hold
        self.world: World
        self.session: Session
        self.worlds: Worlds
        self._samples = Samples(state.module)
        self._verdict: StepVerdict | None = None
        self._on_world = on_world
        self._departed: Departed | None = None
        self._has_finished = False
        self._batch = batch
        self._can_be_fed = can_be_fed
        self._trainer = trainer or trainer_from_environment()
        self._record_options = records
        self._records: Records
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def over(self) -> bool:
        """Whether there are no more steps to make."""
        return self.worlds.stopped or self.state.sampler.finished

    @property
    def is_joined(self) -> bool:
        """Whether this worker has joined the trainer."""
        return hasattr(self, "worlds")

    @property
    def present_world(self) -> World | None:
        """The present world; None before the first one."""
        return getattr(self, "world", None)

    def join(self) -> None:
        """Join the trainer; raises BrokenDeviceError if its device does not compute."""
        keep_memory()
        # Before anything is written: the others must not wait for a worker whose device does not compute.
        check_device(device_of(self.state.module))
        if self._trainer is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="freetrain-")
            self._trainer = Path(self._temporary.name)
        directory = TrainerDirectory.open(self._trainer)
        module = self.state.module
        mark = _fingerprint(module, self.state.sampler, self._batch)
        self._records = Records(directory, self.state, self._record_options)
        is_fed = self._can_be_fed and wants_to_be_fed(self.state)
        self.session = Session(directory, Timeouts.from_environment(), sum_device(module), mark, is_fed=is_fed)
        self.worlds = Worlds(self.state, self._on_world, self.session, self._records)
        # All workers of a replica, or none: they clip together.
        if this_replica().any(bool(directory.view().current)):
            prewarm(self.state)
        self.session.join()

    def enter_world(self) -> World:
        """Form the next world, at whose start all have the same state. A server's process ends in here."""
        if self.session.member.is_server:
            _serve(self.session)
        broke_with, self.broke_with = self.broke_with, None
        self._verdict = None
        self.world = self.worlds.enter(broke_with)
        return self.world

    # -- between steps

    def exchange(self, content: bytes) -> tuple[list[bytes], bool]:
        """Contents of all ranks, and whether that took another world; empty where a rank only waits for a step."""
        before = self.world
        contents, self.world = self.worlds.exchange(content, before)
        return contents, self.world is not before

    def settle(self) -> bool:
        """Let in the workers that came while the script exchanged something; True if that took another world."""
        before = self.world
        self.world = self.worlds.settle(before)
        return self.world is not before

    def meets_all(self) -> bool:
        """Wait for all ranks; False if one is lost, so that another world has to be entered."""
        try:
            self.ask("end of the training").wait()
        except LostRankError as error:
            self.lose_step(error)
        return self.broke_with is None

    # -- steps

    def lose_step(self, error: BaseException) -> None:
        """A rank was lost before the step was complete: it is made again in the next world."""
        self.broke_with = error
        self._records.pause()

    def ask(
        self, what: str, digest: int = 0, loss_share: float = 0.0, *, has_same_parameters: bool = True
    ) -> PendingCalls:
        """Begin to agree on what all do now, and on what comes after this step; LostRankError if a rank was lost.

        Where a backward pass follows, or sums of gradients, it takes no time of its own. What this worker learns
        afterwards waits for the next step. The digest is of all that has to be the same on all ranks, but for the
        place in the training; ``loss_share`` is this rank's part of the step's mean loss.
        """
        state, sampler = self.state, self.state.sampler
        rates = [float(group.get("lr", 0.0)) for group in groups_of(*state.optimizers)]
        values = self._samples.at(state.step + 1) if has_same_parameters else []
        ballot = Ballot(self.session.change_due, self.wants_stop, loss_share, rates, values)
        place = digest_of(state.step, state.updates, sampler.epoch, sampler.position, digest)
        return self.world.ask(what, place, payload=ballot.pack())

    def agree(self, asked: PendingCalls) -> None:
        """Take in the ballots of all ranks; raises LostRankError, or OddOneOutError if this rank differs."""
        try:
            self._verdict = count_ballots(asked, self.state.step + 1, self.world.shards)
        except OddRankError as error:
            # It may be these ranks that are wrong: what they agree on is kept, whatever comes.
            self.wants_checkpoint |= error.was_there_first
            raise

    def conclude(self) -> StepVerdict:
        """The step is complete, but for what all know of it; ``change``: another world has to be entered."""
        verdict = StepVerdict(change=True, stop=False, loss=float("nan"))
        if self.broke_with is None:
            try:
                if self._verdict is None:  # gradients were summed in the world before
                    self.agree(self.ask("end of a step"))
                verdict = self._verdict or verdict
                self.worlds.stopped |= verdict.stop
            except LostRankError as error:
                self.broke_with = error
        self._verdict = None
        self.worlds.step_done()
        change = self.broke_with is not None or (verdict.change and not self.over)
        if change:
            self._records.pause()
        return dataclasses.replace(verdict, change=change)

    def record(self, samples: int, wait_s: float, exposed_s: float) -> None:
        """Rank 0 notes the step; it, or its replica, writes what is due."""
        self.world.waited_s += exposed_s
        wants_checkpoint, self.wants_checkpoint = self.wants_checkpoint, False
        if self.world.replica == 0:
            self._records.add(samples, wait_s, exposed_s, wants_checkpoint=wants_checkpoint)

    # -- ends

    def finish(self) -> None:
        """The training is over in this world; raises Departed if this worker has not seen it through."""
        if self.world.replica != 0 and not self.worlds.sees_it_through:
            raise Departed("the training was complete before this worker's first step")
        self._has_finished = True
        if self.world.replica == 0:
            self._records.finish()

    @contextlib.contextmanager
    def ending_the_process(self) -> Iterator[None]:
        """Errors that users can mend end the process with sentences, and so does a departure, without any."""
        try:
            yield
        except FreetrainError as error:
            raise as_exit(error) from None
        except Departed as departed:
            self._depart(departed)
            raise

    def _depart(self, departed: Departed) -> None:
        """Say goodbye, once; the last worker of a world that nobody continues writes the checkpoint."""
        if self._departed is departed:
            return
        self._departed = departed
        # Before the goodbye: a worker that starts the training again waits for that, and reads what is written.
        self._records.wait()
        world = self.present_world
        if world is not None and self.worlds.has_state and departed.code == 0:
            if departed.in_step:
                # The first of them may be the one that does not come.
                is_last = this_replica().shards == 1 and not self.session.goes_on(world)
            else:
                is_last = this_replica().any(self.session.is_last_of(world))
            if is_last:
                try:
                    self._records.save()
                except CheckpointError as error:
                    self.session.say_goodbye(departed.reason)
                    raise as_exit(error) from None
        log.info("%s", departed.reason)
        self.session.say_goodbye(departed.reason)

    def is_replica_lost(self, error: BaseException | None) -> bool:
        """Whether an error of the script comes from the loss of a worker that has another shard of its model."""
        session = self.session
        if this_replica().shards == 1 or not isinstance(error, RuntimeError):
            return False
        return session.wait_for(lambda view: session.member.id in view.gone, _NOTICE_S)

    def leave(self, error: BaseException | None, loop: str) -> None:
        """The script has ended, with this error or well (None); its loop is named for the message."""
        reason = "finished" if error is None else f"ended with {type(error).__name__}: {error}"
        if isinstance(error, FreetrainError) and error.hint:
            error.add_note(error.hint)  # where it is raised within the script's own step, its traceback is shown
        self.worlds.feeder.close()
        self._on_world(None)
        try:
            if error is None:
                self._end_well(loop)
            elif isinstance(error, OddOneOutError):
                raise error
            elif isinstance(error, Departed):
                self._depart(error)
        except FreetrainError as unfinished:
            raise as_exit(unfinished) from None
        finally:
            self.session.say_goodbye(reason)
            self._records.wait()
            if self._temporary is not None:
                self._temporary.cleanup()

    def _end_well(self, loop: str) -> None:
        """The script has ended: try once more what could not be written, and report a break out of its loop."""
        self._records.finish_at_last()
        if self.worlds.has_state and not self._has_finished:
            world = self.present_world
            if world is not None and world.replica == 0:
                self._records.save()
            raise InputError(
                f"the script left the loop over {loop} in step {self.state.step + 1}, which is lost; the "
                f"training is not complete.",
                "Call run.stop() in place of 'break': all workers then end at the end of that step.",
            )


def _fingerprint(module: torch.nn.Module, sampler: Sampler, batch: object) -> str:
    """``model=… data=… batch=… script=…``, each with a digest."""
    try:
        # Parsed: another comment or line break makes no other training.
        path = getattr(sys.modules["__main__"], "__file__", None)
        script = ast.dump(ast.parse(Path(path or "").read_bytes()))
    except (OSError, SyntaxError, ValueError):
        script = ""  # there is no file of it
    shapes = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in module.state_dict().items()]
    parts = {
        "model": shapes,
        "data": (sampler.samples, sampler.shuffle, sampler.drop_last),
        "batch": batch,
        "script": script,
    }
    return " ".join(
        f"{name}={hashlib.sha256(repr(fact).encode()).hexdigest()[:12]}" for name, fact in parts.items()
    )


def _serve(session: Session) -> NoReturn:
    """Go from world to world with the workers, and add up the gradients that they send, until Departed ends it."""
    broke_with: BaseException | None = None
    sums = 0
    while True:
        world = session.reform(broke_with, sums, lambda _: None)
        try:
            while True:
                world.servers.serve()
                sums += 1
        except LostRankError as error:
            # Workers that leave a world as agreed close their connections, too.
            log.info("generation %d has ended: %s", world.generation.number, error)
            broke_with = error
