"""Whether a job that somebody has submitted already can become a trainer. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.cluster import Job, JobState


def find_obstacle(job: str, tasks: Sequence[Job], user: str, most_nodes: int) -> str | None:
    """Why this cannot be a trainer, in a sentence; None: it can.

    Args:
        job: its id.
        tasks: of the array, or the one job; none: Slurm does not know it.
        user: who asks.
        most_nodes: that it shall use.
    """
    if not tasks:
        return f"Slurm knows no job {job}."
    first = tasks[0]
    if first.user != user:
        return f"job {job} is {first.user}'s; only its owner can make it a trainer."
    if "+" in first.id:
        return f"job {job} has several components; a trainer is an array of one-node tasks."
    begun = next((task for task in tasks if task.state is not JobState.PENDING), None)
    if begun is not None:
        return f"job {begun.id} is {begun.state.value}; only a job that still waits can become a trainer."
    if first.node_count != 1:
        return f"job {job} wants {first.node_count} nodes at once; a trainer is an array of one-node tasks."
    if most_nodes > len(tasks):
        return _too_small(first, len(tasks), most_nodes)
    return None


def _too_small(first: Job, tasks: int, most_nodes: int) -> str:
    if first.id == first.array:
        return f"job {first.id} is no array, so it can be a trainer of one node at most, not of {most_nodes}."
    return f"the array {first.array} has {tasks} tasks, so it can use {tasks} nodes at most, not {most_nodes}."
