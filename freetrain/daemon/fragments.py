"""The books: which fragments there are, in memory and in the ledger alike, and what became of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.grouping import grouped
from freetrain.core.job import Job, JobState
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.daemon.trainers.training import TrainerRuns
from freetrain.lending.reconcile import find_strangers, needs_history, reconcile
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher, jobs_of_trainers
from freetrain.slurm.submitting import is_named
from freetrain.slurm.tags import TAG_PREFIX, tag_in
from freetrain.store.ledger import DONE, UNKNOWN, Ledger

log = logging.getLogger(__name__)

_BY_THEMSELVES = (JobState.COMPLETED, JobState.FAILED)
# Accounting may learn of an end much later than slurmctld forgets the job: until then it is asked.
_LOST_FOR_GOOD_S = 3600.0
# What slurmctld has accepted without an answer it shows by then, whatever its MessageTimeout is.
_ARRIVES_S = 60.0
# A snapshot has Slurm's time, the audit this machine's.
_CLOCKS_DIFFER_S = 60.0


def _may_have_left(fragment: Fragment, job: Job | None) -> bool:
    """Whether a fragment that ended by itself may only have left when it was asked to."""
    end = fragment.end
    if end is End.RELEASED and job is not None and job.state in _BY_THEMSELVES:
        end = End.COMPLETED if job.state is JobState.COMPLETED else End.FAILED
    tag = tag_in(job.comment) if job is not None else None
    # A task that does not know what SIGTERM means has completed if it says so.
    knows_sigterm = tag is None or strategy_of(tag).is_one_program or tag.notice
    return end is End.FAILED or (end is End.COMPLETED and knows_sigterm)


def _called_off(fragment: Fragment) -> Fragment:
    return replace(fragment, state=FragmentState.ENDED, end=End.NEVER_STARTED, ended_s=fragment.asked_s)


class Fragments:
    """All open fragments, and what became of the earlier ones of the trainers that Slurm shows.

    Of trainers that have left Slurm nothing stays in memory; where they come back it is read from the ledger.

    Attributes:
        runs: trainer that Slurm shows → record of its earlier fragments.
        end_counts: way to end → number of fragments, of all trainers that ever were.
    """

    def __init__(self, ledger: Ledger, launcher: Launcher, gateway: Gateway) -> None:
        self._ledger = ledger
        self._launcher = launcher
        self._gateway = gateway
        self._open = {fragment.id: fragment for fragment in ledger.open_fragments()}
        self._lost_since_s: dict[int, float] = {}
        self.runs: dict[str, TrainerRuns] = {}
        self.end_counts = Counter(ledger.end_counts())

    @property
    def open(self) -> tuple[Fragment, ...]:
        """Fragments that have not ended."""
        return tuple(self._open.values())

    def save(self, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Keep new or changed fragments, and return them; new ones get their number."""
        fragments = list(fragments)
        # Those of a job of several nodes end together, once.
        ended = {
            fragment.job: (fragment.trainer, fragment.end)
            for fragment in fragments
            if fragment.id in self._open and fragment.end and not fragment.holds_node
        }
        ends = Counter(end for _, end in ended.values())
        saved = self._ledger.save_fragments(fragments, ends)
        self.end_counts += ends
        for trainer, end in ended.values():
            if trainer in self.runs:
                self.runs[trainer].ends[end] += 1
        for fragment in saved:
            if fragment.holds_node:
                self._open[fragment.id] = fragment
            else:
                self._open.pop(fragment.id, None)
                if fragment.started_s is not None and fragment.trainer in self.runs:
                    self.runs[fragment.trainer].note_end(fragment)
        return saved

    def note_leaving(self, fragments: Iterable[Fragment]) -> None:
        """Note that Slurm was ordered to end these fragments."""
        running = [fragment for fragment in fragments if fragment.state is FragmentState.RUNNING]
        self.save([replace(fragment, state=FragmentState.LEAVING) for fragment in running])

    def call_off(self, fragments: Iterable[Fragment]) -> None:
        """Call off the fragments of a job that Slurm refused."""
        self.save(map(_called_off, fragments))

    def bring_up_to_date(self, snapshot: Snapshot, queue: FragmentQueue) -> list[Fragment]:
        """Compare the fragments with Slurm's jobs, and return those that have ended."""
        self._follow(
            {fragment.trainer for fragment in self.open}
            | {job.array for job in snapshot.jobs if job.comment.startswith(TAG_PREFIX)}
        )
        recognised = self._launcher.recognise(self.open, snapshot.jobs)
        self.save(fragment for fragment in recognised if fragment != self._open[fragment.id])
        # Accounting tells the earlier runs of those of which the snapshot does not say enough.
        history = self._gateway.runs(needs_history(self.open, snapshot))
        runs = grouped((run.id, run) for run in history)
        changed = self._blame_preemption(reconcile(self.open, snapshot, runs), snapshot)
        changed = self._give_up_lost(changed, snapshot.time_s)
        for fragment in self.save(changed):
            if fragment.end is not None:
                whose = fragment.job, fragment.trainer, fragment.node
                log.info("fragment %s of %s on %s: %s", *whose, fragment.end)
        # Also of trainers that are gone: these will be given back.
        known = {fragment.job for fragment in self.open}
        strangers = find_strangers(
            (job, trainer)
            for job, trainer in jobs_of_trainers(snapshot, queue, self._launcher)
            if job.id not in known and (len(job.nodes) == 1 or strategy_of(tag_in(job.comment)).tasks_compete)
        )
        for fragment in self.save(strangers):
            log.info("found fragment %s of %s running on %s", fragment.job, fragment.trainer, fragment.node)
        return [fragment for fragment in changed if not fragment.holds_node]

    def as_they_ended(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs, such that those count as preempted that left by themselves when Slurm asked them to."""
        preempted_s = {job: at_s for runs in self.runs.values() for job, at_s in runs.preempted_s.items()}
        return [
            replace(job, state=JobState.PREEMPTED)
            if job.state in _BY_THEMSELVES and preempted_s.get(job.id, inf) == job.start_s
            else job
            for job in jobs
        ]

    def _follow(self, trainers: Set[str]) -> None:
        self.runs = {trainer: runs for trainer, runs in self.runs.items() if trainer in trainers}
        if new := trainers - self.runs.keys():
            counts = self._ledger.ends_by_trainer(new)
            self.runs |= {trainer: TrainerRuns(Counter(counts.get(trainer, {}))) for trainer in new}
            # The last run of each job tells which were preempted; the trainer's last fragment comes last.
            for fragment in (*self._ledger.last_runs(new), *self._ledger.last_ended_fragments(new)):
                self.runs[fragment.trainer].note_end(fragment)
            for fragment in self._ledger.failed_runs(new):
                self.runs[fragment.trainer].note_failure(fragment)

    def _blame_preemption(self, changed: Sequence[Fragment], snapshot: Snapshot) -> list[Fragment]:
        # With a grace time Slurm asks a fragment to leave, and counts one that does so as completed, or failed; so
        # it does with one that had left a moment before freetrain, too, took its node back.
        left = {fragment.job for fragment in changed if _may_have_left(fragment, snapshot.job.get(fragment.job))}
        asked_s = self._gateway.preempted_at(sorted(left))
        return [
            replace(fragment, end=End.PREEMPTED)
            if fragment.job in left and asked_s.get(fragment.job, -inf) >= (fragment.started_s or 0.0)
            else fragment
            for fragment in changed
        ]

    def _give_up_lost(self, changed: Sequence[Fragment], now_s: float) -> list[Fragment]:
        """End fragments that neither Slurm nor accounting has known for long, or that never came to Slurm."""
        now = {**self._open, **{fragment.id: fragment for fragment in changed}}
        lost = [fragment for fragment in now.values() if fragment.state is FragmentState.LOST]
        self._lost_since_s = {fragment.id: self._lost_since_s.get(fragment.id, now_s) for fragment in lost}
        for_good = {
            fragment.id: replace(fragment, state=FragmentState.ENDED, end=End.UNKNOWN, ended_s=now_s)
            for fragment in lost
            if now_s - self._lost_since_s[fragment.id] > _LOST_FOR_GOOD_S
        }
        for_good |= {fragment.id: _called_off(fragment) for fragment in self._never_started(lost, now_s)}
        kept = [fragment for fragment in changed if fragment.id not in for_good]
        return [*kept, *for_good.values()]

    def _never_started(self, lost: Sequence[Fragment], now_s: float) -> list[Fragment]:
        if not lost:
            return []
        rows = self._ledger.commands(min(fragment.asked_s for fragment in lost) - _CLOCKS_DIFFER_S)
        # Each order stands in the audit before it is given. What is not there was never ordered: the daemon ended,
        # or its disk was full, after it had written down the fragments of a decision.
        ordered = " ".join(argument for row in rows for argument in row.argv)
        accepted = " ".join(argument for row in rows if row.result in (DONE, UNKNOWN) for argument in row.argv)
        return [
            fragment
            for fragment in lost
            if fragment.job not in ordered
            or (
                fragment.job not in accepted
                and not is_named(fragment)
                and now_s - self._lost_since_s[fragment.id] > _ARRIVES_S
            )
        ]
