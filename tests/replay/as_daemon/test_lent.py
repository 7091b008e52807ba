"""Fragments in a replay: what they cost in time, from the order to the end."""

from __future__ import annotations

from math import inf

import pytest

from freetrain.core.fragment import End, FragmentState
from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.replay.as_daemon.lent import BackfillCycles, LentNodes, Timing
from freetrain.replay.trainer_run import Loss, TrainerRun

TIMING = Timing(order_s=0.5, launch_s=2.0, boot_s=8.0, leave_s=1.0, evict_s=3.0)
TRAINER = Trainer("a", ((1, 10.0), (4, 40.0)), scale_up_s=0.0, scale_down_s=0.0, forced_loss_s=5.0)


def begun(*nodes: str, limit_s: float = inf) -> tuple[LentNodes, TrainerRun]:
    run = TrainerRun(TRAINER, worth_per_s(TRAINER, "throughput"), 0.0)
    lent = LentNodes({"a": run}, TIMING)
    lent.lend("a", nodes, [limit_s] * len(nodes), 0.0)
    return lent, run


def at(lent: LentNodes, *instants_s: float) -> None:
    """Slurm starts whatever it has been asked for."""
    for now_s in instants_s:
        lent.advance(now_s)
        lent.start(lambda one: one.node in ("n1", "n2", "n3"), {}, now_s)


def test_slurm_starts_what_ends_before_somebody_wants_the_node() -> None:
    lent, _ = begun("n1", "n2", limit_s=60.0)
    lent.advance(2.0)
    lent.start(lambda one: one.node in ("n1", "n2"), {"n1": 70.0, "n2": 69.0}, 9.5)
    assert [(fragment.node, fragment.started_s) for fragment in lent.open] == [("n1", 9.5), ("n2", None)]
    lent.start(lambda one: one.node in ("n1",), {}, 20.0)
    assert [fragment.started_s for fragment in lent.open] == [9.5, None], "n2 is not idle"
    lent.start(lambda one: one.node in ("n1", "n2"), {}, 30.0)
    assert [fragment.started_s for fragment in lent.open] == [9.5, 30.0]
    assert lent.queued == set()


def test_a_backfill_cycle_starts_what_slurm_has_been_told_by_then() -> None:
    lent, _ = begun("n1")
    lent.advance(0.4)
    lent.start(lambda one: one.node == "n1", {}, 0.4, by_backfill=True)
    assert [fragment.started_s for fragment in lent.open] == [None]
    lent.advance(0.5)
    lent.start(lambda one: one.node == "n1", {}, 0.7, by_backfill=True)
    assert [fragment.started_s for fragment in lent.open] == [0.7]


def test_what_is_called_off_never_starts_and_what_runs_goes_on() -> None:
    lent, _ = begun("n1", "n2")
    lent.advance(2.0)
    lent.start(lambda one: one.node == "n1", {}, 2.0)
    lent.call_off(["n1", "n2", "n3"], 3.0)
    at(lent, 4.0)
    assert [(fragment.node, fragment.state) for fragment in lent.open] == [("n1", FragmentState.RUNNING)]
    assert [(fragment.node, fragment.end) for fragment in lent.ended] == [("n2", End.NEVER_STARTED)]
    assert lent.holder_of("n2") is None


def test_nobody_waits_for_a_fragment_that_slurm_has_not_started() -> None:
    lent, run = begun("n1")
    lent.advance(2.0)
    assert lent.take([["n1"]], 3.0) == [0.0]
    assert [fragment.state for fragment in lent.open] == [FragmentState.ASKED]
    lent.release(["n1"], None, 4.0)
    at(lent, 5.0)
    assert lent.open == ()
    assert (lent.node_s, run.losses) == (0.0, {})


def test_what_runs_on_a_node_that_goes_down_ends_at_once() -> None:
    lent, run = begun("n1", "n2")
    at(lent, 2.0, 10.0)
    lent.lose(["n1", "n3"], 20.0)
    lent.advance(20.0)
    assert [(fragment.node, fragment.end, fragment.ended_s) for fragment in lent.ended] == [
        ("n1", End.NODE_FAILED, 20.0)
    ]
    assert ([fragment.node for fragment in lent.open], run.nodes) == (["n2"], {"n2"})
    assert run.losses == {Loss.START: 1, Loss.EVICTION: 1, Loss.EVICTION_PAUSE: 1}


