"""Kinds of trainings: elastic ones, arrays of tasks, and arrays of tasks of several nodes each. Pure.

All that differs between them is here, a strategy for each kind: how it becomes trainers of a policy, what its
changes cost, which of its tasks are needed again, and when it is over. Nobody else asks which of them it is.
``requests_of`` is the end of it: what a training asks for, as the judge sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Protocol, TypedDict

import numpy as np

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.job import Job, JobState
from freetrain.core.known_trainer import KnownTrainer, TrainerState, believed, curve_of, linear_curve
from freetrain.core.objectives import find_objective, worth_per_s
from freetrain.core.observed import SeenCosts, at_speed_1, seen_speeds
from freetrain.core.throughput import Curve, mean_rates, usable
from freetrain.core.trainer import Servers, Trainer
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.daemon.trainers.training import Training, is_complete
from freetrain.errors import InputError
from freetrain.lending.causes import AT_ONCE_S, failed_at_once
from freetrain.lending.facts import Request
from freetrain.lending.lent_time import ChangeCosts
from freetrain.slurm.tags import Tag


class BelievedCosts(TypedDict):
    """Costs of changes that are believed of a training, in seconds, named as in a ``Trainer``."""

    scale_up_s: float
    scale_down_s: float
    forced_loss_s: float | None
    start_s: float
    boot_s: float


def believed_costs(seen: SeenCosts, tag: Tag) -> BelievedCosts:
    """Costs that are believed of a training: its tag counts as much as having been seen once.

    A forced loss is the pause, and half of the time between two checkpoints unless SIGTERM saves; None: as for
    shrinking.
    """
    since_saved_s = 0.0 if tag.saves_at_the_end else tag.save_s / 2
    forced_loss_s = None
    # Where its owner names no checkpoints it is taken to lose no more than when it gives nodes back.
    if seen.forced_loss.times or since_saved_s:
        forced_loss_s = seen.forced_loss.believed_s(tag.scale_down_s) + since_saved_s
    return {
        "scale_up_s": seen.scale_up.believed_s(tag.scale_up_s),
        "scale_down_s": seen.scale_down.believed_s(tag.scale_down_s),
        "forced_loss_s": forced_loss_s,
        "start_s": seen.start.believed_s(tag.start_s),
        "boot_s": seen.boot.believed_s(tag.boot_s),
    }


def most_lost_s(tag: Tag) -> float:
    """Seconds of a task's work that its end loses: half of the time between two checkpoints; inf: all of it."""
    if tag.saves_at_the_end:
        return 0.0
    return tag.save_s / 2 if tag.save_s else inf


def known_end_s(tag: Tag) -> float:
    """Cost of a task's end at a known time, in seconds: no less than a run that is just of use."""
    saves_s = 0.0 if tag.saves_at_the_end else tag.save_s
    shortest_s = saves_s if tag.shortest_s is None else tag.shortest_s
    return max(shortest_s, saves_s / 2)


def believed_speeds(trainer: KnownTrainer, tag: Tag) -> Mapping[str, float]:
    """Kind of nodes that its owner names → speed that it is believed to have there."""
    return seen_speeds(trainer.observations, dict(tag.speeds)) if tag.speeds else {}


def seen_at_speed_1(trainer: KnownTrainer, tag: Tag) -> Mapping[int, float]:
    """Samples/s seen on so many nodes, as they would have been at speed 1; empty: its owner names no kinds."""
    if not tag.speeds:
        return {}
    return mean_rates(usable(at_speed_1(trainer.observations, believed_speeds(trainer, tag))))


_GOING_ON = (TrainerState.ACTIVE, TrainerState.RESTING, TrainerState.PAUSED)
_CUT_OFF = frozenset({JobState.TIMEOUT, JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED})
_FAILED = frozenset({JobState.FAILED, JobState.OUT_OF_MEMORY})
# Sums of what is worth less stay far from the largest float.
_MOST_WORTH = 1e30


Competitors = Sequence[Trainer] | str
"""A training as a policy sees it; or what it waits for, as a sentence without its full stop."""


