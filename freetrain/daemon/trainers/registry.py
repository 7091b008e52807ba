"""The registry: all trainers, as users submitted them and as the ledger and their directories complete them."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, by_trainer
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, WaitsFor
from freetrain.core.known_trainer import UNKNOWN_END, KnownTrainer, TrainerState
from freetrain.core.needs import Needs, NodeKinds, find_misfit, kinds_of, most_places
from freetrain.core.node import Node
from freetrain.core.observed import kind_of_nodes
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.log_output import Problems
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.daemon.trainers.kinds import Asking, requests_of, strategy_of
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.daemon.trainers.training import (
    Patience,
    RosterRules,
    TrainerRuns,
    Training,
    after_ends,
    awake,
    resting,
    resumed,
)
from freetrain.lending.causes import CauseOf, cause_of_wait, has_own_obstacle
from freetrain.lending.facts import Request
from freetrain.slurm.asking import TaskSpec
from freetrain.slurm.comments import asked_to_resume, says_paused
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.slurm.tags import Tag, WrongTag
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)

_KEPT_OBSERVATIONS = 200
# In rests after the first failure. What is waited for may come at any time: a wait is looked at again soon.
_LONGEST_REST, _LONGEST_WAIT = 2**10, 2**4


@dataclass(frozen=True, slots=True)
class RosterInputs:
    """Facts about all trainers: those that a look found out, and those that were known before.

    Attributes:
        known: trainers met before, by id.
        unfit: submissions that cannot be trainers → why.
        ended: fragments that ended since the last look.
        reports: trainer → what its directory says.
        answered: trainers whose owner has been informed that they are paused.
    """

    snapshot: Snapshot
    known: Mapping[str, KnownTrainer]
    unfit: Mapping[str, str]
    books: Fragments
    ended: Sequence[Fragment]
    reports: Mapping[str, Report]
    answered: Collection[str]


def update_roster(submissions: Iterable[Submission], inputs: RosterInputs, rules: RosterRules) -> list[Training]:
    """Every submission as a trainer, in the order of submission; one that cannot be dealt with has a fault."""
    trainings, fragments = [], by_trainer(inputs.books.open)
    for submission in submissions:
        submission = replace(submission, fragments=fragments.get(submission.id, ()))
        trainer = inputs.known.get(submission.id) or KnownTrainer(
            submission.id, submission.owner, submission.comment, TrainerState.ACTIVE, inputs.snapshot.time_s
        )
        account = next((task.account for task in submission.tasks if task.account), trainer.account)
        runs = inputs.books.runs.get(submission.id, TrainerRuns())
        training = Training(replace(trainer, account=account), submission, None, runs)
        new = isolated(partial(_updated, training, inputs, rules))
        trainings.append(training.with_fault(new.what) if isinstance(new, Fault) else new)
    return trainings


def _updated(training: Training, inputs: RosterInputs, rules: RosterRules) -> Training:
    """The training after all that has happened.

    1. What its owner wants counts first: a wrong tag refuses it, and they may have asked for it to go on.
    2. Then what its directory says, how its fragments ended, and which Slurm does not start.
    3. Whether it is complete is judged last, on all of that.
    """
    id_, known_tag, report = training.id, training.submission.good_tag, inputs.reports.get(training.id)
    now_s = inputs.snapshot.time_s
    trainer = _with_tag(training.trainer, training.submission, inputs.unfit.get(id_, ""), inputs.answered)
    if report is not None:
        report = _on_known_nodes(report, known_tag, training.fragments, inputs.snapshot.node)
    trainer = _with_report(trainer, report, training.fragments)
    strategy, ended = strategy_of(known_tag), [run for run in inputs.ended if run.trainer == id_]
    trainer = strategy.after_runs(trainer, ended)
    # The others go on whatever one of its tasks fails of.
    if not strategy.is_one_program:
        ended = [fragment for fragment in ended if fragment.end is not End.FAILED]
    failed_on = {run.node for runs in training.runs.failed.values() for run in runs}
    trainer = after_ends(trainer, ended, rules.patience, now_s, training.fragments, failed_on)
    trainer = awake(_after_waits(trainer, training, inputs.snapshot, rules), now_s)
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
    is_answered = says_paused(trainer.tag) or trainer.id in answered
    return trainer.state is TrainerState.PAUSED and is_answered and not says_paused(comment)


def _on_known_nodes(
    report: Report, tag: Tag | None, fragments: Iterable[Fragment], nodes: Mapping[str, Node]
) -> Report:
    """The report, each observation with the kind of nodes on which it was made, where its owner names kinds."""
    if tag is None or not tag.speeds:
        return report
    running = [fragment for fragment in fragments if fragment.started_s is not None and fragment.node in nodes]
    # It changes to another kind only after it has lost all nodes, so since the first of these was started it was
    # on theirs. What was seen before is left out: nobody knows where.
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
    trainer: KnownTrainer, training: Training, snapshot: Snapshot, rules: RosterRules
) -> KnownTrainer:
    """Let a trainer rest whose fragments wait for something of its own: no node can give it that."""
    late_s = snapshot.time_s - rules.start_within_s
    waiting = [fragment for fragment in training.fragments if fragment.waits_since_before(snapshot.time_s)]
    jobs = [(fragment.asked_s, snapshot.job.get(fragment.job)) for fragment in waiting]
    reasons = [
        job.reason
        for asked_s, job in jobs
        if job is not None
        and (has_own_obstacle(job) or (asked_s < late_s and cause_of_wait(job) in (CauseOf.JOB, CauseOf.PAIR)))
    ]
    if not reasons or trainer.state is not TrainerState.ACTIVE:
        return trainer
    why = f"Slurm does not start its fragments ({reasons[0]})"
    return resting(trainer, rules.patience, snapshot.time_s, why, _LONGEST_WAIT)


def _after_refusals(
    trainer: KnownTrainer, submission: Submission, inputs: RosterInputs, patience: Patience
) -> KnownTrainer:
    """Let a trainer rest that Slurm cannot run where it was lent a node; the node is as good as before."""
    refused = {fragment.job: fragment.node for fragment in inputs.ended if fragment.end is End.NEVER_STARTED}
    impossible = [task for task in submission.tasks if task.waits_for is WaitsFor.POSSIBILITY]
    reasons = {refused[task.id]: task.reason for task in impossible if task.id in refused}
    if not reasons or trainer.state is not TrainerState.ACTIVE:
        return trainer
    node, reason = next(iter(reasons.items()))
    why = f"Slurm finds no way to run it on {node} ({reason})"
    return resting(trainer, patience, inputs.snapshot.time_s, why, _LONGEST_REST)


def _with_end(training: Training) -> Training:
    """The training, with a note if it goes on and its end cannot be known."""
    note = training.trainer.note
    if not training.is_active or (note and note != UNKNOWN_END):
        return training
    note = UNKNOWN_END if strategy_of(training.tag).is_running_out(training) else ""
    return replace(training, trainer=replace(training.trainer, note=note))


_NOT_SHOWN = TaskSpec(Needs(unclear="Slurm does not show what it asks for"))
# Owners may change what a waiting job asks for, and seldom do.
_ASK_AGAIN_S = 120.0


class SubmissionReader:
    """Asks Slurm what tasks ask for: when this is unknown of a submission, and now and then."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._requests: Mapping[str, TaskSpec] = {}
        self._asked_s = float("-inf")

    def read(self, snapshot: Snapshot, jobs: Iterable[Job], rules: RosterRules) -> Mapping[str, Submission]:
        """The submissions by id, oldest first; two more questions to Slurm where it must be asked."""
        queue = rules.queue
        found = find_submissions(jobs, queue)
        is_old = snapshot.time_s - self._asked_s > _ASK_AGAIN_S
        if found and (is_old or not found.keys() <= self._requests.keys()):
            default_mb = queue.among(snapshot.partitions).default_memory_mb or rules.default_memory_mb
            answered = self._gateway.task_requests(queue, default_mb)
            waiting = [id_ for id_, submission in found.items() if submission.waits]
            if waiting and not answered:
                raise SlurmUnclearError("squeue -O", "it shows no job")
            requests = {}
            for id_, submission in found.items():
                # Where none of its tasks waits Slurm shows what they got: what was known before counts.
                known = None if submission.waits else self._requests.get(id_)
                request = known or answered.get(id_, _NOT_SHOWN if submission.waits else TaskSpec())
                needs = _within_its_partitions(request.needs, submission, snapshot, queue)
                needs = needs.lent_in_part(rules.shares_out_memory) if rules.share.in_part(needs) else needs
                requests[id_] = replace(request, needs=needs)
            self._requests = requests
            # What Slurm does not show although it waits, and what is being put right, is asked about again soon.
            is_known = answered.keys() >= set(waiting) and all(request.requeues for request in requests.values())
            self._asked_s = snapshot.time_s if is_known else float("-inf")
        return {id_: self._with_request(submission) for id_, submission in found.items()}

    def _with_request(self, submission: Submission) -> Submission:
        request = self._requests[submission.id]
        needs = replace(request.needs, features=submission.needs.features)
        return replace(submission, needs=needs, requeues=request.requeues, begin_s=request.begin_s)


