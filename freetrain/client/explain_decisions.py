"""What was decided on a training, or on the tasks of a filler, and what another decision would have been worth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from freetrain.core.aim import read_aim, without
from freetrain.core.deadlines import Outlook, best_speed, deadline_rate_of, nodes_needed
from freetrain.core.decision import Decision
from freetrain.core.problem import Counts, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import counts_of, total_value
from freetrain.loop.deciding import decide
from freetrain.policies import Weighing
from freetrain.policies.registry import Stage, find_entry, find_policy
from freetrain.showing.words import show_time, show_value

_MOST_NAMED = 8
_SOLVE_S = 2.0
"""What deciding once more, without a part of the objective, may take."""


def explain_decision(trainer: str, name: str, problem: Problem, decision: Decision) -> Iterator[str]:
    """Sentences on a decision in which a trainer had a part.

    Args:
        trainer: its id, one of the problem's.
        name: of the decision, as ``12:480``.
        problem: what was decided.
        decision: the answer.
    """
    row = next(number for number, one in enumerate(problem.trainers) if one.id == trainer)
    sizes = {trainer.id: len(decision.placement.get(trainer.id, ())) for trainer in problem.trainers}
    others = [f", {id_} got {_nodes(size)}" for id_, size in sizes.items() if id_ != trainer and size]
    what = f"Decision {name} of {show_time(problem.now_s)} ({decision.solver}, {decision.status})"
    nodes, competing = _nodes(problem.node_count), len(problem.trainers)
    shared = f"shared {nodes} among {competing} trainings" if competing > 1 else f"had {nodes} for it alone"
    yield f"{what} {shared}: it got {_nodes(sizes[trainer])}{''.join(others[:5])}."
    yield from decision.notes
    counts = counts_of(problem, decision.placement)
    one = problem.trainers[row]
    yield from _weighed(decision.solver, problem, row, sizes[trainer])
    yield from _explain_aims(row, problem, decision)
    if sizes[trainer] >= one.most_nodes:
        yield f"It can use no more than {_nodes(one.most_nodes)}."
    elif sentence := _one_more(problem, counts, row):
        yield sentence
    if 0 < one.min_nodes == sizes[trainer]:
        yield f"It cannot do with fewer than {_nodes(one.min_nodes)}."


def _weighed(solver: str, problem: Problem, row: int, size: int) -> Iterator[str]:
    """What a policy with a value of its own made of this size, of those beside it and of the best."""
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
    """What another node would have been worth, nobody's or another trainer's."""
    now = total_value(problem, counts)
    free = problem.capacity - counts.sum(axis=0)
    found = [
        (total_value(problem, _moved(counts, row, giver, column)), giver)
        for column in range(counts.shape[1])
        for giver in (None, *range(len(counts)))
        if giver != row and (free[column] if giver is None else counts[giver, column]) > 0
    ]
    if not found:
        return ""  # the decision was about the nodes that it got: why there were no others, the look says
    best, donor = max(found, key=lambda one: one[0])
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
    """What deadlines and electricity did to one trainer, where the objective counts them."""
    trainer = problem.trainers[row]
    aim = read_aim(problem.objective)
    sentence = _of_deadline(trainer, problem, aim.deadlines)
    if sentence:
        yield sentence
    in_a_hurry = [trainer.id for trainer in problem.trainers if aim.deadlines and _nodes_needed(trainer, problem)]
    if in_a_hurry:
        others = ", ".join(id_ for id_ in in_a_hurry[:5] if id_ != trainer.id)
        whose = f" of {others}" if others and trainer.id not in in_a_hurry else ""
        size = _size_without("deadlines", trainer, problem, decision)
        yield f"Without deadlines{whose} it would have got {size}."
    watts = sorted({nodes.watts for nodes in problem.classes if nodes.watts})
    if aim.energy and watts:
        each = aim.per_joule * aim.scale_of(trainer.weight)
        shown = " or ".join(f"{each * watt:.3g} for one of {watt:,.0f} W" for watt in watts[:3])
        yield (
            f"Electricity counts: what a node adds must be worth {shown} ({aim.objective} a second, energy="
            f"{aim.energy:g}); otherwise it would have got {_size_without('energy', trainer, problem, decision)}."
        )


def _of_deadline(trainer: Trainer, problem: Problem, factor: float) -> str:
    """How it stands with its own deadline; empty: it has none, or nothing is left to do."""
    if trainer.deadline_s is None:
        return ""
    its = f"Its deadline, {show_time(trainer.deadline_s)},"
    if not factor:
        return f"{its} makes no difference: the objective ({problem.objective}) counts no deadlines."
    match deadline_rate_of(trainer, _done(trainer, problem), problem.now_s).outlook:
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
    """On the nodes on which it is fastest; 0: its deadline asks for nothing."""
    rate = deadline_rate_of(trainer, _done(trainer, problem), problem.now_s)
    return nodes_needed(trainer, rate.samples_per_s, best_speed(trainer))


def _done(trainer: Trainer, problem: Problem) -> float:
    return problem.done_samples.get(trainer.id, 0.0)


def _size_without(word: str, trainer: Trainer, problem: Problem, decision: Decision) -> str:
    """How many nodes it would have got without this part of the objective, in words."""
    name = decision.solver if find_entry(Stage.POLICY, decision.solver) else "freetrain"
    policy = find_policy(name, time_limit_s=_SOLVE_S)
    other = decide(policy, replace(problem, objective=without(problem.objective, word)), time.perf_counter)
    return _nodes(len(other.placement.get(trainer.id, ())))


def is_task_of(filler: str, trainer: Trainer) -> bool:
    """Whether a trainer of a problem is a task of this filler."""
    return trainer.moldable and trainer.id.startswith(f"{filler}_")


def explain_tasks(filler: str, name: str, problem: Problem, decision: Decision) -> Iterator[str]:
    """Sentences on a decision in which tasks of a filler had a part.

    Args:
        filler: its id.
        name: of the decision, as ``12:480``.
        problem: what was decided.
        decision: the answer.
    """
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
    yield (
        f"{len(running)} of them run ({named}{more}), {len(begun)} from now on."
        if running
        else "None of them runs."
    )
    if ended:
        yield f"{', '.join(ended[:_MOST_NAMED])} had to give up all of its nodes, and will be run again."
    yield from decision.notes
    waiting = next(
        (row for row, task in enumerate(problem.trainers) if sizes.get(task.id) == 0 and task.id not in ended),
        None,
    )
    if waiting is not None:
        yield _one_more_task(problem, decision, waiting)
    yield "Each keeps its nodes until it ends: its size is chosen when it starts, by how long nodes are to stay."


def _one_more_task(problem: Problem, decision: Decision, row: int) -> str:
    """What it would have been worth to start a task that waits, on the best number of nodes that nobody has."""
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