class Strategy(Protocol):
    """Treatment of trainings of one kind, as far as kinds differ; with what most of them do as a default.

    Attributes:
        is_one_program: whether its tasks belong together: what one of them fails of concerns all.
        tasks_compete: whether each of its tasks is a trainer for itself, with all of its nodes or none.
    """

    is_one_program: bool
    tasks_compete: bool

    def trainers(self, training: Training, tag: Tag, room: int, most_nodes: int, now_s: float) -> Competitors:
        """Trainers of a training; its submission has room for ``room`` fragments, the nodes for ``most_nodes``."""

    def needs_again(self, training: Training, task: Job) -> bool:
        """Whether a task of it that has ended is needed again, now or later."""

    def after_runs(self, trainer: KnownTrainer, ended: Iterable[Fragment]) -> KnownTrainer:
        """The trainer after what the runs of these fragments teach."""
        return trainer

    def after_all(self, training: Training, finished: bool | None, runs_tasks: bool) -> Training:
        """The training, complete if it is over.

        ``finished`` is what its directory says; None: it cannot be read. ``runs_tasks`` is whether fragments are
        the submission's own tasks.
        """

    def is_running_out(self, training: Training) -> bool:
        """Whether its tasks complete one by one: in the end fewer may be left than it asks for at least."""
        return False

    def shown_costs(self, training: Training, tag: Tag) -> Mapping[str, float]:
        """Name of a cost → seconds that such a change of its size is taken to cost it."""
        return {}

    def charged_costs(self, tag: Tag) -> ChangeCosts:
        """Costs of its changes in the ledger, as its tag says."""


class _Elastic(Strategy):
    """A training that grows and shrinks while it runs: one program, a node for each task."""

    is_one_program, tasks_compete = True, False

    def trainers(self, training: Training, tag: Tag, room: int, most_nodes: int, now_s: float) -> Competitors:
        sizes = _sizes(training, tag, min(room, most_nodes))
        return sizes if isinstance(sizes, str) else [self._trainer(training, tag, *sizes)]

    def _trainer(self, training: Training, tag: Tag, min_nodes: int, most_nodes: int) -> Trainer:
        known = training.trainer
        costs, seen = believed_costs(known.costs, tag), known.observations
        if tag.speeds:
            seen = at_speed_1(seen, believed_speeds(known, tag))
        # Until its speed was seen or given the curve is relative to one node, which says nothing of a deadline.
        speed_is_known = bool(tag.curve or known.observations)
        return Trainer(
            id=known.id,
            throughput=curve_of(replace(known, observations=seen), tag.curve, most_nodes),
            min_nodes=min_nodes,
            max_nodes=most_nodes,
            **costs,
            weight=tag.weight,
            submitted_s=known.first_seen_s,
            target_samples=tag.target_samples or None,
            bytes_per_sample=tag.bytes_per_sample,
            servers=Servers(tag.servers, tag.step_s_by_size) if tag.servers else None,
            deadline_s=tag.deadline_s(known.first_seen_s) if speed_is_known else None,
        )

    def needs_again(self, training: Training, task: Job) -> bool:
        """Whether it was cut off or failed, or completed where that means only that it has left in good order."""
        if training.trainer.state not in _GOING_ON or training.last_completed:
            return False
        return task.state in _CUT_OFF | _FAILED or (task.state is JobState.COMPLETED and training.is_elastic)

    def after_all(self, training: Training, finished: bool | None, runs_tasks: bool) -> Training:
        target = training.tag.target_samples if training.tag and training.tag.target_samples else inf
        tasks = training.submission.tasks
        nothing_unrun = not runs_tasks or all(task.state is JobState.COMPLETED for task in tasks)
        last = training.runs.last
        is_over = is_complete(training.trainer, training.fragments, last, finished, target, nothing_unrun)
        return training.in_state(TrainerState.COMPLETE) if is_over else training

    def is_running_out(self, training: Training) -> bool:
        return training.runs.some_completed and not training.is_elastic

    def shown_costs(self, training: Training, tag: Tag) -> Mapping[str, float]:
        named = believed_costs(training.trainer.costs, tag)
        return {name: round(seconds, 3) for name, seconds in named.items() if isinstance(seconds, int | float)}

    def charged_costs(self, tag: Tag) -> ChangeCosts:
        return ChangeCosts(tag.start_s, tag.scale_up_s, tag.scale_down_s)


