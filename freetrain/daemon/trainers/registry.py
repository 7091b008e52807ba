"""The registry: all trainers, as users submitted them and as the ledger and their directories complete them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, by_trainer
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.needs import Needs, NodeKinds, find_misfit, kinds_of, most_places
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.trainers.isolation import Fault, Faults, isolated
from freetrain.daemon.trainers.kinds import requests_of
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.daemon.trainers.roster import update_roster
from freetrain.daemon.trainers.training import FragmentHistory, RosterInputs, RosterRules, Training
from freetrain.lending.facts import Request
from freetrain.lending.rules import Share
from freetrain.slurm.asking import TaskSpec
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.store.ledger import Ledger

_NOT_SHOWN = TaskSpec(Needs(unclear="Slurm does not show what it asks for"))

_ASK_AGAIN_S = 120.0
"""Owners may change what a waiting job asks for, and seldom do."""


class SubmissionReader:
    """Asks what tasks ask for when there is a submission of which that is not known, and now and then."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._requests: Mapping[str, TaskSpec] = {}
        self._asked_s = float("-inf")

    def read(
        self,
        snapshot: Snapshot,
        jobs: Iterable[Job],
        queue: FragmentQueue,
        default_memory_mb: int,
        share: Share = Share.WHOLE,
        shares_out_memory: bool = True,
    ) -> Mapping[str, Submission]:
        """The submissions by id, oldest first; two more questions to Slurm where it must be asked.

        Args:
            snapshot: what there is.
            jobs: its jobs, with how they ended.
            queue: where fragments wait and run.
            default_memory_mb: what Slurm gives a job that asks for no memory, where the partition says nothing.
            share: how much of a node is lent at once.
            shares_out_memory: whether Slurm shares a node's memory out among its jobs.

        Raises:
            SlurmError: Slurm does not answer.
        """
        found = find_submissions(jobs, queue)
        is_old = snapshot.time_s - self._asked_s > _ASK_AGAIN_S
        if found and (is_old or not found.keys() <= self._requests.keys()):
            default_mb = queue.among(snapshot.partitions).default_memory_mb or default_memory_mb
            answered = self._gateway.task_requests(queue, default_mb)
            waiting = [id_ for id_, one in found.items() if _waits(one)]
            if waiting and not answered:
                raise SlurmUnclearError("squeue -O", "it shows no job")
            requests = {id_: self._request_of(one, answered) for id_, one in found.items()}
            needs = {
                id_: _within_its_partitions(requests[id_].needs, one, snapshot, queue)
                for id_, one in found.items()
            }
            self._requests = {
                id_: replace(
                    requests[id_], needs=one.lent_in_part(shares_out_memory) if share.in_part(one) else one
                )
                for id_, one in needs.items()
            }
            # What Slurm does not show although it waits, and what is being put right, is asked about again soon.
            is_known = answered.keys() >= set(waiting) and all(request.requeues for request in requests.values())
            self._asked_s = snapshot.time_s if is_known else float("-inf")
        return {id_: self._with_request(one) for id_, one in found.items()}

    def _with_request(self, submission: Submission) -> Submission:
        request = self._requests[submission.id]
        needs = replace(request.needs, features=submission.needs.features)
        return replace(submission, needs=needs, requeues=request.requeues, begin_s=request.begin_s)

    def _request_of(self, submission: Submission, answered: Mapping[str, TaskSpec]) -> TaskSpec:
        """As known before where none of its tasks waits: Slurm shows of the others what they got."""
        if _waits(submission):
            return answered.get(submission.id, _NOT_SHOWN)
        return self._requests.get(submission.id) or answered.get(submission.id, TaskSpec())


def _within_its_partitions(
    needs: Needs, submission: Submission, snapshot: Snapshot, queue: FragmentQueue
) -> Needs:
    """The needs of one that came to some of the partitions only: it never runs on the nodes of the others."""
    task = next((task for task in submission.tasks if task.state.is_waiting), None)
    if task is None or set(task.partition.split(",")) >= set(queue.partitions):
        return needs  # of one that runs Slurm names only the partition in which it does
    its = FragmentQueue(task.partition).among(snapshot.partitions).nodes
    return replace(needs, excluded=needs.excluded | (queue.among(snapshot.partitions).nodes - its))


