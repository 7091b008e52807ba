"""Requests: what the trainers that could run ask for, as a policy sees it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from freetrain.core.curves import believed, curve_of, linear_curve
from freetrain.core.fragment import Fragment
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.objectives import find_objective
from freetrain.core.observed import at_speed_1, seen_speeds
from freetrain.core.servers import Servers
from freetrain.core.terms import terms_of
from freetrain.core.throughput import Curve, mean_rates, usable
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers.change_costs import believed_costs
from freetrain.daemon.trainers.entries import Entry
from freetrain.daemon.trainers.fillers import filler, known_end_s, most_lost_s
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.errors import InputError
from freetrain.lending.facts import Request
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


_MOST_WORTH = 1e30
"""Sums of what is worth less stay far from the largest number."""


def requests_of(
    entry: Entry, room: int, most_nodes: int, objective: str, now_s: float
) -> tuple[Request, ...] | Fault | str:
    """What the trainer asks for, one for each task where these compete; or what is wrong; or what it waits for.

    Args:
        entry: one that competes.
        room: how many fragments it could have by what was submitted.
        most_nodes: for how many there are nodes.
        objective: name of what is maximised.
        now_s: UTC epoch seconds.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    if entry.is_moldable:
        return isolated(partial(_of_tasks, entry, most_nodes, objective, now_s))
    found = isolated(partial(_request, entry, min(room, most_nodes), objective, now_s))
    return (found,) if isinstance(found, Request) else found


def _of_tasks(entry: Entry, most_nodes: int, objective: str, now_s: float) -> tuple[Request, ...] | str:
    assert entry.tag is not None
    assert entry.tag.task_nodes is not None
    smallest = entry.tag.task_nodes[0]
    if smallest > most_nodes:
        return f"each of its tasks needs {smallest} nodes at once; there are {most_nodes} for it"
    trainers = moldable_tasks(entry, entry.tag, most_nodes, now_s)
    for trainer in trainers:
        _check_size_of_numbers(trainer, objective)
    return tuple(replace(_asked(entry, trainer), filler=entry.trainer.id) for trainer in trainers)


def _request(entry: Entry, room: int, objective: str, now_s: float) -> Request | str:
    assert entry.tag is not None
    tag = entry.tag
    most_nodes = min(tag.max_nodes or room, room)
    min_nodes = min(tag.min_nodes, max(most_nodes, 1)) if entry.is_drained else tag.min_nodes
    if entry.last_completed:
        most_nodes = min(max(len(entry.fragments), min_nodes), room)
    elif not entry.is_active:
        most_nodes = min(max(entry.running_count, min_nodes), room)
    if entry.trainer.failures_in_a_row and not entry.fragments:
        # Whether it can run is tried without taking more than that from anybody.
        most_nodes = min(most_nodes, max(min_nodes, 1))
    if min_nodes > most_nodes:
        return f"needs {min_nodes} nodes at once; it has tasks for {most_nodes}"
    if tag.is_filler:
        trainer = filler(entry, tag, most_nodes, now_s)
    else:
        trainer = _training(entry, tag, min_nodes, most_nodes)
    _check_size_of_numbers(trainer, objective)
    return _asked(entry, trainer)


def _check_size_of_numbers(trainer: Trainer, objective: str) -> None:
    worth = float(np.abs(terms_of((trainer,), objective).worth).max())
    costs_s = (trainer.scale_up_s, trainer.scale_down_s, trainer.eviction_s, trainer.start_s, trainer.boot_s)
    if not worth * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")


def _asked(entry: Entry, trainer: Trainer) -> Request:
    assert entry.tag is not None
    submission, tag = entry.submission, entry.tag
    account = submission.tasks[0].account
    needs, speeds = submission.needs, tuple(believed_speeds(entry.trainer, tag).items())
    task_s = entry.trainer.costs.run.mean_s if trainer.independent else 0.0
    return Request(
        trainer, entry.trainer.owner, account, needs, speeds, tag.mixed,
        cache_mb=tag.cache_mb, task_s=task_s, most_lost_s=most_lost_s(tag),
    )  # fmt: skip


def _training(entry: Entry, tag: Tag, min_nodes: int, most_nodes: int) -> Trainer:
    costs, seen = believed_costs(entry.trainer.costs, tag), entry.trainer.observations
    if tag.speeds:
        seen = at_speed_1(seen, believed_speeds(entry.trainer, tag))
    return Trainer(
        id=entry.trainer.id,
        throughput=curve_of(replace(entry.trainer, observations=seen), tag.curve, most_nodes),
        min_nodes=min_nodes,
        max_nodes=most_nodes,
        scale_up_s=costs.scale_up_s,
        scale_down_s=costs.scale_down_s,
        forced_loss_s=costs.forced_loss_s,
        start_s=costs.start_s,
        boot_s=costs.boot_s,
        weight=tag.weight,
        submitted_s=entry.trainer.first_seen_s,
        target_samples=tag.target_samples or None,
        bytes_per_sample=tag.bytes_per_sample,
        servers=Servers(tag.servers, tag.step_s_by_size) if tag.servers else None,
        deadline_s=tag.deadline_s(entry.trainer.first_seen_s) if _speed_is_known(entry, tag) else None,
    )


def believed_speeds(trainer: KnownTrainer, tag: Tag) -> Mapping[str, float]:
    """Kind of nodes that its owner names → how fast it is believed to be there."""
    return seen_speeds(trainer.observations, dict(tag.speeds)) if tag.speeds else {}


def seen_at_speed_1(trainer: KnownTrainer, tag: Tag) -> Mapping[int, float]:
    """Samples/s seen on so many nodes, as they would have been at speed 1; empty: its owner names no kinds."""
    if not tag.speeds:
        return {}
    return mean_rates(usable(at_speed_1(trainer.observations, believed_speeds(trainer, tag))))


def _speed_is_known(entry: Entry, tag: Tag) -> bool:
    """Whether its curve is in samples/s; until it was seen or given, it is relative to one node."""
    return bool(tag.curve or entry.trainer.observations)
