"""The next step of a training: which samples, and which of them are this rank's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from freetrain.elastic.data.batching import FixedBatch, ScaledBatch, passes_of, share_of
from freetrain.elastic.data.loading import Loader
from freetrain.elastic.script.model import ElasticModel
from freetrain.elastic.script.step import Step
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


class Steps:
    """Makes one step after the other, while the data of the one after it are fetched.

    Args:
        state: of the training, whose sampler says what comes next.
        batch: samples per step.
        model: the model.
        loader: of the data.
        vote: begins the agreement of each step.
    """

    def __init__(
        self,
        state: TrainingState,
        batch: FixedBatch | ScaledBatch,
        model: ElasticModel,
        loader: Loader,
        vote: Callable[[float], None],
    ) -> None:
        self._state = state
        self._batch = batch
        self._model = model
        self._loader = loader
        self._vote = vote
        self._latest: Step | None = None
        self._is_short = False

    def next(self, world: World) -> Step | None:
        """The step that comes now; None: what is left is not enough for one.

        Raises:
            InputError: not even a whole epoch is.
        """
        sampler, per_step = self._state.sampler, self._batch.per_step(world.size)
        if sampler.drop_last and sampler.samples < per_step:
            raise InputError(
                f"a step takes {per_step} samples, and an epoch has only {sampler.samples}: with drop_last=True "
                "nothing is left to train on.",
                "Take smaller steps, or do without drop_last.",
            )
        while not (ids := sampler.peek(per_step)):
            sampler.end_epoch()
            if sampler.finished:
                return None
        passes = self._passes(ids, world)
        self._loader.prepare([*passes, *self._passes(sampler.peek(per_step, skip=per_step), world)])
        self._is_short = len(ids) < per_step
        number, get = self._state.step + 1, self._loader.get
        self._latest = Step(number, sampler.epoch, ids, passes, self._model, get, self._vote)
        return self._latest

    def explain(self, error: BaseException) -> None:
        """Add to an error of the script's what may be its reason: some layers cannot train on one sample."""
        step = self._latest
        if isinstance(error, Exception) and step is not None and self._is_short and step.has_lone_sample:
            error.add_note(
                f"freetrain: step {step.number}, the last of its epoch, has only {len(step.ids)} samples, and "
                "this rank has one of them at a time. Some layers, BatchNorm for one, cannot train on that: "
                "elastic.Run(..., drop_last=True) leaves such steps out."
            )

    def _passes(self, ids: Sequence[int], world: World) -> list[Sequence[int]]:
        """This rank's part of a step, pass by pass."""
        return passes_of(share_of(ids, world.rank, world.size), self._batch.at_most_per_pass)
