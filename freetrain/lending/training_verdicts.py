"""Verdicts on trainings: reasons why a training has no nodes, or no more, and what would change that. Pure.

``TRAINING_VERDICTS`` is the one table of them. It is walked from the top, and each training ends with the first
verdict that names it.

1. States that its owner or its own failures have caused: it is over, refused, paused, or rests.
2. Obstacles that keep nodes from all trainings, and defects of its own submission.
3. Reasons why it did not compete, and nodes that it alone does not get.
4. Results of the dealing and of the decision: each sentence holds by what was dealt and decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from freetrain.core.aim import read_aim
from freetrain.core.decision import Decision
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.lending.facts import WhyNot
from freetrain.lending.judge import Judgement
from freetrain.lending.sharing.allotment import Served
from freetrain.lending.sharing.claimants import LeftOut
from freetrain.lending.sharing.claims import SizeRange


class Having(StrEnum):
    """Trainings that a verdict concerns."""

    NOTHING = "nothing"
    """Those that have no nodes."""
    NODES = "nodes"
    """Those that have some, and could have more."""
    EITHER = "either"


class Reason(NamedTuple):
    """Reason why a training has no nodes, or no more, and the name of its verdict."""

    verdict: str
    why: str


@dataclass(frozen=True)
class TrainingContext:
    """Inputs of the verdicts on trainings, when a look is over.

    Attributes:
        trainers: those that the daemon knows, by id; in a replay there are none.
        unready: trainer that would compete but for its own submission → what it waits for.
    """

    judgement: Judgement
    decisions: Sequence[Decision] = ()
    trainers: Mapping[str, KnownTrainer] = field(default_factory=dict)
    unready: WhyNot = field(default_factory=dict)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Trainer or task → number of nodes that it was given; those without any are missing."""
        placed = (item for decision in self.decisions for item in decision.placement.items())
        return {trainer: len(names) for trainer, names in placed if names}

    @cached_property
    def submission_of(self) -> Mapping[str, str]:
        """Trainer or task that could run → id of what its owner submitted."""
        return {request.id: request.submission_id for request in self.judgement.facts.requests}

    @cached_property
    def served_submissions(self) -> frozenset[str]:
        """Submissions that were given nodes, for themselves or for a task of theirs."""
        return frozenset(self.submission_of.get(trainer, trainer) for trainer in self.sizes)

    @cached_property
    def outcomes(self) -> Sequence[tuple[SizeRange, Served]]:
        """The trainers and tasks that competed, with the results of their claimants."""
        found = self.judgement.allotment.served(self.sizes)
        return [(want, served) for served in found for want in served.claimant.wants]

    def without_nodes(self) -> Iterator[tuple[SizeRange, Served]]:
        """Trainers and tasks that competed and got nothing."""
        return ((want, served) for want, served in self.outcomes if want.trainer not in self.sizes)

    def with_nodes(self) -> Iterator[tuple[SizeRange, Served]]:
        """Trainers that have nodes; no tasks, whose size stays."""
        requests = self.judgement.facts.request
        return (
            (want, served)
            for want, served in self.outcomes
            if want.trainer in self.sizes and not requests[want.trainer].filler
        )


@dataclass(frozen=True, slots=True)
class TrainingVerdict:
    """One reason for which a training has no nodes, or no more.

    Attributes:
        find: trainer or submission that it names → why.
        ends_when: sentence on what would change it, in which ``{training}`` stands for the training.
    """

    name: str
    find: Callable[[TrainingContext], WhyNot]
    ends_when: str
    of_those: Having = Having.NOTHING


def judge_trainings(context: TrainingContext) -> Mapping[str, Reason]:
    """Submission → reason why it has no nodes, or no more; those that no verdict names are missing."""
    found: dict[str, Reason] = {}
    bars = context.judgement.bars
    for verdict in TRAINING_VERDICTS:
        for trainer, why in verdict.find(context).items():
            submission = context.submission_of.get(trainer, trainer)
            others = Having.NOTHING if submission in context.served_submissions else Having.NODES
            if verdict.of_those is Having.NODES and trainer in bars:
                why = f"{why}; it does not get all of them: {bars[trainer].why}"
            if verdict.of_those is not others:
                # Of a filler whose tasks have nodes each for itself, the first task that waits speaks for the
                # others.
                found.setdefault(submission, Reason(verdict.name, why))
    return found