def _within_its_partitions(
    needs: Needs, submission: Submission, snapshot: Snapshot, queue: FragmentQueue
) -> Needs:
    """Needs of a submission; one to some of the partitions only never runs on the nodes of the others."""
    task = next((task for task in submission.tasks if task.state.is_waiting), None)
    if task is None or set(task.partition.split(",")) >= set(queue.partitions):
        # Of a job that runs Slurm names only the partition in which it does, so that only waiting ones say more.
        return needs
    its = FragmentQueue(task.partition).among(snapshot.partitions).nodes
    return replace(needs, excluded=needs.excluded | (queue.among(snapshot.partitions).nodes - its))


@dataclass(frozen=True)
class Registered:
    """Trainers as a look found them.

    Attributes:
        trainings: all, in the order of submission.
        requests: requests of those that could run.
        waits_for: trainer that would compete but for its own submission → what it waits for.
    """

    trainings: tuple[Training, ...] = ()
    requests: tuple[Request, ...] = ()
    waits_for: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def training(self) -> Mapping[str, Training]:
        """Trainings by id."""
        return {training.id: training for training in self.trainings}


class Registry:
    """Knows the trainers from look to look."""

    def __init__(self, gateway: Gateway, launcher: Launcher, ledger: Ledger, fragments: Fragments) -> None:
        self._reader = SubmissionReader(gateway)
        self._launcher = launcher
        self._ledger = ledger
        self._fragments = fragments
        self._known: dict[str, KnownTrainer] = {}
        self._problems = Problems()

    def look(
        self,
        snapshot: Snapshot,
        ended: Sequence[Fragment],
        reports: Mapping[str, Report],
        answered: Collection[str],
        rules: RosterRules,
    ) -> Registered:
        """Bring what is known of the trainers up to date, and return it."""
        jobs = self._fragments.as_they_ended(snapshot.jobs)
        submissions = self._reader.read(snapshot, jobs, rules)
        self._known = {id_: known for id_, known in self._known.items() if id_ in submissions}
        if new := submissions.keys() - self._known.keys():
            self._known |= self._ledger.trainers(new)
        names = rules.queue.among(snapshot.partitions).nodes
        kinds = kinds_of(node for node in snapshot.nodes if node.name in names)
        unfit = self._find_unfit(submissions, kinds, rules)
        inputs = RosterInputs(snapshot, self._known, unfit, self._fragments, ended, reports, answered)
        trainings = update_roster(submissions.values(), inputs, rules)
        self._remember(trainings)
        return self._with_requests(trainings, kinds, snapshot, rules)

    def _find_unfit(
        self, submissions: Mapping[str, Submission], kinds: NodeKinds, rules: RosterRules
    ) -> Mapping[str, str]:
        running = {fragment.trainer for fragment in self._fragments.open}
        asked = {submission.needs for submission in submissions.values()}
        misfit = {needs: find_misfit(needs, kinds) for needs in asked}
        found = {
            id_: self._why_not(submission)
            or _lacks_freezer(submission, rules)
            or (misfit[submission.needs] if id_ not in running else "")
            for id_, submission in submissions.items()
        }
        return {id_: why for id_, why in found.items() if why}

    def _why_not(self, submission: Submission) -> str:
        some_completed = self._fragments.runs.get(submission.id, TrainerRuns()).some_completed
        why = isolated(lambda: self._launcher.why_not(submission, some_completed))
        return why.what if isinstance(why, Fault) else why

    def _remember(self, trainings: Iterable[Training]) -> None:
        changed = [training.trainer for training in trainings if self._known.get(training.id) != training.trainer]
        self._ledger.save_trainers(changed)
        for trainer in changed:
            before = self._known.get(trainer.id)
            if before is None or (before.state, before.note) != (trainer.state, trainer.note):
                text = f"{trainer.state}: {trainer.note}" if trainer.note else trainer.state
                log.info("trainer %s of %s is %s", trainer.id, trainer.owner, text)
        self._known.update({trainer.id: trainer for trainer in changed})

    def _with_requests(
        self, trainings: Iterable[Training], kinds: NodeKinds, snapshot: Snapshot, rules: RosterRules
    ) -> Registered:
        all_nodes = len(rules.queue.among(snapshot.partitions).nodes)
        noted, requests = [], list[Request]()
        waits_for: dict[str, str] = {}
        for training in trainings:
            trainer = training.trainer
            self._complain(trainer, "itself", trainer.fault)
            needs = training.submission.needs
            most = most_places(needs, kinds) if needs.in_part else all_nodes
            found = self._requests(training, most, rules.objective, snapshot.time_s)
            if isinstance(found, Fault):
                self._complain(trainer, "competing", found.what)
                training = training.with_fault(found.what)
            elif isinstance(found, str):
                waits_for |= {trainer.id: found} if found else {}
            else:
                requests += found
            noted.append(training)
        return Registered(tuple(noted), tuple(requests), waits_for)

    def _complain(self, trainer: KnownTrainer, kind: str, fault: str) -> None:
        """Log a fault, unless one of this kind was logged of the trainer."""
        if fault and self._problems.is_new(f"{kind} of {trainer.id}"):
            log.warning("trainer %s of %s: %s", trainer.id, trainer.owner, fault)

    def _requests(self, training: Training, most: int, objective: str, now_s: float) -> Asking | Fault:
        if not training.competes or training.tag is None:
            return ""
        has_run = bool(training.fragments) or training.runs.last is not None
        why_not_yet = self._launcher.why_not_yet(training.submission, now_s, has_run)
        if why_not_yet and not training.fragments:
            return why_not_yet
        room = self._launcher.room(training.submission)
        # It keeps the nodes that it has already, and gets no more.
        if why_not_yet:
            room = len(training.fragments)
        return requests_of(training, room, most, objective, now_s)


def _lacks_freezer(submission: Submission, rules: RosterRules) -> str:
    """Reason why no task of it could begin: it names a freezer that the site has not; empty: it can."""
    tag = submission.good_tag
    if tag is None or not tag.freeze or tag.freeze in rules.freezers:
        return ""
    known = ", ".join(sorted(rules.freezers)) or "none"
    return f"this site has no freezer {tag.freeze}; it has {known}"