def test_a_node_trains_when_slurm_has_started_it_and_it_has_booted() -> None:
    lent, run = begun("n1", "n2")
    assert lent.next_s == 0.5, "Slurm has the order"
    at(lent, 0.5)
    assert {fragment.state for fragment in lent.open} == {FragmentState.ASKED}
    assert lent.next_s == 2.0
    at(lent, 2.0)
    assert {fragment.state for fragment in lent.open} == {FragmentState.RUNNING}
    assert run.nodes == set()
    at(lent, 10.0)
    assert run.nodes == {"n1", "n2"}
    assert run.losses[Loss.SCALE_UP] == 0, "both came at once"


def test_what_is_given_back_is_free_a_moment_later() -> None:
    lent, run = begun("n1", "n2")
    at(lent, 2.0, 10.0)
    lent.release(["n1"], "a", 20.0)
    assert run.nodes == {"n2"}
    assert lent.holder_of("n1") == "a", "not free yet"
    assert lent.take([["n1"]], 20.4) == [0.6000000000000014]
    at(lent, 21.0)
    assert lent.holder_of("n1") is None
    (ended,) = lent.ended
    assert (ended.end, ended.ended_s) == (End.RELEASED, 21.0)
    assert lent.node_s == pytest.approx(18.4), "from its start until the job came"


def test_a_job_waits_for_what_slurm_evicts_and_the_training_loses() -> None:
    lent, run = begun("n1", "n2")
    at(lent, 2.0, 10.0)
    assert lent.take([["n1", "n3"]], 30.0) == [3.0]
    assert run.nodes == {"n2"}
    assert run.lost_s[Loss.EVICTION] == 5.0
    at(lent, 33.0)
    assert [fragment.end for fragment in lent.ended] == [End.PREEMPTED]
    assert lent.take([["n1"]], 40.0) == [0.0]


def test_a_node_that_is_taken_while_it_boots_never_trains() -> None:
    lent, run = begun("n1")
    at(lent, 2.0)
    assert lent.take([["n1"]], 5.0) == [3.0]
    at(lent, 8.0, 10.0)
    assert run.nodes == set()
    assert run.losses == {}
    assert run.evicted_nodes == 1


def test_a_fragment_ends_at_its_limit_as_it_was_set_last() -> None:
    lent, run = begun("n1", limit_s=60.0)
    at(lent, 2.0, 10.0)
    lent.limit(["n1"], 120.0)
    at(lent, 62.0, 90.0, 122.0)
    assert run.nodes == {"n1"}, "Slurm looks for limits every 30 s"
    at(lent, 150.0)
    assert run.nodes == set()
    at(lent, 151.0)
    assert [fragment.end for fragment in lent.ended] == [End.TIMED_OUT]
    assert (run.losses[Loss.EVICTION], run.evicted_nodes) == (1, 0), "no job took the node"


def test_when_a_training_is_complete_its_nodes_are_free() -> None:
    lent, _ = begun("n1", "n2")
    at(lent, 2.0, 10.0)
    lent.complete("a", 50.0)
    assert lent.open == ()
    assert lent.node_s == 96.0


def test_on_a_busy_machine_one_cycle_follows_the_other() -> None:
    cycles = BackfillCycles(30.0, 7.0)
    cycles.note_change(10.0)
    cycles.note_change(20.0)
    assert cycles.next_s == 37.0
    cycles.note_change(40.0)
    assert cycles.next_s == 67.0


def test_after_a_quiet_while_a_change_is_answered_within_a_second() -> None:
    cycles = BackfillCycles(30.0, 7.0)
    cycles.note_change(100.5)
    assert cycles.next_s == 101.0
    cycles.note_change(100.9)
    assert cycles.next_s == 101.0, "the same cycle answers both"
    cycles.note_change(103.0)
    assert cycles.next_s == 131.0


def test_a_cycle_has_begun_from_its_moment_on() -> None:
    cycles = BackfillCycles(30.0, 7.0)
    cycles.note_change(10.0)
    assert cycles.last_s(36.9) == 7.0
    assert cycles.last_s(37.0) == 37.0
    cycles.note_change(37.0)
    assert (cycles.last_s(37.0), cycles.next_s) == (37.0, 67.0), (
        "what the cycle itself changes is for the next one"
    )