def _in_state(state: TrainerState) -> Callable[[TrainingContext], WhyNot]:
    def find(context: TrainingContext) -> WhyNot:
        known = (trainer for trainer in context.trainers.values() if trainer.state is state)
        return {trainer.id: trainer.note or f"it is {state}" for trainer in known}

    return find


def _nothing_is_lent(context: TrainingContext) -> WhyNot:
    judgement = context.judgement
    why = judgement.stopped or judgement.facts.orders.paused
    requests = judgement.facts.requests if why else ()
    return {request.submission_id: f"nothing is lent at the moment: {why}" for request in requests}


def _barred(context: TrainingContext) -> WhyNot:
    # What keeps this training alone from nodes counts before any reason that it shares with others.
    bars = context.judgement.bars
    return {trainer: bar.why for trainer, bar in bars.items() if trainer not in context.sizes}


def _left_out(because: LeftOut) -> Callable[[TrainingContext], WhyNot]:
    def find(context: TrainingContext) -> WhyNot:
        found = context.judgement.selection.left_out.items()
        return {trainer: why for trainer, (reason, why) in found if reason is because}

    return find


def _too_dear(context: TrainingContext) -> WhyNot:
    why = "starting it now would cost more than it gains within decide.horizon"
    if read_aim(context.judgement.rules.objective).energy > 0:
        why += ", electricity counted (decide.objective)"
    return {want.trainer: why for want, _ in context.without_nodes() if want.max_nodes < want.min_nodes}


def _capped(context: TrainingContext) -> WhyNot:
    waiting = ((want, served, want.min_nodes) for want, served in context.without_nodes())
    holding = ((want, served, 0) for want, served in _wanting_more(context))
    found = ((want.trainer, _cap_below(nodes, served)) for want, served, nodes in (*waiting, *holding))
    return {trainer: cap for trainer, cap in found if cap is not None}


def _no_idle_nodes(context: TrainingContext) -> WhyNot:
    why = "no idle nodes: all that it may use are lent to others"
    waiting = context.without_nodes()
    return {want.trainer: why for want, served in waiting if served.dealt == 0 and want.min_nodes == 1}


def _too_few(context: TrainingContext) -> WhyNot:
    return {
        want.trainer: f"needs {want.min_nodes} nodes at once; {_all_of(served)}"
        for want, served in context.without_nodes()
        if want.min_nodes > served.dealt
    }


def _lent_to_others(context: TrainingContext) -> WhyNot:
    return {want.trainer: _all_of(served) for want, served in context.without_nodes()}


def _all_of(served: Served) -> str:
    whose = "its user's share is" if served.claimant.path else "there are"
    return f"{whose} {_nodes(served.dealt)}{served.lent_to}"


def _at_its_limit(context: TrainingContext) -> WhyNot:
    limits = {id_: request.trainer.most_nodes for id_, request in context.judgement.facts.request.items()}
    return {
        want.trainer: f"it can use no more than {_nodes(limits[want.trainer])}"
        for want, _ in context.with_nodes()
        if context.sizes[want.trainer] >= limits[want.trainer]
    }


def _not_worth_more(context: TrainingContext) -> WhyNot:
    why = "one node more would cost it more than it gains within decide.horizon, by its curve and costs"
    holding = context.with_nodes()
    return {want.trainer: why for want, _ in holding if context.sizes[want.trainer] == want.max_nodes}


def _wanting_more(context: TrainingContext) -> Iterator[tuple[SizeRange, Served]]:
    sizes = context.sizes
    return ((want, served) for want, served in context.with_nodes() if sizes[want.trainer] < want.max_nodes)


def _change_too_dear(context: TrainingContext) -> WhyNot:
    wanting = _wanting_more(context)
    unused = ((want, served.dealt, served.dealt - sum(served.sizes.values())) for want, served in wanting)
    return {
        want.trainer: f"of {_nodes(dealt)} that it could have, {count} would add less than the change costs"
        for want, dealt, count in unused
        if count > 0
    }


