from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.job import Job, JobRun, JobState, WaitsFor
from freetrain.core.node import Node
from freetrain.lending.reconcile import find_strangers, needs_history, reconcile
from tests.facts import node

NOW_S = 1000.0
ASKED = Fragment("7_1", "7", "n1", FragmentState.ASKED, 900.0, 3600.0, id=1)
RUNNING = replace(ASKED, state=FragmentState.RUNNING, started_s=901.0)
LEAVING = replace(RUNNING, state=FragmentState.LEAVING)


def snapshot(*jobs: Job, on: Node | None = None) -> Snapshot:
    return Snapshot(NOW_S, (on or node("n1"),), jobs)


def task(state: JobState, **facts: object) -> Job:
    job = Job("7_1", "7", "news", "freetrain", state, nodes=frozenset({"n1"}), start_s=901.0, limit_s=3600.0)
    return replace(job, **facts)  # type: ignore[arg-type]


def held() -> Job:
    return task(JobState.PENDING, waits_for=WaitsFor.RELEASE, nodes=frozenset(), start_s=None)


def only(fragment: Fragment, seen: Snapshot, *runs: JobRun) -> Fragment:
    changed = reconcile([fragment], seen, {fragment.job: runs})
    assert len(changed) <= 1
    return changed[0] if changed else fragment


def test_what_was_asked_for_starts() -> None:
    assert only(ASKED, snapshot(task(JobState.RUNNING))) == RUNNING


def test_what_was_asked_for_and_is_held_again_never_started() -> None:
    assert only(ASKED, snapshot(held())).end is End.NEVER_STARTED


def test_what_started_and_was_preempted_between_two_looks_was_preempted() -> None:
    again = task(JobState.PENDING, waits_for=WaitsFor.TIME, nodes=frozenset(), start_s=None)
    assert needs_history([ASKED], snapshot(again)) == ["7_1"]
    ended = only(ASKED, snapshot(again), JobRun("7_2", JobState.PREEMPTED, 900.0, 903.0))
    assert (ended.end, ended.started_s, ended.ended_s) == (End.PREEMPTED, 900.0, 903.0)
    assert only(ASKED, snapshot(again), JobRun("7_2", JobState.PREEMPTED, 500.0, 503.0)) == ASKED


def test_what_waits_still_waits() -> None:
    assert only(ASKED, snapshot(task(JobState.PENDING, start_s=None))) == ASKED


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (JobState.COMPLETED, End.COMPLETED),
        (JobState.PREEMPTED, End.PREEMPTED),
        (JobState.TIMEOUT, End.TIMED_OUT),
        (JobState.NODE_FAIL, End.NODE_FAILED),
        (JobState.FAILED, End.FAILED),
        (JobState.CANCELLED, End.CANCELLED),
    ],
)
def test_six_ends_are_told_apart(state: JobState, end: End) -> None:
    fragment = only(RUNNING, snapshot(task(state, end_s=950.0)))
    assert (fragment.state, fragment.end, fragment.ended_s) == (FragmentState.ENDED, end, 950.0)


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED])
def test_what_freetrain_was_taking_back_was_released_whatever_slurm_calls_it(state: JobState) -> None:
    assert only(LEAVING, snapshot(task(state, end_s=950.0))).end is End.RELEASED
    assert only(LEAVING, snapshot(held())).end is End.RELEASED


def test_a_requeued_task_was_preempted_or_lost_its_node() -> None:
    waiting = task(JobState.PENDING, waits_for=WaitsFor.TIME, nodes=frozenset(), start_s=None)
    assert only(RUNNING, snapshot(waiting)).end is End.PREEMPTED
    assert only(RUNNING, snapshot(waiting, on=node("n1", "DOWN"))).end is End.NODE_FAILED
    assert only(RUNNING, snapshot(waiting), JobRun("7_2", JobState.NODE_FAIL, 901.0, 940.0)).end is End.NODE_FAILED


def test_who_was_requeued_by_hand_was_not_preempted() -> None:
    assert only(RUNNING, snapshot(held())).end is End.RELEASED, "accounting does not know it yet"
    waiting = task(JobState.PENDING, waits_for=WaitsFor.TIME, nodes=frozenset(), start_s=None)
    assert only(RUNNING, snapshot(waiting), JobRun("7_2", JobState.REQUEUED, 901.0, 940.0)).end is End.RELEASED
    assert only(RUNNING, snapshot(waiting), JobRun("7_2", JobState.PREEMPTED, 901.0, 940.0)).end is End.PREEMPTED


def test_gone_from_slurm_is_unknown_until_accounting_tells() -> None:
    assert only(RUNNING, snapshot()).state is FragmentState.LOST
    assert only(RUNNING, snapshot(), JobRun("7_2", JobState.RUNNING, 901.0, None)).state is FragmentState.LOST
    assert only(RUNNING, snapshot(), JobRun("7_2", JobState.TIMEOUT, 901.0, 940.0)).end is End.TIMED_OUT
    assert only(RUNNING, snapshot(), JobRun("7_2", JobState.FAILED, 500.0, 600.0)).state is FragmentState.LOST
    assert needs_history([RUNNING], snapshot()) == ["7_1"]
    assert needs_history([RUNNING], snapshot(task(JobState.RUNNING))) == []


def test_a_state_that_nobody_knows_changes_nothing() -> None:
    assert only(RUNNING, snapshot(task(JobState.UNKNOWN))) == RUNNING


def test_a_task_that_was_requeued_and_runs_again_is_another_fragment() -> None:
    again = task(JobState.RUNNING, start_s=990.0)
    assert only(RUNNING, snapshot(again)).state is FragmentState.ENDED
    (stranger,) = find_strangers([(again, "7")])
    assert stranger.trainer == "7"
    assert (stranger.job, stranger.node, stranger.state) == ("7_1", "n1", FragmentState.RUNNING)


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (JobState.COMPLETED, End.COMPLETED),
        (JobState.FAILED, End.FAILED),
        (JobState.PREEMPTED, End.PREEMPTED),
        (JobState.TIMEOUT, End.TIMED_OUT),
    ],
)
def test_one_that_is_seen_while_slurm_clears_up_after_it_ended_as_slurm_says(state: JobState, end: End) -> None:
    ending = only(RUNNING, snapshot(task(JobState.COMPLETING)))
    assert ending.state is FragmentState.ENDING
    assert only(ending, snapshot(task(state, end_s=950.0))).end is end


def test_one_that_was_told_to_leave_is_leaving_while_slurm_clears_up_after_it() -> None:
    assert only(LEAVING, snapshot(task(JobState.COMPLETING))) == LEAVING


def test_one_that_ran_between_two_looks_is_known_to_have_started() -> None:
    assert only(ASKED, snapshot(task(JobState.COMPLETING))).started_s == 901.0


def test_what_is_being_requeued_did_not_start_just_now_as_slurm_says() -> None:
    ending = only(ASKED, snapshot(task(JobState.COMPLETING, start_s=1000.0)))
    assert (ending.state, ending.started_s) == (FragmentState.ENDING, None)
    ran = JobRun("7_1", JobState.PREEMPTED, 995.0, 999.0)
    again = task(JobState.PENDING, waits_for=WaitsFor.TIME, nodes=frozenset(), start_s=None)
    for seen in (again, task(JobState.RUNNING, start_s=1000.0)):
        ended = only(ending, snapshot(seen), ran)
        assert (ended.end, ended.started_s, ended.ended_s) == (End.PREEMPTED, 995.0, 999.0)
