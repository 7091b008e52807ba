"""Submissions: tagged jobs and arrays that users handed to Slurm, each of which stands for a trainer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from freetrain.core.fragment import Fragment
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.grouping import grouped
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.slurm.commands import fold_jobs
from freetrain.slurm.comments import asked_to_resume, says_paused
from freetrain.slurm.tags import TAG_PREFIX, Tag, WrongTag, parse_tag


@dataclass(frozen=True, slots=True)
class Submission:
    """A tagged array of one-node tasks, or a tagged job that is a pattern for fragments.

    Attributes:
        id: Slurm's, of the array or the job.
        submitted_s: time of submission, UTC epoch seconds.
        tasks: its tasks that Slurm still shows, whatever their state.
        needs: needs of each task of its node, as far as Slurm was asked about it.
        requeues: whether Slurm requeues a task when it preempts it.
        begin_s: time before which no task must begin, UTC epoch seconds; 0: at once.
        fragments: its open ones.
        tag: wishes of its owner, or the fault of its tag.
    """

    id: str
    owner: str
    comment: str
    submitted_s: float
    tasks: tuple[Job, ...]
    needs: Needs = field(default_factory=Needs)
    requeues: bool = True
    begin_s: float = 0.0
    fragments: tuple[Fragment, ...] = ()
    tag: Tag | WrongTag = field(init=False, compare=False)

    def __post_init__(self) -> None:
        try:
            tag = parse_tag(self.comment) or WrongTag("it has no tag")
        # What one user writes must not end a look, whatever nobody thought of.
        except Exception as error:
            tag = WrongTag(f"freetrain cannot read it, which is a defect ({error!r})")
        object.__setattr__(self, "tag", tag)

    @property
    def good_tag(self) -> Tag | None:
        """Tag with its owner's wishes; None: none that can be understood."""
        return self.tag if isinstance(self.tag, Tag) else None

    @property
    def account(self) -> str:
        """Account that it is charged to; empty: Slurm does not show it."""
        return next((task.account for task in self.tasks), "")

    @property
    def max_running(self) -> int:
        """Number of its tasks that may run at once, as its owner asked (``--array=0-9%4``); 0: any number."""
        # Slurm shows that in the record of the tasks that were never changed alone, as long as there are any.
        return max((task.max_running for task in self.tasks), default=0)

    @property
    def startable(self) -> list[Job]:
        """Tasks that wait for nothing but a node: held, or held by ``tidy`` before anything is lent."""
        busy = {fragment.job for fragment in self.fragments}
        waiting = (task for task in self.tasks if task.state.is_waiting and not task.dependency)
        return [task for task in waiting if task.id not in busy]

    @property
    def open_tasks(self) -> str:
        """Tasks that have not ended, as orders name them: ended tasks cannot be changed."""
        return fold_jobs(task.id for task in self.tasks if not task.state.is_final)

    @property
    def waiting_tasks(self) -> str:
        """Tasks that wait, as orders name them."""
        return fold_jobs(task.id for task in self.tasks if task.state.is_waiting)

    @property
    def is_moldable(self) -> bool:
        """Whether each of its tasks has several nodes of its own, as its tag says."""
        return isinstance(self.tag, Tag) and self.tag.is_moldable

    @property
    def waits(self) -> bool:
        """Whether some of its tasks wait."""
        return any(task.state.is_waiting for task in self.tasks)

    @property
    def is_withdrawn(self) -> bool:
        """Whether its owner, or an admin, has cancelled what was left of it."""
        return self.is_over and any(task.state is JobState.CANCELLED for task in self.tasks)

    @property
    def is_over(self) -> bool:
        """Whether all of its tasks have ended."""
        return all(task.state.is_final for task in self.tasks)


def find_submissions(jobs: Iterable[Job], queue: FragmentQueue) -> Mapping[str, Submission]:
    """The submissions by id, oldest first; a tag counts where fragments run only."""
    tagged = (job for job in jobs if queue.has(job) and job.comment.startswith(TAG_PREFIX))
    found = []
    for id_, tasks in grouped((job.array, job) for job in tagged).items():
        # A requeued task has a new time of submission; the comment of one that had ended may be an older one.
        first = min(tasks, key=lambda task: task.submitted_s)
        comments = {task.comment: None for task in tasks if not task.state.is_final} or [tasks[-1].comment]
        newest = max(comments, key=lambda comment: (asked_to_resume(comment), says_paused(comment)))
        needs = Needs(features=tasks[0].features)
        found.append(Submission(id_, first.user, newest, first.submitted_s, tuple(tasks), needs))
    found.sort(key=lambda submission: (submission.submitted_s, submission.id))
    return {submission.id: submission for submission in found if not submission.is_withdrawn}
