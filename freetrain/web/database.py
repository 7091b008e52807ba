"""What the page shows of the daemon's database, which it reads and never writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer
from freetrain.errors import FreetrainError
from freetrain.store.engine import sensible
from freetrain.store.journal import DecisionSummary
from freetrain.store.ledger import DAEMON_COMMAND
from freetrain.store.store import Store
from freetrain.store.tables import CommandRow
from freetrain.web.over_time import NodeLease

_MAX_FRAGMENTS, _MAX_DECISIONS, _MAX_COMMANDS = 100_000, 12, 200
MAX_COMMAND_GROUPS, _MAX_REASONS = 20, 3


@dataclass(frozen=True, slots=True)
class TrainerResize:
    """How many nodes a training had before a decision, and after it."""

    trainer: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class DecisionChanges:
    """A decision by its name, as ``12:480``, with how many took part and what it changed."""

    name: str
    summary: DecisionSummary
    trainers: int
    resizes: tuple[TrainerResize, ...]


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands that were given for one reason, by the decision that led to them; ``time_s`` is the last one's."""

    time_s: float
    actor: str
    why: str
    decision: str | None
    result: str
    commands: int


@dataclass(frozen=True, slots=True)
class DaemonHistory:
    """What the database tells: decisions and commands are the last, newest first; or why it is not known."""

    stays: tuple[NodeLease, ...] = ()
    trainers: Mapping[str, KnownTrainer] = field(default_factory=dict)
    decisions: tuple[DecisionChanges, ...] = ()
    commands: tuple[CommandGroup, ...] = ()
    harms: tuple[Harm, ...] = ()
    why_not: str = ""


def read_history(path: Path, since_s: float, trainers: Collection[str]) -> DaemonHistory:
    """What the daemon's database tells from then on."""
    if not path.exists():
        return DaemonHistory(why_not=f"there is no database {path}")
    try:
        with sensible(path):
            return _read(Store.open_read_only(path), since_s, trainers)
    except FreetrainError as error:
        return DaemonHistory(why_not=error.what)


def _read(store: Store, since_s: float, trainers: Collection[str]) -> DaemonHistory:
    ledger = store.ledger()
    return DaemonHistory(
        stays=tuple(map(NodeLease._make, ledger.lent_nodes(since_s, _MAX_FRAGMENTS))),
        trainers=ledger.trainers(trainers),
        decisions=_decisions(store),
        commands=_command_groups(ledger.newest_commands(_MAX_COMMANDS)),
        harms=tuple(ledger.harms(since_s)),
    )


def _decisions(store: Store) -> tuple[DecisionChanges, ...]:
    run = store.newest_run(DAEMON_COMMAND)
    if run is None:
        return ()
    newest = store.decisions(run, _MAX_DECISIONS, newest_first=True)
    return tuple(_decided(store.path, run, summary) for summary in newest)


@lru_cache(maxsize=4 * _MAX_DECISIONS)
def _decided(path: Path, run: int, summary: DecisionSummary) -> DecisionChanges:
    """With what it changed; no decision is another one later, so each is unpacked once."""
    problem, decision = Store.open_read_only(path).decision(run, summary.number)
    resizes = (
        TrainerResize(trainer.id, int(before), len(decision.placement.get(trainer.id, ())))
        for trainer, before in zip(problem.trainers, problem.held_nodes, strict=True)
    )
    changed = tuple(resize for resize in resizes if resize.before != resize.after)
    return DecisionChanges(f"{run}:{summary.number}", summary, len(problem.trainers), changed)


def _command_groups(newest: list[CommandRow]) -> tuple[CommandGroup, ...]:
    """Commands that followed each other by the same decision, or for the same reason, together."""
    groups = []
    for (actor, _, result), group in groupby(
        newest, key=lambda row: (row.actor, row.decision or row.why, row.result)
    ):
        rows = list(group)
        reasons = list(dict.fromkeys(row.why for row in reversed(rows)))
        more = f"; and {len(reasons) - _MAX_REASONS} more" if len(reasons) > _MAX_REASONS else ""
        why = "; ".join(reasons[:_MAX_REASONS]) + more
        groups.append(CommandGroup(rows[0].time_s, actor, why, rows[0].decision, result, len(rows)))
    return tuple(groups[:MAX_COMMAND_GROUPS])
