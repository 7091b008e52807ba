"""Why the tasks of a moldable filler have as many nodes as they have: their last decision. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from freetrain.cli.output import show_value
from freetrain.core.decision import Decision
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import counts_of, total_value
from freetrain.showing.words import show_time

_MOST_NAMED = 8


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
        (row for row, one in enumerate(problem.trainers) if sizes.get(one.id) == 0 and one.id not in ended), None
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
