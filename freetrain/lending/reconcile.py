"""Reconciliation of fragments: the database's view beside Slurm's. Pure; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.job import Job, JobRun, JobState, WaitsFor
from freetrain.core.node import NodeState

_END_OF = {
    JobState.COMPLETED: End.COMPLETED,
    JobState.PREEMPTED: End.PREEMPTED,
    JobState.CANCELLED: End.CANCELLED,
    JobState.TIMEOUT: End.TIMED_OUT,
    JobState.DEADLINE: End.TIMED_OUT,
    JobState.NODE_FAIL: End.NODE_FAILED,
    JobState.BOOT_FAIL: End.NODE_FAILED,
    JobState.FAILED: End.FAILED,
    JobState.OUT_OF_MEMORY: End.FAILED,
    # By hand, as `freetrain panic` does: one that Slurm itself preempts is PREEMPTED.
    JobState.REQUEUED: End.RELEASED,
}

# Slurm counts in whole seconds, and a moment passes from its answer to the end of all questions.
_PRESENT_S = 2.0

RunsByJob = Mapping[str, Sequence[JobRun]]
"""Job → its runs, oldest first."""


def reconcile(fragments: Iterable[Fragment], snapshot: Snapshot, runs: RunsByJob) -> list[Fragment]:
    """The fragments as they are now; only those that changed."""
    now = ((fragment, _as_it_is(fragment, snapshot, runs.get(fragment.job, ()))) for fragment in fragments)
    return [new for old, new in now if new is not old and new != old]


def needs_history(fragments: Iterable[Fragment], snapshot: Snapshot) -> list[str]:
    """Jobs of fragments about which the snapshot does not say enough: gone, or waiting or running again."""
    return [
        fragment.job
        for fragment in fragments
        if (job := snapshot.job.get(fragment.job)) is None
        or (
            job.state is JobState.PENDING and (fragment.state is not FragmentState.ASKED or _has_been_stopped(job))
        )
        or _is_another_run(fragment, job)
    ]


def find_strangers(running: Iterable[tuple[Job, str]]) -> list[Fragment]:
    """Running fragments that the database does not know: it was lost, or another daemon started them."""
    return [
        Fragment(
            job=job.id,
            trainer=trainer,
            node=node,
            state=FragmentState.RUNNING,
            asked_s=job.start_s or job.submitted_s,
            limit_s=job.limit_s,
            started_s=job.start_s,
        )
        for job, trainer in running
        if job.state is JobState.RUNNING
        for node in sorted(job.nodes)
    ]


def _as_it_is(fragment: Fragment, snapshot: Snapshot, runs: Sequence[JobRun]) -> Fragment:
    job = snapshot.job.get(fragment.job)
    if job is None:
        return _from_history(fragment, runs, snapshot.time_s) or replace(fragment, state=FragmentState.LOST)
    if job.state.is_final:
        # It may both have started and ended since the last look.
        if fragment.started_s is None and job.nodes:
            fragment = replace(fragment, started_s=job.start_s)
        return _ended(fragment, _END_OF[job.state], job.end_s or snapshot.time_s)
    if job.state is JobState.PENDING:
        return _waiting(fragment, job, snapshot, runs)
    if job.state is JobState.COMPLETING:
        return _ending(fragment, job, snapshot.time_s)
    if job.state in (JobState.RUNNING, JobState.CONFIGURING, JobState.SUSPENDED):
        return _running(fragment, job, snapshot, runs)
    return fragment


def _ending(fragment: Fragment, job: Job, now_s: float) -> Fragment:
    if fragment.state is FragmentState.LEAVING:
        return fragment
    # While a requeued job completes, Slurm shows the present as its start; accounting has the true one later.
    is_true = fragment.started_s is None and job.start_s is not None and job.start_s < now_s - _PRESENT_S
    return replace(fragment, state=FragmentState.ENDING, started_s=job.start_s if is_true else fragment.started_s)


def _running(fragment: Fragment, job: Job, snapshot: Snapshot, runs: Sequence[JobRun]) -> Fragment:
    if _is_another_run(fragment, job) or fragment.node not in job.nodes:
        end = _from_history(fragment, runs, snapshot.time_s)
        return end or _ended(fragment, _unrecorded_end(fragment, snapshot), job.start_s or snapshot.time_s)
    if (FragmentState.RUNNING, job.start_s, job.limit_s) == (fragment.state, fragment.started_s, fragment.limit_s):
        return fragment
    # One that was ordered to leave is completing by now; if it still runs, it got no order.
    return replace(fragment, state=FragmentState.RUNNING, started_s=job.start_s, limit_s=job.limit_s)


def _waiting(fragment: Fragment, job: Job, snapshot: Snapshot, runs: Sequence[JobRun]) -> Fragment:
    if fragment.state is FragmentState.ASKED and not _has_been_stopped(job):
        return fragment
    end = _from_history(fragment, runs, snapshot.time_s)
    if fragment.state is FragmentState.ASKED and end is None:
        return _ended(fragment, End.NEVER_STARTED, snapshot.time_s) if job.is_held else fragment
    return end or _ended(fragment, _unrecorded_end(fragment, snapshot), snapshot.time_s)


def _has_been_stopped(job: Job) -> bool:
    # Slurm requeues a job with a later time of start, for which it waits then.
    return job.is_held or job.waits_for is WaitsFor.TIME


def _is_another_run(fragment: Fragment, job: Job) -> bool:
    if job.state is not JobState.RUNNING:
        return False
    if fragment.started_s is None or job.start_s is None:
        # No starts to compare: one that was seen ending and runs now was requeued in between.
        return fragment.state is FragmentState.ENDING
    return job.start_s > fragment.started_s


def _from_history(fragment: Fragment, runs: Sequence[JobRun], now_s: float) -> Fragment | None:
    """The fragment with its end from accounting; None: accounting has none (yet)."""
    # Accounting counts in whole seconds, so a run may seem to have started just before it was asked for.
    since_s = fragment.started_s if fragment.started_s is not None else fragment.asked_s - 1
    for run in runs:
        if run.start_s is None or run.start_s < since_s:
            continue
        # Accounting learns of an end later than slurmctld: until then the run counts as running there.
        if run.state not in _END_OF:
            return None
        started_s = run.start_s if fragment.started_s is None else fragment.started_s
        return _ended(replace(fragment, started_s=started_s), _END_OF[run.state], run.end_s or now_s)
    return None


def _unrecorded_end(fragment: Fragment, snapshot: Snapshot) -> End:
    """End of a fragment of which accounting has none (yet); Slurm does not hold a job that it preempts."""
    job = snapshot.job.get(fragment.job)
    is_held = job is not None and job.state is JobState.PENDING and job.is_held
    if fragment.state is FragmentState.LEAVING or is_held:
        return End.RELEASED
    node = snapshot.node.get(fragment.node)
    is_down = node is not None and node.state is NodeState.DOWN
    return End.NODE_FAILED if is_down else End.PREEMPTED


def _ended(fragment: Fragment, end: End, ended_s: float) -> Fragment:
    # Whatever Slurm calls the end of a fragment that freetrain was taking back, it was taken back.
    if fragment.state is FragmentState.LEAVING and end in (End.COMPLETED, End.CANCELLED, End.FAILED):
        end = End.RELEASED
    return replace(fragment, state=FragmentState.ENDED, end=end, ended_s=ended_s)
