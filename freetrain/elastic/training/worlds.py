"""The way from one world to the next: all members of a world go on from the same state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from freetrain.elastic.errors import EVICTED_STATUS, Departed, LostRankError
from freetrain.elastic.feeding.feeder import Feeder
from freetrain.elastic.feeding.newcomer import Newcomer
from freetrain.elastic.membership.session import Session
from freetrain.elastic.training.records import Records
from freetrain.elastic.training.state import TrainingState, broadcast_rest, broadcast_state, part_random_streams
from freetrain.elastic.worlds.device import give_back_memory
from freetrain.elastic.worlds.exchange import broadcast_bytes, decode, encode, gather_announced, gather_bytes
from freetrain.elastic.worlds.world import World

log = logging.getLogger(__name__)

# Steps after which a world has all the memory that it needs.
_SETTLED_AFTER_STEPS = 3


class RankPosition(NamedTuple):
    """Position of one rank in the training, as numbers that all ranks exchange at the start of a world."""

    has_state: int  # 0 for a newcomer
    step: int  # steps completed
    updates: int  # made in the step under way
    exchanges: int  # completed
    exchanges_now: int  # whether it waits for the results of one
    stopped: int  # knows that the training was asked to end
    fed: int  # has the state by being fed, and no world has taken it in before
    broke: int  # comes out of a world that broke in the middle of a step

    @property
    def place(self) -> tuple[int, int, int]:
        """Place in the training: the higher, the further."""
        return self.has_state, self.step, self.updates


@dataclass(slots=True)
class Exchange:
    """This rank's content, and the contents of all ranks once they are known."""

    content: bytes
    results: list[bytes] | None = None


