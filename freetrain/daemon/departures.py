"""Trainings that left Slurm while no daemon looked: each is settled once, at the first looks of the next one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from freetrain.core.fragment import End, Fragment
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.daemon.external_actions import record_cancelled, who_cancelled
from freetrain.slurm.errors import SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)

_BY_ITSELF = frozenset((End.COMPLETED, End.FAILED, End.TIMED_OUT, End.NODE_FAILED))

_MOST_QUESTIONS = 5
"""To accounting, at one look."""


@dataclass(frozen=True, slots=True)
class Departure:
    """One of them.

    Attributes:
        id: of its array.
        owner: whose it was.
        end: of the fragment that ended last; None: it never had one.
    """

    id: str
    owner: str
    end: End | None

    @property
    def is_cancelled(self) -> bool:
        """Whether nothing but that somebody cancelled it explains that it is gone."""
        return self.end not in _BY_ITSELF


class Departures:
    """Finds out what became of trainings that were there at the last look of the daemon before.

    What happens to a training while a daemon looks is seen in Slurm itself, which shows jobs for some minutes
    after their end (MinJobAge).

    Args:
        ledger: knows the trainings and their fragments.
        gateway: the way to accounting.
        known: those that were there.
    """

    def __init__(self, ledger: Ledger, gateway: Gateway, known: Iterable[str] = ()) -> None:
        self._ledger = ledger
        self._gateway = gateway
        self.unsettled = frozenset(known)

    def look(self, present: Collection[str], now_s: float) -> list[Departure]:
        """Those that can be settled now; the others stay unsettled until accounting knows how they ended."""
        self.unsettled -= frozenset(present)
        if not self.unsettled:
            return []
        known = self._ledger.trainers(self.unsettled)
        busy = {fragment.trainer for fragment in self._ledger.open_fragments()}
        last = {fragment.trainer: fragment for fragment in self._ledger.last_ended_fragments(known)}
        settled, questions = list[Departure](), 0
        for id_, trainer in sorted(known.items()):
            departure = Departure(id_, trainer.owner, _last_end(trainer, last.get(id_)))
            questions += departure.is_cancelled
            if id_ not in busy and questions <= _MOST_QUESTIONS and self._settle(departure, trainer, now_s):
                settled.append(departure)
        self.unsettled &= known.keys() - {departure.id for departure in settled}
        return settled

    def _settle(self, one: Departure, trainer: KnownTrainer, now_s: float) -> bool:
        """Write down what became of it; whether that could be found out."""
        if one.end is End.COMPLETED:
            self._ledger.save_trainers([replace(trainer, state=TrainerState.COMPLETE, note="")])
        elif one.is_cancelled:
            try:
                found = who_cancelled(self._gateway, one.id)
            except SlurmRefusedError:  # there is no accounting here
                found = frozenset()
            except SlurmError:
                return False
            if found:
                record_cancelled(self._ledger, now_s, one.id, one.owner, found)
        log.info(
            "trainer %s of %s has left Slurm while no daemon looked; its last fragment: %s",
            one.id, one.owner, one.end or "none",
        )  # fmt: skip
        return True


def _last_end(trainer: KnownTrainer, last: Fragment | None) -> End | None:
    if trainer.state is TrainerState.COMPLETE:
        return End.COMPLETED
    return last.end if last is not None else None
