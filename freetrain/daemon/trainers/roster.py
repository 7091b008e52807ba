"""The roster: all trainers, kept up to date with what users hand in and with what happens."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial

from freetrain.core.fragment import End, Fragment
from freetrain.core.job import WaitsFor
from freetrain.core.known_trainer import UNKNOWN_END, KnownTrainer, TrainerState
from freetrain.core.node import Node
from freetrain.core.observed import kind_of_nodes
from freetrain.daemon.trainers.ends import Patience, after_ends, awake, resumed
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.daemon.trainers.training import RosterInputs, RosterRules, Training
from freetrain.lending.causes import CauseOf, cause_of_wait, has_own_obstacle
from freetrain.slurm.comments import asked_to_resume, says_paused
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import Tag, WrongTag

_KEPT_OBSERVATIONS = 200
_LONGEST_REST, _LONGEST_WAIT = 2**10, 2**4
"""In rests after the first failure: where no node will do, and where what is waited for may come any time."""


def update_roster(submissions: Iterable[Submission], inputs: RosterInputs, rules: RosterRules) -> list[Training]:
    """Every submission as a trainer, in the order of submission; one that cannot be dealt with has a fault."""
    trainings = []
    for submission in submissions:
        training = _as_known(submission, inputs)
        new = isolated(partial(_updated, training, inputs, rules))
        trainings.append(training.with_fault(new.what) if isinstance(new, Fault) else new)
    return trainings


def _as_known(submission: Submission, inputs: RosterInputs) -> Training:
    """The training as it was, with its fragments as they are."""
    trainer = inputs.known.get(submission.id) or KnownTrainer(
        submission.id, submission.owner, submission.comment, TrainerState.ACTIVE, inputs.time_s
    )
    account = next((task.account for task in submission.tasks if task.account), trainer.account)
    return Training(
        replace(trainer, account=account),
        submission,
        None,
        inputs.fragments.get(submission.id, ()),
        inputs.past.last.get(submission.id),
        some_completed=submission.id in inputs.past.some_completed,
        failed_runs=inputs.past.failed_runs.get(submission.id, {}),
    )


def _updated(training: Training, inputs: RosterInputs, rules: RosterRules) -> Training:
    """The training after all that has happened.

    1. What its owner wants counts first: a wrong tag refuses it, and they may have asked for it to go on.
    2. Then what its directory says, how its fragments ended, and which Slurm does not start.
    3. Whether it is complete is judged last, on all of that.
    """
    id_, known_tag, report = (
        training.id,
        training.submission.good_tag,
        inputs.reports.get(training.id),
    )
    trainer = _with_tag(training.trainer, training.submission, inputs.unfit.get(id_, ""), inputs.answered)
    if report is not None:
        report = _on_known_nodes(report, known_tag, training.fragments, inputs.nodes)
    trainer = _with_report(trainer, report, training.fragments)
    strategy, ended = strategy_of(known_tag), [run for run in inputs.ended if run.trainer == id_]
    trainer = strategy.after_runs(trainer, ended)
    if not strategy.is_one_program:  # the others go on whatever one of its tasks fails of
        ended = [fragment for fragment in ended if fragment.end is not End.FAILED]
    failed_on = {run.node for runs in training.failed_runs.values() for run in runs}
    trainer = after_ends(trainer, ended, rules.patience, inputs.time_s, training.fragments, failed_on)
    trainer = awake(_after_waits(trainer, training, inputs, rules), inputs.time_s)
    trainer = _after_refusals(trainer, training.submission, inputs, rules.patience)
    # A copy of a pattern has no work of its own.
    has_record = report is not None and report.finished is not None
    is_elastic = not rules.runs_tasks or (strategy.is_one_program and has_record)
    training = replace(training, trainer=trainer, tag=known_tag, is_elastic=is_elastic)
    finished = report.finished if report else None
    return _with_end(strategy.after_all(training, finished, rules.runs_tasks))


def _with_tag(
    trainer: KnownTrainer, submission: Submission, unfit: str, answered: Collection[str]
) -> KnownTrainer:
    if trainer.state is TrainerState.COMPLETE:
        return trainer
    comment, tag = submission.comment, submission.tag
    trainer, before = replace(trainer, tag=comment), trainer
    wrong = tag.why if isinstance(tag, WrongTag) else unfit
    if wrong:
        return replace(trainer, state=TrainerState.REFUSED, note=wrong)
    if trainer.state is TrainerState.REFUSED:
        return replace(trainer, state=TrainerState.ACTIVE, note="", failures_in_a_row=0)
    return resumed(trainer) if _is_resumed(before, comment, answered) else trainer


def _is_resumed(trainer: KnownTrainer, comment: str, answered: Collection[str]) -> bool:
    """Whether its owner wants it to go on: they ask for it, or have removed the answer from the comment."""
    asked = asked_to_resume(comment)
    if asked:
        return asked != asked_to_resume(trainer.tag)
    was_told = says_paused(trainer.tag) or trainer.id in answered
    return trainer.state is TrainerState.PAUSED and was_told and not says_paused(comment)


def _on_known_nodes(
    report: Report, tag: Tag | None, fragments: Iterable[Fragment], nodes: Mapping[str, Node]
) -> Report:
    """The report, each observation with the kind of nodes on which it was made, where its owner names kinds.

    Who has nodes of one kind changes to another only after it has lost all of them. So since the first of those
    that it has now was started it was on the kind of these. What was seen before is left out: nobody knows where.
    """
    if tag is None or not tag.speeds:
        return report
    running = [fragment for fragment in fragments if fragment.started_s is not None and fragment.node in nodes]
    since_s = min((fragment.started_s for fragment in running if fragment.started_s is not None), default=math.inf)
    here = (nodes[fragment.node] for fragment in running)
    kind = kind_of_nodes((node.features | node.gpu_types for node in here), dict(tag.speeds))
    seen = (
        replace(observation, kind=kind) for observation in report.observations if observation.began_s >= since_s
    )
    return replace(report, observations=tuple(seen))


def _with_report(trainer: KnownTrainer, report: Report | None, fragments: Iterable[Fragment]) -> KnownTrainer:
    """The trainer after what its directory says; a fault lasts as long as its cause."""
    if report is not None and report.offset_bytes != trainer.progress_bytes:
        trainer = replace(
            trainer,
            samples_done=report.samples_done or trainer.samples_done,
            progress_bytes=report.offset_bytes,
            observations=(*trainer.observations, *report.observations)[-_KEPT_OBSERVATIONS:],
            costs=trainer.costs.after(
                report.changes, (fragment.started_s for fragment in fragments if fragment.started_s is not None)
            ),
            misread=trainer.misread.and_then(report.misread),
            losses=trainer.losses.and_then(report.losses),
        )
    return replace(trainer, fault=(report.fault if report else "") or str(trainer.misread) or str(trainer.losses))


def _after_waits(
    trainer: KnownTrainer, training: Training, inputs: RosterInputs, rules: RosterRules
) -> KnownTrainer:
    """Let a trainer rest whose fragments wait for something of its own: no node can give it that."""
    late_s = inputs.time_s - rules.start_within_s
    jobs = [
        (fragment, inputs.jobs.get(fragment.job))
        for fragment in training.fragments
        if fragment.waits_since_before(inputs.time_s)
    ]
    reasons = [
        job.reason
        for one, job in jobs
        if job is not None
        and (has_own_obstacle(job) or (one.asked_s < late_s and cause_of_wait(job) in (CauseOf.JOB, CauseOf.PAIR)))
    ]
    if not reasons or trainer.state is not TrainerState.ACTIVE:
        return trainer
    failures = trainer.failures_in_a_row + 1
    rest_s = rules.patience.back_off_s * min(2 ** (failures - 1), _LONGEST_WAIT)
    return replace(
        trainer,
        state=TrainerState.RESTING,
        failures_in_a_row=failures,
        rests_until_s=inputs.time_s + rest_s,
        note=f"Slurm does not start its fragments ({reasons[0]}); rests for {rest_s:.0f} s",
    )


def _after_refusals(
    trainer: KnownTrainer, submission: Submission, inputs: RosterInputs, patience: Patience
) -> KnownTrainer:
    """Let a trainer rest that Slurm cannot run where it was lent a node; the node is as good as before."""
    refused = {fragment.job: fragment.node for fragment in inputs.ended if fragment.end is End.NEVER_STARTED}
    impossible = [task for task in submission.tasks if task.waits_for is WaitsFor.POSSIBILITY]
    reasons = {refused[task.id]: task.reason for task in impossible if task.id in refused}
    if not reasons or trainer.state is not TrainerState.ACTIVE:
        return trainer
    failures, (node, reason) = trainer.failures_in_a_row + 1, next(iter(reasons.items()))
    rest_s = patience.back_off_s * min(2 ** (failures - 1), _LONGEST_REST)
    return replace(
        trainer,
        state=TrainerState.RESTING,
        failures_in_a_row=failures,
        rests_until_s=inputs.time_s + rest_s,
        note=f"Slurm finds no way to run it on {node} ({reason}); rests for {rest_s:.0f} s",
    )


def _with_end(training: Training) -> Training:
    """Say of a training that goes on whether it will be known when it ends."""
    note = training.trainer.note
    if not training.is_active or (note and note != UNKNOWN_END):
        return training
    note = UNKNOWN_END if strategy_of(training.tag).is_drained(training) else ""
    return replace(training, trainer=replace(training.trainer, note=note))
