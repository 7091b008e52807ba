"""How one worker's part in a training ends: with the training, before it, or by a break of the script's loop."""

from __future__ import annotations

import logging

from freetrain.elastic.errors import CheckpointError, Departed, as_exit
from freetrain.elastic.membership.session import Session
from freetrain.elastic.training.records import Records
from freetrain.elastic.training.worlds import Worlds
from freetrain.elastic.worlds.replica import this_replica
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError

log = logging.getLogger(__name__)


class Departure:
    """What has to be written, and by whom, before this worker says goodbye.

    Args:
        session: of this worker.
        worlds: those it has been in.
        records: of the training.
    """

    def __init__(self, session: Session, worlds: Worlds, records: Records) -> None:
        self._session = session
        self._worlds = worlds
        self._records = records
        self._has_finished = False

    def finish(self, world: World) -> None:
        """The training is over in this world.

        Raises:
            Departed: this worker did not see it through.
        """
        if world.replica != 0 and not self._worlds.sees_it_through:
            raise Departed("the training was complete before this worker's first step")
        self._has_finished = True
        if world.replica == 0:
            self._records.finish()

    def end_well(self, world: World | None, step: int, loop: str) -> None:
        """The script has ended: try once more what could not be written, and do not let a break pass in silence.

        Args:
            world: the present one; None: there was none.
            step: the last one that is complete.
            loop: what the script's loop is over.

        Raises:
            StateError: it can still not be written.
            InputError: the script left its loop before the end.
        """
        self._records.finish_at_last()
        if self._worlds.has_state and not self._has_finished:
            if world is not None and world.replica == 0:
                self._records.save()
            raise InputError(
                f"the script left the loop over {loop} in step {step + 1}, which is lost; the "
                f"training is not complete.",
                "Call run.stop() in place of 'break': all workers then end at the end of that step.",
            )

    def depart(self, departed: Departed, world: World | None) -> None:
        """Say goodbye; the last of a world that nobody continues writes the checkpoint.

        Who starts anew waits for the goodbye, and so for what is written before.
        """
        self._records.wait()
        if world is not None and self._worlds.has_state and departed.code == 0:
            self._save_if_last(world, departed)
        log.info("%s", departed.reason)
        self._session.say_goodbye(departed.reason)

    def _save_if_last(self, world: World, departed: Departed) -> None:
        if departed.in_step:
            # The first of them may be the one that does not come.
            is_last = this_replica().shards == 1 and not self._session.goes_on(world)
        else:
            is_last = this_replica().any(self._session.is_last_of(world))
        if not is_last:
            return
        try:
            self._records.save()
        except CheckpointError as error:
            self._session.say_goodbye(departed.reason)
            raise as_exit(error) from None
