"""Actions of owners and admins on trainings by Slurm's means, seen by the daemon, or done while none looked."""

from __future__ import annotations

import logging
import pwd
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End
from freetrain.core.job import JobState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.daemon.trainers.training import Training
from freetrain.slurm import queries
from freetrain.slurm.comments import asked_to_resume
from freetrain.slurm.errors import SlurmError, SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import parse_cancellers
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)

# Accounting learns of a cancelled job a moment later than slurmctld.
_MOST_TRIES = 3
# A daemon that was killed since may have written it down already, so far back in the audit.
_LATELY = 100
_SEEN = "seen in Slurm"


@dataclass(frozen=True, slots=True)
class _Cancelled:
    """A training whose cancellation is not written down yet."""

    id: str
    owner: str
    tries: int = 0


class ExternalActions:
    """Compares what each look shows of the trainings with what the last one did.

    Slurm shows who cancelled a job only in accounting, which is asked once a look at most. It shows nowhere who
    changed a comment, but lets only the owner and operators do so.
    """

    def __init__(self, gateway: Gateway, ledger: Ledger) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._before: Mapping[str, Training] = {}
        self._cancelled: list[_Cancelled] = []

    def look(self, trainings: Iterable[Training], snapshot: Snapshot) -> None:
        """Write down what has been done since the last look."""
        now = {training.id: training for training in trainings}
        for id_, training in now.items():
            before, asked = self._before.get(id_), asked_to_resume(training.submission.comment)
            if before is not None and asked not in (0, asked_to_resume(before.submission.comment)):
                actor = _owner_or_operator(training.trainer.owner)
                self._ledger.record_command(snapshot.time_s, (), f"freetrain resume {id_}", None, _SEEN, actor)
        cancelled = {job.array for job in snapshot.jobs if job.state is JobState.CANCELLED}
        self._cancelled += [
            _Cancelled(id_, training.trainer.owner)
            for id_, training in self._before.items()
            if id_ in cancelled and id_ not in now and training.trainer.state is not TrainerState.COMPLETE
        ]
        self._before = now
        if self._cancelled:
            self._settle(self._cancelled.pop(0), snapshot.time_s)

    def _settle(self, cancelled: _Cancelled, now_s: float) -> None:
        """Ask who cancelled it, and write it down; later, where accounting does not know of it yet."""
        try:
            found, tries = who_cancelled(self._gateway, cancelled.id), cancelled.tries + 1
        except SlurmRefusedError:
            found, tries = frozenset(), _MOST_TRIES
        except SlurmError:
            found, tries = frozenset(), cancelled.tries + 1
        if found or tries >= _MOST_TRIES:
            record_cancelled(self._ledger, now_s, cancelled.id, cancelled.owner, found)
        else:
            self._cancelled.append(replace(cancelled, tries=tries))


def who_cancelled(gateway: Gateway, training: str) -> frozenset[int]:
    """Numbers of the users who cancelled it or some of it, as far as accounting knows.

    Raises:
        SlurmRefusedError: there is no accounting here.
        SlurmError: it does not answer.
    """
    return parse_cancellers(gateway.perform(queries.ask_who_cancelled(training)))


def record_cancelled(ledger: Ledger, now_s: float, training: str, owner: str, found: frozenset[int]) -> None:
    """Write down that a training was cancelled, unless a daemon that was killed since has done so."""
    what = f"training {training} of {owner} was cancelled"
    if all(row.why != what for row in ledger.newest_commands(_LATELY)):
        actor = ", ".join(sorted(map(_name, found))) or _owner_or_operator(owner)
        ledger.record_command(now_s, (), what, None, _SEEN, actor)


def _owner_or_operator(owner: str) -> str:
    return f"{owner} or an operator"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"


_BY_ITSELF = frozenset((End.COMPLETED, End.FAILED, End.TIMED_OUT, End.NODE_FAILED))
# To accounting at one look, which must not take long after a long outage.
_MOST_QUESTIONS = 5


@dataclass(frozen=True, slots=True)
class Departure:
    """A training that has left Slurm; ``end`` is that of its last fragment, None: it never had one."""

    id: str
    owner: str
    end: End | None

    @property
    def is_cancelled(self) -> bool:
        """Whether only a cancellation explains that it is gone."""
        return self.end not in _BY_ITSELF


class Departures:
    """Finds out what became of trainings that were there at the last look of the daemon before.

    What happens to a training while a daemon looks is seen in Slurm itself, which shows jobs for some minutes
    after their end (MinJobAge).
    """

    def __init__(self, ledger: Ledger, gateway: Gateway, known: Iterable[str] = ()) -> None:
        self._ledger = ledger
        self._gateway = gateway
        self.unsettled = frozenset(known)

    def look(self, present: Collection[str], now_s: float) -> list[Departure]:
        """Settle and return the departures that can be; the others wait until accounting knows how they ended."""
        self.unsettled -= frozenset(present)
        if not self.unsettled:
            return []
        known = self._ledger.trainers(self.unsettled)
        busy = {fragment.trainer for fragment in self._ledger.open_fragments()}
        ends = {fragment.trainer: fragment.end for fragment in self._ledger.last_ended_fragments(known)}
        ends |= {id_: End.COMPLETED for id_, trainer in known.items() if trainer.state is TrainerState.COMPLETE}
        settled, questions = list[Departure](), 0
        for id_, trainer in sorted(known.items()):
            departure = Departure(id_, trainer.owner, ends.get(id_))
            questions += departure.is_cancelled
            if id_ not in busy and questions <= _MOST_QUESTIONS and self._settle(departure, trainer, now_s):
                settled.append(departure)
        self.unsettled &= known.keys() - {departure.id for departure in settled}
        return settled

    def _settle(self, departure: Departure, trainer: KnownTrainer, now_s: float) -> bool:
        """Write down what became of it, and return whether that could be found out."""
        if departure.end is End.COMPLETED:
            self._ledger.save_trainers([replace(trainer, state=TrainerState.COMPLETE, note="")])
        elif departure.is_cancelled:
            try:
                found = who_cancelled(self._gateway, departure.id)
            except SlurmRefusedError:
                # There is no accounting here.
                found = frozenset()
            except SlurmError:
                return False
            if found:
                record_cancelled(self._ledger, now_s, departure.id, departure.owner, found)
        log.info(
            "trainer %s of %s has left Slurm while no daemon looked; its last fragment: %s",
            departure.id, departure.owner, departure.end or "none",
        )  # fmt: skip
        return True
