"""From one world to the next, all of whose members go on from the same state."""

from __future__ import annotations

import logging

from freetrain.elastic.errors import EVICTED_STATUS, Departed, LostRankError
from freetrain.elastic.feeding.feeder import Feeder
from freetrain.elastic.feeding.newcomer import Newcomer
from freetrain.elastic.memory import give_back_memory
from freetrain.elastic.model import ElasticModel
from freetrain.elastic.records import Records
from freetrain.elastic.session import Session
from freetrain.elastic.state import TrainingState, broadcast_state, part_random_streams
from freetrain.elastic.world import World

log = logging.getLogger(__name__)


class Worlds:
    """Where one worker stands, and how it comes into the next world.

    Args:
        state: of this worker; that of all once it is in a world.
        model: wrapped anew for each world.
        session: forms the worlds.
        records: of the training.

    Attributes:
        feeder: brings newcomers to this worker's state.
        has_state: whether it has been in a world that shared its state.
        stopped: whether it knows that the training was asked to end.
        sees_it_through: whether it has made a step, or was there when the training started or resumed.
    """

    def __init__(self, state: TrainingState, model: ElasticModel, session: Session, records: Records) -> None:
        self.feeder = Feeder(state, session)
        self.has_state = False
        self.stopped = False
        self.sees_it_through = False
        self._state = state
        self._model = model
        self._session = session
        self._records = records
        self._newcomer = Newcomer(state, session)
        self._has_others_random = False

    @property
    def over(self) -> bool:
        """Whether the training is."""
        return self.stopped or self._state.sampler.finished

    def stop(self, world: World) -> None:
        """All ranks of this world end the training.

        Nobody goes before it knows that the others know, as they would train on without it. If a rank is lost
        meanwhile, those who are left tell each other in the next world.

        Raises:
            LostRankError: a rank was lost meanwhile.
        """
        self.stopped = True
        world.gather([1])

    def step_done(self) -> None:
        """This worker has completed a step."""
        self.feeder.after_update()
        self.sees_it_through = True
        self._records.resume()

    def enter(self, broke_with: BaseException | None) -> World:
        """Form worlds until one holds, and bring all its members to the same state.

        Args:
            broke_with: why the world before does not hold; None if it changes as planned, or there was none.
        """
        if not self.has_state:
            self.has_state = self._has_others_random = self._newcomer.follow()
        while True:
            self._model.leave()
            # The gradients are views into the old wrapper's buckets.
            self._state.optimizer.zero_grad(set_to_none=True)
            give_back_memory()
            try:
                world = self._session.reform(broke_with, self._state.step, self.feeder.release)
            except BaseException:
                self.feeder.close()
                raise
            broke_with = None
            try:
                self._share_state(world)
                self._model.enter(world)
                self.feeder.after_update()
            except LostRankError as error:
                log.info("generation %d lost a rank at once: %s", world.generation.number, error)
                broke_with = error
                continue
            self._records.enter(world, self._session.nodes)
            return world

    def _share_state(self, world: World) -> None:
        """All go on from the one that is furthest, or from the last checkpoint if nobody remembers anything."""
        step = self._state.step if self.has_state else 0
        rows = world.gather([int(self.has_state), step, int(self.stopped)])
        places = [row[:2] for row in rows]
        furthest = max(places)
        source = places.index(furthest)
        anew = furthest[0] == 0
        if anew and world.rank == 0:
            self._start_anew()
        if anew or any(place != furthest for place in places):
            self.feeder.close()  # what they have been sent is not followed by this
            broadcast_state(self._state, source, world)
            self._has_others_random = world.rank != source
        if self._has_others_random:
            part_random_streams(world.rank)
        self.has_state = True
        self._has_others_random = False
        self.stopped = any(row[2] for row in rows)
        self.sees_it_through = self.sees_it_through or anew

    def _start_anew(self) -> None:
        """From the newest checkpoint, or as the script made the model.

        Raises:
            Departed: there is none, and this worker has parts of a training that is lost. It is to be replaced.
        """
        self._session.wait_for_leavers()
        if not self._records.load() and self._newcomer.is_mixed:
            raise Departed("all who had the training's state were lost before this worker had it", EVICTED_STATUS)