class _TaskArray(Strategy):
    """An array of ordinary programs, a node for each: the others go on whatever becomes of one."""

    is_one_program, tasks_compete = False, False

    def trainers(self, training: Training, tag: Tag, room: int, most_nodes: int, now_s: float) -> Competitors:
        """An independent trainer: each node does as much as the first, and loses its own task only."""
        sizes = _sizes(training, tag, min(room, most_nodes))
        if isinstance(sizes, str):
            return sizes
        running = (fragment for fragment in training.fragments if fragment.state is FragmentState.RUNNING)
        losses_s = [_lost_s(fragment, tag, now_s) for fragment in running if fragment.started_s is not None]
        lost_s = sum(losses_s) / len(losses_s) if losses_s else 0.0
        return [_independent(training, tag, training.id, linear_curve(sizes[1]), sizes[1], lost_s)]

    def needs_again(self, training: Training, task: Job) -> bool:
        """Whether it was cut off, or failed at once and for the first time; what else failed has had its turn."""
        if training.trainer.state not in _GOING_ON:
            return False
        if task.state not in _FAILED:
            return task.state in _CUT_OFF
        runs = training.runs.failed.get(task.id, ())
        # That may have been the node's fault, so it is tried once elsewhere.
        return len(runs) <= 1 and (failed_at_once(runs[0]) if runs else _has_failed_at_once_unseen(task))

    def after_runs(self, trainer: KnownTrainer, ended: Iterable[Fragment]) -> KnownTrainer:
        """The trainer with the run times of its tasks that completed."""
        runs_s = [
            fragment.ended_s - fragment.started_s
            for fragment in ended
            if fragment.end is End.COMPLETED and fragment.started_s is not None and fragment.ended_s is not None
        ]
        return replace(trainer, costs=trainer.costs.after_runs(runs_s)) if runs_s else trainer

    def after_all(self, training: Training, finished: bool | None, runs_tasks: bool) -> Training:
        """The training, complete while each of its tasks has ended such that it is not needed again."""
        tasks = training.submission.tasks
        over = all(task.state.is_final and not self.needs_again(training, task) for task in tasks)
        if over and not training.fragments:
            return training.in_state(TrainerState.COMPLETE)
        # Not complete for ever: its owner may requeue a task that failed.
        if training.trainer.state is TrainerState.COMPLETE:
            return training.in_state(TrainerState.ACTIVE)
        return training

    def charged_costs(self, tag: Tag) -> ChangeCosts:
        return ChangeCosts(tag.boot_s + tag.start_s, 0.0, most_lost_s(tag), independent=True)


class _Moldable(_TaskArray):
    """An array of programs of several nodes each: a task gets its size when it starts, and keeps it."""

    tasks_compete = True

    def trainers(self, training: Training, tag: Tag, room: int, most_nodes: int, now_s: float) -> Competitors:
        """The tasks that run, the oldest first, and as many that wait as could start now.

        With ``max`` the sizes of those that wait add up to no more than it leaves, whichever of them start.
        """
        assert tag.task_nodes is not None
        if tag.task_nodes[0] > most_nodes:
            return f"each of its tasks needs {tag.task_nodes[0]} nodes at once; there are {most_nodes} for it"
        of_job = grouped((fragment.job, fragment) for fragment in training.fragments)
        # Tasks all of whose nodes stay, the oldest first.
        running = [(job, own) for job, own in of_job.items() if all(fragment.goes_on for fragment in own)]
        running.sort(key=lambda task: task[1][0].started_s or inf)
        found = [
            # Two digits will do, and change seldom: the journal keeps each trainer as often as it changes.
            _moldable(training, tag, job, (len(own), len(own)), float(f"{_lost_s(own[0], tag, now_s):.1e}"))
            for job, own in running
        ]
        if not training.is_active:
            return found
        free = [task.id for task in training.submission.startable]
        if at_once := training.submission.max_running:
            free = free[: max(at_once - len(found), 0)]
        sizes = _sizes_of_waiting(tag, most_nodes, len(training.fragments))
        return found + [_moldable(training, tag, job, size, 0.0) for job, size in zip(free, sizes, strict=False)]


ELASTIC, TASKS, MOLDABLE = _Elastic(), _TaskArray(), _Moldable()


def strategy_of(tag: Tag | None) -> Strategy:
    """Strategy for a training with this tag; None: its tag cannot be understood, and it counts as elastic."""
    if tag is None or not tag.is_filler:
        return ELASTIC
    return MOLDABLE if tag.is_moldable else TASKS


Asking = tuple[Request, ...] | str
"""Requests of a training, or what it waits for, as a sentence without its full stop."""