def _waits(submission: Submission) -> bool:
    return any(task.state.is_waiting for task in submission.tasks)


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Registered:
    """What a look found out about trainers.

    Attributes:
        trainings: all, in the order of submission.
        requests: what those ask for that could run.
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
    """Knows the trainers from look to look.

    Args:
        gateway: the way to Slurm.
        launcher: knows which submissions can be trainers.
        ledger: remembers.
        fragments: the books.
    """

    def __init__(self, gateway: Gateway, launcher: Launcher, ledger: Ledger, fragments: Fragments) -> None:
        self._reader = SubmissionReader(gateway)
        self._launcher = launcher
        self._ledger = ledger
        self._fragments = fragments
        self._known: dict[str, KnownTrainer] = {}
        self._faults = Faults()

    def look(
        self,
        snapshot: Snapshot,
        ended: Sequence[Fragment],
        reports: Mapping[str, Report],
        answered: Collection[str],
        rules: RosterRules,
    ) -> Registered:
        """Bring what is known of the trainers up to date.

        Args:
            snapshot: what there is.
            ended: fragments that ended since the last look.
            reports: trainer → what its directory says.
            answered: trainers whose owner has been informed that they are paused.
            rules: how trainers are dealt with.

        Raises:
            SlurmError: Slurm was asked what tasks ask for, and does not answer.
        """
        names = rules.queue.among(snapshot.partitions).nodes
        kinds = kinds_of(node for node in snapshot.nodes if node.name in names)
        jobs = self._fragments.as_they_ended(snapshot.jobs)
        submissions = self._reader.read(
            snapshot, jobs, rules.queue, rules.default_memory_mb, rules.share, rules.shares_out_memory
        )
        self._know(submissions.keys())
        inputs = RosterInputs(
            time_s=snapshot.time_s,
            known=self._known,
            unfit=self._find_unfit(kinds, submissions, rules),
            fragments=by_trainer(self._fragments.open),
            ended=ended,
            past=FragmentHistory(
                self._fragments.last, self._fragments.some_completed, self._fragments.failed_runs
            ),
            reports=reports,
            answered=answered,
            nodes=snapshot.node,
            jobs=snapshot.job,
        )
        trainings = update_roster(submissions.values(), inputs, rules)
        self._remember(trainings)
        return self._with_requests(trainings, kinds, rules, snapshot.time_s)

    def _know(self, ids: Set[str]) -> None:
        """Remember these trainers, and no others."""
        self._known = {id_: known for id_, known in self._known.items() if id_ in ids}
        if new := ids - self._known.keys():
            self._known |= self._ledger.trainers(new)

    def _find_unfit(
        self, kinds: NodeKinds, submissions: Mapping[str, Submission], rules: RosterRules
    ) -> Mapping[str, str]:
        """Submissions that cannot be trainers → why; what runs already has found a node that it can run on."""
        running = {fragment.trainer for fragment in self._fragments.open}
        misfit = {
            needs: find_misfit(needs, kinds) for needs in {submission.needs for submission in submissions.values()}
        }
        found = {
            id_: self._why_not(one)
            or _lacks_freezer(one, rules)
            or (misfit[one.needs] if id_ not in running else "")
            for id_, one in submissions.items()
        }
        return {id_: why for id_, why in found.items() if why}

    def _why_not(self, submission: Submission) -> str:
        some_completed = submission.id in self._fragments.some_completed
        why = isolated(lambda: self._launcher.why_not(submission, some_completed))
        return why.what if isinstance(why, Fault) else why

    def _remember(self, trainings: Iterable[Training]) -> None:
        changed = [training.trainer for training in trainings if self._known.get(training.id) != training.trainer]
        self._ledger.save_trainers(changed)
        for trainer in changed:
            before = self._known.get(trainer.id)
            if before is None or (before.state, before.note) != (trainer.state, trainer.note):
                _say_state(trainer)
        self._known.update({trainer.id: trainer for trainer in changed})

    def _with_requests(
        self, trainings: Iterable[Training], kinds: NodeKinds, rules: RosterRules, now_s: float
    ) -> Registered:
        """What is wrong with one of them is its own, and logged once."""
        nodes = sum(map(len, kinds))
        noted, requests = [], list[Request]()
        waits_for: dict[str, str] = {}
        for training in trainings:
            trainer = training.trainer
            self._faults.say(trainer.id, trainer.owner, "itself", trainer.fault)
            needs = training.submission.needs
            most = most_places(needs, kinds) if needs.in_part else nodes
            found = self._requests(training, most, rules.objective, now_s)
            if isinstance(found, Fault):
                self._faults.say(trainer.id, trainer.owner, "competing", found.what)
                training = training.with_fault(found.what)
            elif isinstance(found, str):
                waits_for |= {trainer.id: found} if found else {}
            else:
                requests += found
            noted.append(training)
        return Registered(tuple(noted), tuple(requests), waits_for)

    def _requests(
        self, training: Training, most: int, objective: str, now_s: float
    ) -> tuple[Request, ...] | Fault | str:
        if not training.competes or training.tag is None:
            return ""
        has_run = bool(training.fragments) or training.last is not None
        why_not_yet = self._launcher.why_not_yet(training.submission, now_s, has_run)
        if why_not_yet and not training.fragments:
            return why_not_yet
        # Where it has nodes already it keeps them, and gets no more.
        room = (
            len(training.fragments)
            if why_not_yet
            else self._launcher.room(training.submission, training.fragments)
        )
        return requests_of(training, room, most, objective, now_s)


def _lacks_freezer(submission: Submission, rules: RosterRules) -> str:
    """Why no task of it could begin: it names a freezer that the site has not; empty: it can."""
    tag = submission.good_tag
    if tag is None or not tag.freeze or tag.freeze in rules.freezers:
        return ""
    known = ", ".join(sorted(rules.freezers)) or "none"
    return f"this site has no freezer {tag.freeze}; it has {known}"


def _say_state(trainer: KnownTrainer) -> None:
    text = f"{trainer.state}: {trainer.note}" if trainer.note else trainer.state
    log.info("trainer %s of %s is %s", trainer.id, trainer.owner, text)