class Worlds:
    """One worker's position in the training, and its way from world to world; ``on_world``: ElasticTraining's."""

    def __init__(
        self, state: TrainingState, on_world: Callable[[World | None], object], session: Session, records: Records
    ) -> None:
        self.feeder = Feeder(state, session)
        self.has_state = False  # it has been in a world that shared its state
        self.stopped = False  # it knows that the training was asked to end
        self.sees_it_through = False  # it has made a step, or was there when the training started or resumed
        self._state = state
        self._on_world = on_world
        self._session = session
        self._records = records
        self._newcomer = Newcomer(state, session)
        self._has_others_random = False
        self._was_fed = False
        self._broke = False
        self._is_settled = False
        self._steps_here = 0
        self._joined: int | None = None
        self._exchange: Exchange | None = None
        self._last_results: list[bytes] = []

    def step_done(self) -> None:
        """Note that this worker has completed a step."""
        self.sees_it_through = True
        self._records.resume()
        self._steps_here += 1
        if self._steps_here == _SETTLED_AFTER_STEPS:
            give_back_memory()

    def enter(self, broke_with: BaseException | None) -> World:
        """Form worlds until one holds, and bring all its members to the same state.

        ``broke_with`` says why the world before does not hold; None if it changes as planned, or there was none.
        """
        self._broke = broke_with is not None
        self._steps_here = 0
        if not self.has_state:
            self.has_state = self._has_others_random = self._was_fed = self._newcomer.follow()
        while True:
            self._on_world(None)
            # Gradients of a step that was lost would be added to those of its repetition.
            self._state.clear_gradients()
            try:
                world = self._session.reform(broke_with, self._state.step, self.feeder.release)
            except BaseException:
                self.feeder.close()
                raise
            broke_with = None
            # Ranks that differ are judged by the first world in which each of them was.
            self._joined = world.joined = self._joined or world.joined
            try:
                self._share_state(world)
                self._on_world(world)
                self.feeder.after_update()
            except LostRankError as error:
                log.info("generation %d lost a rank at once: %s", world.generation.number, error)
                broke_with = error
                continue
            self._records.enter(world, self._session.nodes)
            return world

    # -- between steps

    def exchange(self, content: bytes, world: World) -> tuple[list[bytes], World]:
        """Contents of all ranks, in order of rank, and the world in which they were exchanged.

        If a rank is lost meanwhile, the ranks that are left repeat it in the next world. Newcomers to that world,
        and members that have come to their next step already, wait there until all the others have, too.
        """
        self._exchange = Exchange(content)
        try:
            if self._is_settled:
                self._exchange.results = gather_announced(content, world)
            else:
                self._share_state(world)
        except LostRankError as error:
            world = self.enter(error)
        results, self._exchange = self._exchange.results or [], None
        self._last_results = results
        self._state.exchanges += 1
        return results, world

    def settle(self, world: World) -> World:
        """Let in the newcomers that wait since an exchange; the world in which all then go on."""
        try:
            if not self._is_settled:
                self._share_state(world)
        except LostRankError as error:
            return self.enter(error)
        return world

    # -- the state

    def _share_state(self, world: World) -> None:
        """All go on from the same state, unless a rank has to finish an exchange before."""
        self._is_settled = False
        while True:
            rows = [RankPosition(*row) for row in world.gather(list(self._row()))]
            # Again and again: another rank may wait in the exchange after this one.
            if not any(row.exchanges_now for row in rows):
                break
            self._complete_exchange(rows, world)
            if self._exchange is not None and self._exchange.results is not None:
                return
        self._share_state_of(rows, world)
        self._is_settled = True

    def _row(self) -> RankPosition:
        state = self._state
        if not self.has_state:
            return RankPosition(0, 0, 0, 0, 0, int(self.stopped), 0, 0)
        now = int(self._exchange is not None)
        fed, broke = int(self._was_fed), int(self._broke)
        return RankPosition(1, state.step, state.updates, state.exchanges, now, int(self.stopped), fed, broke)

    def _complete_exchange(self, rows: list[RankPosition], world: World) -> None:
        """Complete the exchange that some rank waits for: other ranks may have its results already."""
        done = max(row.exchanges for row in rows)
        waits = [bool(row.exchanges_now) and row.exchanges < done for row in rows]
        mine = self._exchange
        # Some ranks had the results before the world broke: the others get these, and not another exchange's.
        if any(waits):
            source = next(rank for rank, row in enumerate(rows) if row.exchanges == done)
            content = encode(self._last_results) if world.rank == source else None
            results = decode(broadcast_bytes(content, source, world))
        else:
            waits = [bool(row.exchanges_now) for row in rows]
            results = gather_bytes(mine.content if mine is not None else b"", world)
        if mine is not None and waits[world.rank]:
            mine.results = results

    def _share_state_of(self, rows: list[RankPosition], world: World) -> None:
        """All go on from the replica that is furthest, or from the last checkpoint if none remembers anything."""
        # A replica is as far as all of its ranks are.
        starts = range(0, len(rows), world.shards)
        places = [min(row.place for row in rows[start : start + world.shards]) for start in starts]
        furthest = max(places)
        source = places.index(furthest)
        is_start = not furthest[0]
        if is_start and world.replica == 0:
            self._restore_newest()
            self._state.check()
        if is_start or any(row.place != furthest for row in rows):
            # Newcomers that are being fed could not follow what comes now.
            self.feeder.close()
            broadcast_state(self._state, source, world)
            self._has_others_random = world.rank != source * world.shards
        elif any(row.broke for row in rows) and any(row.fed for row in rows):
            # Scripts change schedules and the like also within a step, and newcomers know those of its beginning.
            knows = next(rank for rank, row in enumerate(rows) if row.broke) // world.shards
            broadcast_rest(self._state, knows, world, takes=self._was_fed)
        # A state that was copied has its source's random numbers, and all ranks would drop out the same units.
        if self._has_others_random:
            part_random_streams(world.rank)
        self.has_state = True
        self._has_others_random = self._was_fed = False
        # One rank may know of it from a world that broke before the others heard.
        self.stopped = any(row.stopped for row in rows)
        self.sees_it_through = self.sees_it_through or is_start

    def _restore_newest(self) -> None:
        """Go on from the newest checkpoint, or with the model as the script made it."""
        # One of them may still be writing the last checkpoint.
        self._session.wait_for_leavers()
        if not self._records.load() and self._newcomer.is_mixed:
            # It is replaced by one that has no parts of a training that is lost.
            raise Departed("all who had the training's state were lost before this worker had it", EVICTED_STATUS)
