"""Reads what users have submitted, with what its tasks ask of their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job
from freetrain.core.needs import Needs
from freetrain.lending.rules import Share
from freetrain.slurm.asking import TaskSpec
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.submissions import Submission, find_submissions

_NOT_SHOWN = TaskSpec(Needs(unclear="Slurm does not show what it asks for"))

_ASK_AGAIN_S = 120.0
"""Owners may change what a waiting job asks for, and seldom do."""


class SubmissionReader:
    """Asks what tasks ask for when there is a submission of which that is not known, and now and then.

    Args:
        gateway: the way to Slurm.
    """

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
