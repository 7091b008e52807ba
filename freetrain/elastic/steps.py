"""The next step of a training: which samples, and which of them are this rank's."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.elastic.agreement import Ballot, Verdict, count
from freetrain.elastic.batching import FixedBatch, ScaledBatch, passes_of, share_of
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.loading import Loader
from freetrain.elastic.model import ElasticModel
from freetrain.elastic.state import TrainingState
from freetrain.elastic.step import Step
from freetrain.elastic.world import World


class Steps:
    """Makes one step after the other, while the data of the one after it are fetched.

    Args:
        state: of the training, whose sampler says what comes next.
        batch: samples per step.
        model: the model.
        loader: of the data.
    """

    def __init__(
        self, state: TrainingState, batch: FixedBatch | ScaledBatch, model: ElasticModel, loader: Loader
    ) -> None:
        self._state = state
        self._batch = batch
        self._model = model
        self._loader = loader

    def next(self, world: World) -> Step:
        """The step that comes now."""
        sampler, per_step = self._state.sampler, self._batch.per_step(world.size)
        ids = sampler.peek(per_step)
        passes = self._passes(ids, world)
        self._loader.prepare([*passes, *self._passes(sampler.peek(per_step, skip=per_step), world)])
        return Step(self._state.step + 1, sampler.epoch, ids, passes, self._model, self._loader.get)

    def apply(self, step: Step, world: World, ballot: Ballot) -> Verdict:
        """Step the optimizer while all ranks agree on what comes next.

        Raises:
            LostRankError: a rank was lost meanwhile; this one has completed the step nevertheless.
        """
        try:
            agreement = world.start_sum(ballot.numbers())
        except LostRankError:
            self._state.complete_step(len(step.ids))
            raise
        self._state.complete_step(len(step.ids))
        return count(agreement.wait(), world.size)

    def _passes(self, ids: Sequence[int], world: World) -> list[Sequence[int]]:
        """This rank's part of a step, pass by pass."""
        return passes_of(share_of(ids, world.rank, world.size), self._batch.at_most_per_pass)
