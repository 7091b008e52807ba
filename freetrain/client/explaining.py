"""Why a training has the nodes that it has, and why a node is lent or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from freetrain.client.daemons_ledger import daemons_store
from freetrain.client.explain_decisions import explain_decision, explain_tasks, is_task_of
from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.core.fragment import Fragment
from freetrain.core.known_trainer import TrainerState
from freetrain.core.problem import Problem
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import LookStatus, NodeGroup, TrainerStatus
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.lending.node_verdicts import what_changes
from freetrain.lending.training_verdicts import what_helps
from freetrain.showing.words import show_time
from freetrain.slurm.parsing import expand_nodes
from freetrain.store.ledger import DAEMON_COMMAND
from freetrain.store.store import Store


def explain_node(
    node: str, group: NodeGroup, fragment: Fragment | None, owner: str, look: LookStatus | None
) -> Iterator[str]:
    """Sentences on a node.

    Args:
        node: its name.
        group: what holds for it and others.
        fragment: the one on it, as the database knows it; None: there is none, or nobody may read that.
        owner: of the trainer that has it; empty: unknown.
        look: the last one; None: no daemon is at work.
    """
    whose = f"training {group.trainer}" + (f" of {owner}" if owner else "")
    until = "" if group.until_s is None else f" Somebody is expected to want it at {show_time(group.until_s)}."
    match group.state:
        case "lent":
            yield f"{node} is lent to {whose}.{until}"
        case "asked for":
            yield f"{node} is to be lent to {whose}; Slurm has yet to start the fragment.{until}"
        case "due back":
            yield f"{node} is being taken back from {whose}" + (f": {group.why}." if group.why else ".")
        case "free":
            yield f"{node} may be lent, and no training has it.{until}"
            yield _who_waits(look)
        case _:
            yield f"{node} is not lent: {group.why}."
    if fragment is not None and fragment.decision:
        since = show_time(fragment.started_s or fragment.asked_s)
        yield f"Fragment {fragment.job} has it since {since}, by decision {fragment.decision}."
    if advice := what_changes(group.verdict, node):
        yield advice


def group_of(node: str, look: LookStatus | None) -> NodeGroup | None:
    """What the last look found of a node; None: nothing."""
    groups = look.nodes if look else ()
    return next((group for group in groups if node in expand_nodes(group.nodes)), None)


def _who_waits(look: LookStatus | None) -> str:
    waiting = [trainer for trainer in look.trainers if _is_waiting(trainer)] if look else []
    if not waiting:
        return "No training waits for nodes."
    first = "; ".join(f"{trainer.id}: {trainer.why}" for trainer in waiting[:3])
    return f"Trainings that wait: {first}" + (f"; and {len(waiting) - 3} more." if len(waiting) > 3 else ".")


def _is_waiting(trainer: TrainerStatus) -> bool:
    return bool(trainer.why) and not trainer.lent and trainer.state == TrainerState.ACTIVE


_MOST_DECISIONS = 500
"""So far back the last decision about a training is looked for."""


@dataclass(frozen=True, slots=True)
class _Journal:
    """The daemon's database, as far as one may read it.

    Attributes:
        store: None: it cannot be read.
        why_not: then, why.
        is_for_others: whether this account may not read it.
    """

    store: Store | None
    why_not: str = ""
    is_for_others: bool = False


def explain(what: str, config: Config, standing: Standing) -> Iterator[str]:
    """Sentences on a training, a node or one of the site's jobs.

    What was decided is for accounts that may read the daemon's database; the rest is for all.

    Args:
        what: a training's id or that of one of its tasks, a job's id, or a node.
        config: the settings.
        standing: how the daemon stands.

    Raises:
        InputError: nothing is known of it.
    """
    yield from _explain(what.partition("_")[0] if what[:1].isdigit() else what, standing, _open(config))


def _open(config: Config) -> _Journal:
    try:
        return _Journal(daemons_store(config))
    except FreetrainError as error:
        is_for_others = error.exit_code is ExitCode.NOT_ALLOWED
        return _Journal(None, f"{error.what} {error.hint}".strip(), is_for_others)


def _explain(what: str, standing: Standing, journal: _Journal) -> Iterator[str]:
    look = standing.look
    group = group_of(what, look)
    if group is not None:
        trainer = standing.trainers.get(group.trainer)
        fragment = next((fragment for fragment in _open_fragments(journal) if fragment.node == what), None)
        yield from explain_node(what, group, fragment, trainer.owner if trainer else "", look)
    elif what in standing.trainers:
        yield from _explain_trainer(standing.trainers[what], standing, journal)
    else:
        found = list(_explain_job(what, look, journal))
        if not found:
            if journal.store is None:
                raise InputError(f"Nothing is known of {what}, as the database cannot be read.", journal.why_not)
            raise InputError(
                f"freetrain knows no training, node or delayed job {what}.",
                "'freetrain jobs' lists the trainings, 'freetrain nodes' the nodes."
                if standing.is_at_work
                else "No daemon is at work here: start it.",
            )
        yield from found


def _begun(sentence: str) -> str:
    """As the beginning of a sentence; what a tag says stays as it is written there."""
    return sentence if "=" in sentence.partition(" ")[0] else f"{sentence[0].upper()}{sentence[1:]}"


def _explain_trainer(known: TrainerStatus, standing: Standing, journal: _Journal) -> Iterator[str]:
    lent, asked = len(expand_nodes(known.lent)), len(expand_nodes(known.asked))
    which, coming = f" ({known.lent})" if lent else "", f", and {asked} asked for" if asked else ""
    yield f"Training {known.id} of {known.owner} is {known.state} and has {lent} nodes{which}{coming}."
    for sentence in (known.note, known.fault):
        if sentence:
            yield f"{_begun(sentence)}."
    if standing.nothing_is_lent:
        yield f"It gets nothing: {standing.nothing_is_lent}."
    elif known.why and known.state == TrainerState.ACTIVE:
        yield f"It {'has no more' if known.lent or known.asked else 'waits'}: {known.why}."
    if not standing.nothing_is_lent and (helps := what_helps(known.verdict, known.id)):
        yield helps
    if ends := ", ".join(f"{count} {end}" for end, count in known.ends.items()):
        yield f"Its fragments ended so far: {ends}."
    yield from _explain_figures(known.id, journal)


def _explain_figures(trainer: str, journal: _Journal) -> Iterator[str]:
    """What was decided, and what another decision would have been worth; nothing for those who may not read it."""
    if journal.store is None:
        if not journal.is_for_others:
            yield f"What was decided cannot be read: {journal.why_not}"
        return
    found = _last_decision(journal.store, trainer)
    if found is None:
        yield "None of the last decisions was about it."
    elif any(competing.id == trainer for competing in found[1].trainers):
        yield from explain_decision(trainer, *found)
    else:
        yield from explain_tasks(trainer, *found)


def _last_decision(store: Store, trainer: str) -> tuple[str, Problem, Decision] | None:
    """The newest in which a trainer had a part, with its name."""
    run = next((run for run in store.runs() if run.command == DAEMON_COMMAND), None)
    if run is None:
        return None
    for number in range(run.decision_count, max(0, run.decision_count - _MOST_DECISIONS), -1):
        try:
            problem, decision = store.decision(run.id, number)
        except InputError:
            return None  # forgotten, as are those before it
        if any(competing.id == trainer or is_task_of(trainer, competing) for competing in problem.trainers):
            return f"{run.id}:{number}", problem, decision
    return None


def _explain_job(job: str, look: LookStatus | None, journal: _Journal) -> Iterator[str]:
    """What lending did, or does, to one of the site's jobs."""
    if look is not None and (text := look.limited.get(job) or look.waiting.get(job)):
        yield text
    harms = journal.store.ledger().harms() if journal.store else []
    for harm in (harm for harm in harms if harm.job == job):
        yield (
            f"Job {job} is one of the site's own. It started at {show_time(harm.started_s)}, {harm.delay_s:.1f} s "
            f"later than if nothing had been lent: {harm.unnoticed_s:.1f} s until that was noticed, "
            f"{harm.leaving_s:.1f} s until fragments {', '.join(harm.fragments)} had left, {harm.window_s:.1f} s "
            "until Slurm started it."
        )


def _open_fragments(journal: _Journal) -> list[Fragment]:
    return journal.store.ledger().open_fragments() if journal.store else []
