"""Explanations: why a training has the nodes that it has, and why a node is lent or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from freetrain.client.daemons_ledger import daemons_store
from freetrain.config import Config
from freetrain.core.aim import read_aim, without
from freetrain.core.deadlines import Outlook, best_speed, deadline_rate_of, nodes_needed
from freetrain.core.decision import Decision
from freetrain.core.fragment import Fragment
from freetrain.core.known_trainer import TrainerState
from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import counts_of, total_value
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import LookStatus, NodeGroup, TrainerStatus
from freetrain.errors import ExitCode, FreetrainError, InputError
from freetrain.lending.node_verdicts import what_changes
from freetrain.lending.training_verdicts import what_helps
from freetrain.loop.deciding import decide
from freetrain.policies import Weighing
from freetrain.policies.registry import Stage, find_entry, find_policy
from freetrain.showing.words import show_time, show_value
from freetrain.slurm.parsing import expand_nodes
from freetrain.store.ledger import DAEMON_COMMAND
from freetrain.store.store import Store

# A decision is read and unpacked from the database: more of them would take seconds.
_MOST_DECISIONS = 500
_MOST_NAMED = 8
# What deciding once more, without a part of the objective, may take.
_SOLVE_S = 2.0
# The daemon's database, or why this account cannot read it.
_StoreOrError = Store | FreetrainError


def explain_node(
    node: str, group: NodeGroup, fragment: Fragment | None, owner: str, look: LookStatus | None
) -> Iterator[str]:
    """Sentences on a node; ``fragment`` is None where nobody may read of it, too, ``look`` without a daemon."""
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
    """Group of a node at the last look; None: it is in none."""
    groups = look.nodes if look else ()
    return next((group for group in groups if node in expand_nodes(group.nodes)), None)


def _who_waits(look: LookStatus | None) -> str:
    active = [trainer for trainer in look.trainers if trainer.state == TrainerState.ACTIVE] if look else []
    waiting = [trainer for trainer in active if trainer.why and not trainer.lent]
    if not waiting:
        return "No training waits for nodes."
    first = "; ".join(f"{trainer.id}: {trainer.why}" for trainer in waiting[:3])
    return f"Trainings that wait: {first}" + (f"; and {len(waiting) - 3} more." if len(waiting) > 3 else ".")


def explain(what: str, config: Config, standing: Standing) -> Iterator[str]:
    """Sentences on a training, one of its tasks, a node or one of the site's jobs; raises InputError if unknown.

    What was decided is for accounts that may read the daemon's database; the rest is for all.
    """
    what = what.partition("_")[0] if what[:1].isdigit() else what
    journal: _StoreOrError
    try:
        journal = daemons_store(config)
    except FreetrainError as error:
        journal = error
    group = group_of(what, standing.look)
    if group is not None:
        trainer = standing.trainers.get(group.trainer)
        fragments = journal.ledger().open_fragments() if isinstance(journal, Store) else []
        fragment = next((fragment for fragment in fragments if fragment.node == what), None)
        yield from explain_node(what, group, fragment, trainer.owner if trainer else "", standing.look)
    elif what in standing.trainers:
        yield from _explain_trainer(standing.trainers[what], standing, journal)
    elif sentences := list(_explain_job(what, standing.look, journal)):
        yield from sentences
    elif isinstance(journal, FreetrainError):
        raise InputError(f"Nothing is known of {what}, as the database cannot be read.", _why_not(journal))
    else:
        lists = "'freetrain jobs' lists the trainings, 'freetrain nodes' the nodes."
        hint = lists if standing.is_at_work else "No daemon is at work here: start it."
        raise InputError(f"freetrain knows no training, node or delayed job {what}.", hint)


def _why_not(error: FreetrainError) -> str:
    return f"{error.what} {error.hint}".strip()


def _begun(sentence: str) -> str:
    """Sentence with a capital letter at its beginning; a ``key=value`` of a tag stays as it is written there."""
    return sentence if "=" in sentence.partition(" ")[0] else f"{sentence[0].upper()}{sentence[1:]}"


def _explain_trainer(known: TrainerStatus, standing: Standing, journal: _StoreOrError) -> Iterator[str]:
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


def _explain_figures(trainer: str, journal: _StoreOrError) -> Iterator[str]:
    """Sentences on the last decision and the worth of others; none for accounts that may not read decisions."""
    if isinstance(journal, FreetrainError):
        if journal.exit_code is not ExitCode.NOT_ALLOWED:
            yield f"What was decided cannot be read: {_why_not(journal)}"
        return
    found = _last_decision(journal, trainer)
    if found is None:
        yield "None of the last decisions was about it."
    elif any(competing.id == trainer for competing in found[1].trainers):
        yield from explain_decision(trainer, *found)
    else:
        yield from explain_tasks(trainer, *found)


def _last_decision(store: Store, trainer: str) -> tuple[str, Problem, Decision] | None:
    run = next((run for run in store.runs() if run.command == DAEMON_COMMAND), None)
    if run is None:
        return None
    for number in range(run.decision_count, max(0, run.decision_count - _MOST_DECISIONS), -1):
        try:
            problem, decision = store.decision(run.id, number)
        except InputError:
            # Forgotten, as are those before it
            return None
        if any(competing.id == trainer or is_task_of(trainer, competing) for competing in problem.trainers):
            return f"{run.id}:{number}", problem, decision
    return None


def _explain_job(job: str, look: LookStatus | None, journal: _StoreOrError) -> Iterator[str]:
    if look is not None and (text := look.limited.get(job) or look.waiting.get(job)):
        yield text
    harms = journal.ledger().harms() if isinstance(journal, Store) else []
    for harm in (harm for harm in harms if harm.job == job):
        yield (
            f"Job {job} is one of the site's own. It started at {show_time(harm.started_s)}, {harm.delay_s:.1f} s "
            f"later than if nothing had been lent: {harm.unnoticed_s:.1f} s until that was noticed, "
            f"{harm.leaving_s:.1f} s until fragments {', '.join(harm.fragments)} had left, {harm.window_s:.1f} s "
            "until Slurm started it."
        )


def explain_decision(trainer: str, name: str, problem: Problem, decision: Decision) -> Iterator[str]:
    """Sentences on a decision, named as ``12:480``, in which a trainer had a part."""
    row = next(number for number, competing in enumerate(problem.trainers) if competing.id == trainer)
    sizes = {trainer.id: len(decision.placement.get(trainer.id, ())) for trainer in problem.trainers}
    others = [f", {id_} got {_nodes(size)}" for id_, size in sizes.items() if id_ != trainer and size]
    what = f"Decision {name} of {show_time(problem.now_s)} ({decision.solver}, {decision.status})"
    nodes, competing = _nodes(problem.node_count), len(problem.trainers)
    shared = f"shared {nodes} among {competing} trainings" if competing > 1 else f"had {nodes} for it alone"
    yield f"{what} {shared}: it got {_nodes(sizes[trainer])}{''.join(others[:5])}."
    yield from decision.notes
    counts = counts_of(problem, decision.placement)
    own = problem.trainers[row]
    yield from _weighed(decision.solver, problem, row, sizes[trainer])
    yield from _explain_aims(row, problem, decision)
    if sizes[trainer] >= own.most_nodes:
        yield f"It can use no more than {_nodes(own.most_nodes)}."
    elif sentence := _one_more(problem, counts, row):
        yield sentence
    if 0 < own.min_nodes == sizes[trainer]:
        yield f"It cannot do with fewer than {_nodes(own.min_nodes)}."


def _weighed(solver: str, problem: Problem, row: int, size: int) -> Iterator[str]:
    """Sentence on the values that a policy with its own gave to this size, to those beside it and to the best."""
    policy: object = find_policy(solver) if find_entry(Stage.POLICY, solver) else None
    if not isinstance(policy, Weighing):
        return
    values = policy.weigh(problem)[row]
    known = np.flatnonzero(problem.terms.possible[row] & (values > -inf)).tolist()
    sizes = [nodes for nodes in known if nodes <= problem.node_count]
    best = max(sizes, key=lambda nodes: values[nodes])
    beside = [nodes for nodes in sizes if abs(nodes - size) <= 1 or nodes == best]
    shown = ", ".join(f"{_nodes(nodes)} {values[nodes]:.4g}" for nodes in beside)
    yield f"{solver} weighed {policy.weighs}: {shown}."


def _one_more(problem: Problem, counts: Counts, row: int) -> str:
    now = total_value(problem, counts)
    free = problem.capacity - counts.sum(axis=0)
    found = [
        (total_value(problem, _moved(counts, row, giver, column)), giver)
        for column in range(counts.shape[1])
        for giver in (None, *range(len(counts)))
        if giver != row and (free[column] if giver is None else counts[giver, column]) > 0
    ]
    if not found:
        # The decision was about the nodes that it got: why there were no others, the look says
        return ""
    best, donor = max(found, key=lambda value_and_giver: value_and_giver[0])
    source = "that nobody had" if donor is None else f"of {problem.trainers[donor].id}"
    if best == -inf:
        return (
            f"One more node, {source}, would leave somebody with a size, or kinds of nodes, that it cannot have."
        )
    worth = (
        f"{show_value(best)} instead of {show_value(now)} ({problem.objective}, over {problem.horizon_s:.0f} s)"
    )
    return f"With one more node, {source}, all would have been worth {worth}."


def _moved(counts: Counts, row: int, giver: int | None, column: int) -> Counts:
    moved = counts.copy()
    moved[row, column] += 1
    if giver is not None:
        moved[giver, column] -= 1
    return moved


def _explain_aims(row: int, problem: Problem, decision: Decision) -> Iterator[str]:
    trainer = problem.trainers[row]
    aim = read_aim(problem.objective)
    if sentence := _of_deadline(trainer, problem, aim.deadlines):
        yield sentence
    in_a_hurry = [trainer.id for trainer in problem.trainers if aim.deadlines and _nodes_needed(trainer, problem)]
    if in_a_hurry:
        others = ", ".join(id_ for id_ in in_a_hurry[:5] if id_ != trainer.id)
        whose = f" of {others}" if others and trainer.id not in in_a_hurry else ""
        size = _size_without("deadlines", trainer, problem, decision)
        yield f"Without deadlines{whose} it would have got {size}."
    watts = sorted({nodes.traits.watts for nodes in problem.classes if nodes.traits.watts})
    if aim.energy and watts:
        each = aim.per_joule * aim.scale_of(trainer.weight)
        shown = " or ".join(f"{each * watt:.3g} for one of {watt:,.0f} W" for watt in watts[:3])
        yield (
            f"Electricity counts: what a node adds must be worth {shown} ({aim.objective} a second, energy="
            f"{aim.energy:g}); otherwise it would have got {_size_without('energy', trainer, problem, decision)}."
        )


def _of_deadline(trainer: Trainer, problem: Problem, factor: float) -> str:
    if trainer.deadline_s is None:
        return ""
    its = f"Its deadline, {show_time(trainer.deadline_s)},"
    if not factor:
        return f"{its} makes no difference: the objective ({problem.objective}) counts no deadlines."
    done = problem.done_samples.get(trainer.id, 0.0)
    match deadline_rate_of(trainer, done, problem.now_s).outlook:
        case Outlook.PASSED:
            return f"{its} has passed, so it makes no difference any more."
        case Outlook.OUT_OF_REACH:
            most = _nodes(trainer.most_nodes)
            return (
                f"{its} cannot be met, even on all {most} that it can use from now on, so it makes no difference."
            )
        case Outlook.OPEN:
            needed = _nodes(_nodes_needed(trainer, problem))
            return f"{its} asks for {needed} from now on: what it trains on them counts {1 + factor:g} times."
        case _:
            return ""


def _nodes_needed(trainer: Trainer, problem: Problem) -> int:
    """Number of nodes that its deadline asks for, of those on which it is fastest; 0: it asks for nothing."""
    rate = deadline_rate_of(trainer, problem.done_samples.get(trainer.id, 0.0), problem.now_s)
    return nodes_needed(trainer, rate.samples_per_s, best_speed(trainer))


def _size_without(word: str, trainer: Trainer, problem: Problem, decision: Decision) -> str:
    name = decision.solver if find_entry(Stage.POLICY, decision.solver) else "freetrain"
    policy = find_policy(name, time_limit_s=_SOLVE_S)
    other = decide(policy, replace(problem, objective=without(problem.objective, word)), time.perf_counter)
    return _nodes(len(other.placement.get(trainer.id, ())))


def is_task_of(filler: str, trainer: Trainer) -> bool:
    """Whether a trainer of a problem is a task of this filler."""
    return trainer.moldable and trainer.id.startswith(f"{filler}_")


def explain_tasks(filler: str, name: str, problem: Problem, decision: Decision) -> Iterator[str]:
    """Sentences on a decision, named as ``12:480``, in which tasks of a filler had a part."""
    tasks = [trainer for trainer in problem.trainers if is_task_of(filler, trainer)]
    sizes = {task.id: len(decision.placement.get(task.id, ())) for task in tasks}
    running = [(id_, size) for id_, size in sizes.items() if size]
    begun = [id_ for id_, size in running if id_ not in problem.held_names]
    ended = [id_ for id_ in sizes if id_ in problem.held_names and not sizes[id_]]
    what = f"Decision {name} of {show_time(problem.now_s)} ({decision.solver}, {decision.status})"
    others = len(problem.trainers) - len(tasks)
    beside = f" and {others} other trainings or tasks" if others else ""
    yield f"{what} shared {problem.node_count} nodes among {len(tasks)} of its tasks{beside}."
    named = ", ".join(f"{id_} on {size}" for id_, size in running[:_MOST_NAMED])
    more = f" and {len(running) - _MOST_NAMED} more" if len(running) > _MOST_NAMED else ""
    some = f"{len(running)} of them run ({named}{more}), {len(begun)} from now on."
    yield some if running else "None of them runs."
    if ended:
        yield f"{', '.join(ended[:_MOST_NAMED])} had to give up all of its nodes, and will be run again."
    yield from decision.notes
    rows = [row for row, task in enumerate(problem.trainers) if not sizes.get(task.id, 1) and task.id not in ended]
    if rows:
        yield _one_more_task(problem, decision, rows[0])
    yield "Each keeps its nodes until it ends: its size is chosen when it starts, by how long nodes are to stay."


def _one_more_task(problem: Problem, decision: Decision, row: int) -> str:
    """Sentence on the worth of starting a task that waits, on the best number of nodes that nobody has."""
    counts, task = counts_of(problem, decision.placement), problem.trainers[row]
    free = problem.capacity - counts.sum(axis=0)
    tried: list[tuple[float, int]] = []
    for size in range(task.min_nodes, min(task.most_nodes, int(free.sum())) + 1):
        changed = counts.copy()
        changed[row] = np.diff(np.minimum(np.cumsum(free), size), prepend=0)
        tried.append((total_value(problem, changed), size))
    best, size = max(tried, default=(-inf, 0))
    if best == -inf:
        return f"No other starts: it needs {task.min_nodes} nodes at once, and {int(free.sum())} are left."
    now = total_value(problem, counts)
    return (
        f"With one more started, on {size} nodes that nobody has, all would have been worth {show_value(best)} "
        f"instead of {show_value(now)} ({problem.objective}, over {problem.horizon_s:.0f} s)."
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