def _has_its_share(context: TrainingContext) -> WhyNot:
    why_not = {}
    for want, served in _wanting_more(context):
        whose = "its user's share is" if served.has_rivals and served.claimant.path else "there are no more than"
        others = [trainer for trainer, nodes in served.sizes.items() if nodes and trainer != want.trainer]
        shared = f"; others of them are {', '.join(others[:5])}'s" if others else ""
        why_not[want.trainer] = f"{whose} {_nodes(served.dealt)}{shared}"
    return why_not


def _cap_below(min_nodes: int, served: Served) -> str | None:
    for name, most in served.caps.items():
        kind = name.split(" ")[0]
        if min_nodes > most:
            return f"needs {_nodes(min_nodes)} at once; the cap is {_nodes(most)} per {kind}"
        if served.dealt >= most:
            return f"cap of {_nodes(most)} per {kind}{served.lent_to}"
    return None


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


_NODES, _EITHER = Having.NODES, Having.EITHER

TRAINING_VERDICTS: Sequence[TrainingVerdict] = (
    TrainingVerdict("complete", _in_state(TrainerState.COMPLETE), "It is over.", _EITHER),
    TrainingVerdict(
        "refused",
        _in_state(TrainerState.REFUSED),
        "Its owner corrects that: 'scontrol update JobId={training} Comment=…' changes a tag.",
        _EITHER,
    ),
    TrainingVerdict(
        "its failures",
        _in_state(TrainerState.PAUSED),
        "Its owner mends it, then: 'freetrain resume {training}'.",
        _EITHER,
    ),
    TrainingVerdict("rests", _in_state(TrainerState.RESTING), "It competes again by itself.", _EITHER),
    TrainingVerdict("nothing is lent", _nothing_is_lent, "'freetrain status' says what ends that.", _EITHER),
    TrainingVerdict("not ready", lambda context: context.unready, "That is its owner's to change.", _EITHER),
    TrainingVerdict("barred", _barred, "It gets other nodes as they come, and those again when that is over."),
    TrainingVerdict("out of reach", _left_out(LeftOut.OUT_OF_REACH), "It starts when so many are idle at once."),
    TrainingVerdict("user's trainings", _left_out(LeftOut.USERS_TRAININGS), "It runs after those of its user."),
    TrainingVerdict(
        "all trainings", _left_out(LeftOut.ALL_TRAININGS), "It runs after those, or with a larger limit."
    ),
    TrainingVerdict("partition down", _left_out(LeftOut.PARTITION_DOWN), "The site opens its partition again."),
    TrainingVerdict("nodes leave", _left_out(LeftOut.NODES_LEAVE), "It competes for others at the next look."),
    TrainingVerdict("too dear", _too_dear, "It starts when nodes stay longer, or a start costs it less (start=)."),
    TrainingVerdict("its limit", _at_its_limit, "Its owner gives it a larger max=, or more tasks.", _NODES),
    TrainingVerdict("its curve", _not_worth_more, "It grows when nodes stay for longer.", _NODES),
    TrainingVerdict("cap", _capped, "lend.most_nodes_per_user and …per_account set it.", _EITHER),
    TrainingVerdict("no idle nodes", _no_idle_nodes, "It starts when others leave nodes, or more become idle."),
    TrainingVerdict("too few nodes", _too_few, "It starts when it can have so many, or with a smaller min=."),
    TrainingVerdict("lent to others", _lent_to_others, "It starts when others need less, or more are idle."),
    TrainingVerdict("change too dear", _change_too_dear, "It grows when nodes stay for longer.", _NODES),
    TrainingVerdict("its share", _has_its_share, "It grows when more nodes are idle, or fewer want them.", _NODES),
)
"""Reasons why a training has no nodes, or no more; the first that names it is shown."""

_BY_NAME = {verdict.name: verdict for verdict in TRAINING_VERDICTS}


def what_helps(verdict: str, training: str) -> str:
    """Sentence on what would change a verdict on a training; empty: there is no verdict of this name."""
    return _BY_NAME[verdict].ends_when.format(training=training) if verdict in _BY_NAME else ""
