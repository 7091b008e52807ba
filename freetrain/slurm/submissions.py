"""Submissions: what users handed to Slurm with a tag, each of which stands for a trainer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from freetrain.core.cluster import Job, JobState
from freetrain.core.needs import Needs
from freetrain.slurm.tags import TAG_PREFIX

_NOTHING = Needs()
_UNASKED: Mapping[str, Needs] = {}


@dataclass(frozen=True, slots=True)
class Submission:
    """A tagged array of one-node tasks, or a tagged job that is a pattern for fragments.

    Attributes:
        id: Slurm's, of the array or the job.
        owner: who submitted it.
        comment: with the tag.
        submitted_s: when, UTC epoch seconds.
        tasks: its tasks that Slurm still shows, whatever their state.
        needs: what each of them asks of its node, as far as it was asked about.
    """

    id: str
    owner: str
    comment: str
    submitted_s: float
    tasks: tuple[Job, ...]
    needs: Needs = _NOTHING

    @property
    def is_withdrawn(self) -> bool:
        """Whether its owner, or an admin, has cancelled what was left of it."""
        return self.is_over and any(task.state is JobState.CANCELLED for task in self.tasks)

    @property
    def is_over(self) -> bool:
        """Whether all of its tasks have ended."""
        return all(task.state.is_final for task in self.tasks)


def find_submissions(
    jobs: Iterable[Job], partition: str, needs: Mapping[str, Needs] = _UNASKED
) -> Mapping[str, Submission]:
    """The submissions by id, oldest first; a tag counts in the preemptible partition only.

    Args:
        jobs: all there are.
        partition: the preemptible one.
        needs: what their tasks ask of a node, by array, where that is known.
    """
    tasks: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.partition == partition and job.comment.startswith(TAG_PREFIX):
            tasks[job.array].append(job)
    found = [_submission(id_, each, needs.get(id_, _NOTHING)) for id_, each in tasks.items()]
    return {
        one.id: one for one in sorted(found, key=lambda one: (one.submitted_s, one.id)) if not one.is_withdrawn
    }


def _submission(id_: str, tasks: list[Job], needs: Needs) -> Submission:
    # A requeued task has a new time of submission; the comment of ended tasks may be an older one.
    first = min(tasks, key=lambda task: task.submitted_s)
    newest = next((task for task in tasks if not task.state.is_final), tasks[-1])
    needs = replace(needs, features=tasks[0].features)
    return Submission(id_, first.user, newest.comment, first.submitted_s, tuple(tasks), needs)
