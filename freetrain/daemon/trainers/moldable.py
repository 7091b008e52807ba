"""Moldable fillers: arrays of programs of several nodes each, as a policy sees them. Pure.

Each task is a trainer of its own: one that waits may get any size of its range, one that runs keeps its nodes or
gives all of them up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf

from freetrain.core.curves import believed, linear_curve
from freetrain.core.fragment import Fragment
from freetrain.core.throughput import Curve
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers.entries import Entry
from freetrain.daemon.trainers.fillers import known_end_s, most_lost_s
from freetrain.slurm.tags import Tag


def moldable_tasks(entry: Entry, tag: Tag, most_nodes: int, now_s: float) -> list[Trainer]:
    """The tasks that run, the oldest first, and as many that wait as could start now.

    With ``max`` the sizes of those that wait add up to no more than it leaves, whichever of them start.

    Args:
        entry: the array.
        tag: what its owner says of it; it says how many nodes each task has.
        most_nodes: that there are for it.
        now_s: UTC epoch seconds.
    """
    running = _running(entry.fragments)
    found = [
        _task(entry, tag, job, (len(own), len(own)), _lost_s(own, tag, now_s)) for job, own in running.items()
    ]
    busy = {fragment.job for fragment in entry.fragments}
    free = [task.id for task in entry.submission.startable(busy)]
    if not entry.is_active:
        return found
    if at_once := entry.submission.max_running:
        free = free[: max(at_once - len(found), 0)]
    sizes = _sizes_of_waiting(tag, most_nodes, len(entry.fragments))
    return found + [_task(entry, tag, job, size, 0.0) for job, size in zip(free, sizes, strict=False)]


def _running(fragments: Sequence[Fragment]) -> dict[str, list[Fragment]]:
    """Task → its fragments, of those all of whose nodes stay; the oldest first."""
    of_job: defaultdict[str, list[Fragment]] = defaultdict(list)
    for fragment in fragments:
        of_job[fragment.job].append(fragment)
    whole = {job: own for job, own in of_job.items() if all(one.goes_on for one in own)}
    return dict(sorted(whole.items(), key=lambda item: item[1][0].started_s or inf))


def _sizes_of_waiting(tag: Tag, most_nodes: int, held_nodes: int) -> list[tuple[int, int]]:
    """Fewest and most nodes of each of the tasks that might start."""
    assert tag.task_nodes is not None
    smallest, largest = tag.task_nodes
    largest = min(largest, most_nodes)
    if smallest > largest:
        return []
    if tag.max_nodes is None:
        return [(smallest, largest)] * (most_nodes // smallest)
    left = tag.max_nodes - held_nodes
    rest = left % largest if left > 0 else 0
    return [(smallest, largest)] * max(left // largest, 0) + ([(smallest, rest)] if rest >= smallest else [])


def _lost_s(own: Sequence[Fragment], tag: Tag, now_s: float) -> float:
    """What the task has done and would lose if it had to end now."""
    started_s = own[0].started_s
    lost_s = 0.0 if started_s is None else min(max(now_s - started_s, 0.0), most_lost_s(tag))
    # Two digits will do, and change seldom: the journal keeps each trainer as often as it changes.
    return float(f"{lost_s:.1e}")


def _task(entry: Entry, tag: Tag, job: str, size: tuple[int, int], lost_s: float) -> Trainer:
    smallest, most = size
    return Trainer(
        id=job,
        throughput=_curve(tag, most),
        min_nodes=smallest,
        max_nodes=most,
        scale_up_s=0.0,
        scale_down_s=lost_s,
        forced_loss_s=known_end_s(tag),
        start_s=tag.start_s,
        boot_s=tag.boot_s,
        weight=tag.weight,
        submitted_s=entry.trainer.first_seen_s,
        moldable=True,
    )


def _curve(tag: Tag, most: int) -> Curve:
    """How fast a task is on 1 … ``most`` nodes: as its owner says, but never faster than linear; else linear."""
    if not tag.curve:
        return linear_curve(most)
    curve = believed(tag.curve)
    nodes, rate = curve[-1]
    return curve if nodes >= most else (*curve, (most, rate))