def requests_of(training: Training, room: int, most_nodes: int, objective: str, now_s: float) -> Asking | Fault:
    """Requests of a training, one for each task where these compete; or its fault; or what it waits for.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    return isolated(partial(_requests, training, room, most_nodes, objective, now_s))


def _requests(training: Training, room: int, most_nodes: int, objective: str, now_s: float) -> Asking:
    submission, tag, known = training.submission, training.tag, training.trainer
    assert tag is not None
    strategy = strategy_of(tag)
    found = strategy.trainers(training, tag, room, most_nodes, now_s)
    if isinstance(found, str):
        return found
    for trainer in found:
        _check_size_of_numbers(trainer, objective)
    return tuple(
        Request(
            trainer,
            known.owner,
            submission.account,
            submission.needs,
            tuple(believed_speeds(known, tag).items()),
            tag.mixed,
            filler=known.id if strategy.tasks_compete else "",
            cache_mb=tag.cache_mb,
            task_s=known.costs.run.mean_s if trainer.independent else 0.0,
            most_lost_s=most_lost_s(tag),
        )
        for trainer in found
    )


def _check_size_of_numbers(trainer: Trainer, objective: str) -> None:
    worth = float(np.abs(worth_per_s(trainer, objective)).max())
    costs_s = (trainer.scale_up_s, trainer.scale_down_s, trainer.eviction_s, trainer.start_s, trainer.boot_s)
    # Not ">", because a NaN is to be refused, too.
    if not worth * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")


def _sizes(training: Training, tag: Tag, room: int) -> tuple[int, int] | str:
    """Min and max nodes that it may have now; or why it may have none."""
    most_nodes = min(tag.max_nodes or room, room)
    is_running_out = strategy_of(tag).is_running_out(training)
    min_nodes = min(tag.min_nodes, max(most_nodes, 1)) if is_running_out else tag.min_nodes
    if training.last_completed:
        most_nodes = min(max(len(training.fragments), min_nodes), room)
    elif not training.is_active:
        most_nodes = min(max(training.running_count, min_nodes), room)
    if training.trainer.failures_in_a_row and not training.fragments:
        # Whether it can run is tried without taking more than that from anybody.
        most_nodes = min(most_nodes, max(min_nodes, 1))
    if min_nodes > most_nodes:
        return f"needs {min_nodes} nodes at once; it has tasks for {most_nodes}"
    return min_nodes, most_nodes


def _independent(training: Training, tag: Tag, id_: str, curve: Curve, most_nodes: int, lost_s: float) -> Trainer:
    """A trainer of programs of their own, which are not paused when others come or leave."""
    return Trainer(
        id=id_,
        throughput=curve,
        max_nodes=most_nodes,
        scale_up_s=0.0,
        scale_down_s=lost_s,
        # So a hole that ends before boot + start + shortest is worth nothing to a task.
        forced_loss_s=known_end_s(tag),
        start_s=tag.start_s,
        boot_s=tag.boot_s,
        weight=tag.weight,
        submitted_s=training.trainer.first_seen_s,
        independent=True,
    )


def _moldable(training: Training, tag: Tag, job: str, size: tuple[int, int], lost_s: float) -> Trainer:
    """A task of several nodes, as fast on 1 … ``most`` of them as its owner says, but never faster than linear."""
    least, most = size
    curve = believed(tag.curve) if tag.curve else linear_curve(most)
    if curve[-1][0] < most:
        curve = (*curve, (most, curve[-1][1]))
    alone = _independent(training, tag, job, curve, most, lost_s)
    return replace(alone, min_nodes=least, independent=False, moldable=True)


def _lost_s(fragment: Fragment, tag: Tag, now_s: float) -> float:
    return 0.0 if fragment.started_s is None else min(max(now_s - fragment.started_s, 0.0), most_lost_s(tag))


def _sizes_of_waiting(tag: Tag, most_nodes: int, held_nodes: int) -> list[tuple[int, int]]:
    assert tag.task_nodes is not None
    least, most = tag.task_nodes
    most = min(most, most_nodes)
    if least > most:
        return []
    if tag.max_nodes is None:
        return [(least, most)] * (most_nodes // least)
    left = tag.max_nodes - held_nodes
    rest = left % most if left > 0 else 0
    return [(least, most)] * max(left // most, 0) + ([(least, rest)] if rest >= least else [])


def _has_failed_at_once_unseen(task: Job) -> bool:
    """Whether a task that no look saw running ended as soon as it had begun: one that came unheld, for example."""
    return task.start_s is not None and task.end_s is not None and task.end_s - task.start_s <= AT_ONCE_S
