"""Facts that the pages show: the state of the daemon, and the history in its database, which is only read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Literal

from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.place import Lease
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.errors import FreetrainError
from freetrain.policies.needs import Need
from freetrain.showing.words import count, printable
from freetrain.store.engine import sensible
from freetrain.store.journal import DecisionSummary
from freetrain.store.ledger import DAEMON_COMMAND
from freetrain.store.store import Store
from freetrain.store.tables import CommandRow

_MAX_FRAGMENTS, _MAX_DECISIONS, _MAX_COMMANDS = 100_000, 12, 200
MAX_COMMAND_GROUPS, _MAX_REASONS = 20, 3


@dataclass(frozen=True, slots=True)
class TrainerResize:
    """Number of nodes that a training had before a decision, and after it."""

    trainer: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class DecisionChanges:
    """A decision by its name, as ``12:480``, with the number of its trainers and the sizes that it changed."""

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
    """History in the daemon's database: the last decisions and commands, newest first; or why it is unknown."""

    stays: tuple[Lease, ...] = ()
    trainers: Mapping[str, KnownTrainer] = field(default_factory=dict)
    decisions: tuple[DecisionChanges, ...] = ()
    commands: tuple[CommandGroup, ...] = ()
    harms: tuple[Harm, ...] = ()
    why_not: str = ""


def read_history(path: Path, since_s: float, trainers: Collection[str]) -> DaemonHistory:
    """History in the daemon's database from ``since_s`` on."""
    if not path.exists():
        return DaemonHistory(why_not=f"there is no database {path}")
    try:
        with sensible(path):
            store = Store.open_read_only(path)
            ledger, run = store.ledger(), store.newest_run(DAEMON_COMMAND)
            decisions: Iterable[DecisionChanges] = ()
            if run is not None:
                newest = store.decisions(run, _MAX_DECISIONS, newest_first=True)
                decisions = (_decided(store.path, run, summary) for summary in newest)
            return DaemonHistory(
                stays=tuple(ledger.lent_nodes(since_s, _MAX_FRAGMENTS)),
                trainers=ledger.trainers(trainers),
                decisions=tuple(decisions),
                commands=_command_groups(ledger.newest_commands(_MAX_COMMANDS)),
                harms=tuple(ledger.harms(since_s)),
            )
    except FreetrainError as error:
        return DaemonHistory(why_not=error.what)


@lru_cache(maxsize=4 * _MAX_DECISIONS)
def _decided(path: Path, run: int, summary: DecisionSummary) -> DecisionChanges:
    """A decision with the sizes that it changed; a recorded decision never changes, so each is unpacked once."""
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


Tone = Literal["good", "warning", "bad"]
_HIDDEN = "(hidden)"
_LIKE = ((re.compile(r"\bjob \d\S*"), "a job"), (re.compile(r"\b\d+ s\b"), "some seconds"))
"""Patterns of the parts in which like reasons differ, each with the text that replaces them."""


@dataclass(frozen=True, slots=True)
class Headline:
    """State of the daemon: a word, the page's heading, how bad it is, and the first lines of every listing."""

    word: str
    sentence: str
    tone: Tone
    lines: tuple[str, ...]


def headline_of(standing: Standing, is_hidden: bool) -> Headline:
    """The headline; ``is_hidden``: the daemon published something that may not be read here."""
    if is_hidden:
        why = f"{standing.why_not}."
        return Headline("unknown", "How the daemon stands is not known here", "bad", (why[:1].upper() + why[1:],))
    word, sentence, tone = _in_a_word(standing)
    return Headline(word, sentence, tone, tuple(printable(line) for line in standing.lines()))


def _in_a_word(standing: Standing) -> tuple[str, str, Tone]:
    status, look = standing.status, standing.look
    if status is None or not standing.is_at_work:
        return "no daemon", "No daemon is at work here", "bad"
    if status.silent_since_s is not None:
        return "cannot look", "The daemon cannot look at Slurm", "bad"
    if look is None:
        return "no look yet", "The daemon has not looked yet", "warning"
    if standing.stopped_by:
        return "stopped", "Nothing is lent: the daemon is stopped", "warning"
    if look.paused_by:
        return "paused", "Nothing more is lent: the daemon is paused", "warning"
    if status.daemon.mode != "act":
        does = {"observe": "observes", "advise": "advises"}.get(status.daemon.mode, status.daemon.mode)
        return does, f"The daemon {does} and lends nothing", "warning"
    return "lends", f"{look.lent_nodes:,} of {count(look.idle_nodes, 'idle node')} are lent", "good"


def nameless_standing(standing: Standing) -> Standing:
    """State of the daemon without names and ids of trainings, users and jobs."""
    status = standing.status
    if status is None or status.look is None:
        return standing
    look = status.look
    nameless = replace(
        look,
        rejected_examples=(_HIDDEN,) * bool(look.rejected_examples),
        nodes=tuple(replace(group, trainer="", why=without_ids(group.why)) for group in look.nodes),
        trainers=tuple(
            TrainerStatus("", "", trainer.state, lent=trainer.lent, asked=trainer.asked)
            for trainer in look.trainers
        ),
    )
    return replace(standing, status=replace(status, look=nameless))


def nameless_past(past: DaemonHistory) -> DaemonHistory:
    """History of stays and delays without names; decisions and commands would name trainings."""
    return DaemonHistory(
        stays=tuple(stay._replace(trainer="") for stay in past.stays),
        harms=tuple(replace(harm, job="", fragments=()) for harm in past.harms),
        why_not=past.why_not,
    )


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts that the page shows.

    Attributes:
        is_hidden: whether the daemon published something that may not be read here.
        is_private: whether the site hides jobs from users who do not own them: then nobody is named.
        needs: facts that the policy needs to know of trainings.
    """

    standing: Standing
    past: DaemonHistory
    is_hidden: bool = False
    is_private: bool = False
    needs: tuple[Need, ...] = ()

    @property
    def shown(self) -> PageFacts:
        """Facts that everybody may see."""
        if not self.is_private:
            return self
        return replace(self, standing=nameless_standing(self.standing), past=nameless_past(self.past))


def without_ids(why: str) -> str:
    """A reason without what tells it apart from reasons that are alike, as the ids of jobs."""
    for pattern, words in _LIKE:
        why = pattern.sub(words, why)
    return why
