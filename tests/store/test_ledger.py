from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer, TrainerState, curve_of, prior_curve
from freetrain.core.throughput import Observation
from freetrain.core.trainer import TrainerPast
from freetrain.daemon.trainers.training import Patience, after_ends, awake, is_complete, is_finishing
from freetrain.store.ledger import UNKNOWN, Ledger
from freetrain.store.schema import back_up
from freetrain.store.store import Store

ASKED = Fragment("7_1", "7", "n1", FragmentState.ASKED, 900.0, 3600.0, decision="1:3")
TRAINER = KnownTrainer("7", "news", "freetrain:min=1", TrainerState.ACTIVE, 100.0)
PATIENCE = Patience(back_off_s=60.0, failures_to_pause=3)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Store.open(tmp_path / "freetrain.db").ledger()


def ended(end: End, ran_s: float = 5.0) -> Fragment:
    return replace(ASKED, state=FragmentState.ENDED, end=end, started_s=900.0, ended_s=900.0 + ran_s)


def test_a_fragment_keeps_its_number_through_its_life(ledger: Ledger) -> None:
    (saved,) = ledger.save_fragments([ASKED])
    assert saved == replace(ASKED, id=1)
    assert ledger.open_fragments() == [saved]
    ledger.save_fragments([replace(saved, state=FragmentState.ENDED, end=End.PREEMPTED, ended_s=950.0)])
    assert ledger.open_fragments() == []
    assert [fragment.end for fragment in ledger.fragments(0.0)] == [End.PREEMPTED]
    assert ledger.ends_by_trainer(["7"]).get("7", {}) == {End.PREEMPTED: 1}


def test_the_ends_of_a_job_of_several_nodes_count_once_for_each_of_its_runs(ledger: Ledger) -> None:
    first = [replace(ended(End.PREEMPTED), node=node) for node in ("n1", "n2", "n3")]
    later = [replace(fragment, asked_s=2000.0, started_s=2001.0, ended_s=2100.0) for fragment in first[:2]]
    ledger.save_fragments([*first, *later, replace(ended(End.PREEMPTED), job="7_2")])
    assert ledger.ends_by_trainer(["7"])["7"] == {End.PREEMPTED: 3}
    assert sorted(ledger.evictions(0.0)) == [905.0, 905.0, 2100.0]


def test_trainers_commands_and_harms_come_back(ledger: Ledger) -> None:
    rates = (Observation(2, 50.0, 5.0), Observation(2, 20.0, 5.0, "v100"))
    seen = replace(TRAINER, observations=rates, note="well")
    ledger.save_trainers([seen])
    assert ledger.trainers() == {"7": seen}
    ledger.record_command(1.0, ("scontrol", "release", "7_1"), "grow", "1:3", "done")
    assert [(row.argv, row.result) for row in ledger.commands()] == [(["scontrol", "release", "7_1"], "done")]
    ledger.record_harm(Harm("9", 1000.0, 0.5, 1.5, 0.5, ("7_1",)))
    assert ledger.harms(999.0) == [Harm("9", 1000.0, 0.5, 1.5, 0.5, ("7_1",))]
    assert ledger.harms(1001.0) == []


def test_failures_rest_a_trainer_ever_longer_and_pause_it_in_the_end() -> None:
    once = after_ends(TRAINER, [ended(End.FAILED)], PATIENCE, 1000.0)
    assert (once.state, once.rests_until_s) == (TrainerState.RESTING, 1060.0)
    assert awake(once, 1059.0) == once
    assert awake(once, 1060.0).state is TrainerState.ACTIVE
    twice = after_ends(once, [ended(End.FAILED)], PATIENCE, 2000.0)
    assert twice.rests_until_s == 2120.0
    thrice = after_ends(twice, [ended(End.FAILED)], PATIENCE, 3000.0, failed_on=["another node"])
    assert thrice.state is TrainerState.PAUSED
    assert "3 failures in a row" in thrice.note


@pytest.mark.parametrize("end", [End.PREEMPTED, End.RELEASED, End.TIMED_OUT, End.NODE_FAILED, End.CANCELLED])
def test_no_other_end_counts_against_a_trainer(end: End) -> None:
    assert after_ends(TRAINER, [ended(end)] * 9, PATIENCE, 1000.0) == TRAINER


def test_a_fragment_that_ran_for_a_while_makes_up_for_earlier_failures() -> None:
    failed = after_ends(TRAINER, [ended(End.FAILED)], PATIENCE, 1000.0)
    assert after_ends(failed, [ended(End.PREEMPTED, ran_s=600.0)], PATIENCE, 2000.0).failures_in_a_row == 0


def test_observations_of_an_earlier_version_that_cannot_be_believed_are_left_out(ledger: Ledger) -> None:
    stored = [[1, 10.0, 5.0], [2, math.inf, 5.0], [2, math.nan, 5.0], [10**400, 3.0, 5.0], [4, 10**400, 5.0]]
    seen = tuple(Observation(*values) for values in stored)
    ledger.save_trainers([replace(TRAINER, observations=seen)])
    assert ledger.trainers()[TRAINER.id].observations == (Observation(1, 10.0, 5.0),)


def test_a_training_is_complete_when_it_says_so_or_when_nobody_goes_on() -> None:
    well, preempted, endless = ended(End.COMPLETED), ended(End.PREEMPTED), math.inf
    assert is_complete(TRAINER, [], None, True, endless, nothing_unrun=False)
    assert not is_complete(TRAINER, [], well, False, endless, nothing_unrun=True)
    assert is_complete(TRAINER, [], well, None, endless, nothing_unrun=True)
    assert not is_complete(TRAINER, [], well, None, endless, nothing_unrun=False)
    assert not is_complete(TRAINER, [ASKED], well, None, endless, nothing_unrun=True)
    assert not is_complete(TRAINER, [], preempted, None, endless, nothing_unrun=True)
    assert not is_complete(TRAINER, [], None, None, endless, nothing_unrun=True)
    assert is_complete(replace(TRAINER, samples_done=10.0), [], None, None, 10.0, nothing_unrun=False)


def test_while_the_others_follow_one_that_completed_nobody_joins() -> None:
    well = ended(End.COMPLETED)
    running = replace(ASKED, state=FragmentState.RUNNING, started_s=800.0)
    assert is_finishing([running], well)
    assert not is_finishing([replace(running, started_s=950.0)], well)
    assert not is_finishing([ASKED], well)
    assert not is_finishing([], well)
    assert not is_finishing([running], ended(End.PREEMPTED))


def test_the_curve_is_the_owners_else_the_fit_else_an_assumption_to_scale() -> None:
    given = ((1, 7.0), (2, 13.0))
    assert curve_of(TRAINER, given, 8) == given
    assert curve_of(TRAINER, (), 4) == prior_curve(4)
    long = curve_of(TRAINER, (), 600)
    assert len(long) < 30
    assert set(long) < set(prior_curve(600))
    assert long[-1][0] == 600
    once = replace(TRAINER, observations=(Observation(2, 500.0, 5.0),))
    assert dict(curve_of(once, (), 4))[2] == pytest.approx(500.0)
    assert dict(curve_of(once, (), 4))[4] > 900.0
    linear_at_most = ((1, 10.0), (2, 20.0), (8, 80.0))
    assert curve_of(TRAINER, ((1, 10.0), (2, 21.0), (8, 1e9)), 8) == linear_at_most
    seen = replace(TRAINER, observations=(Observation(2, 10.0),))
    assert curve_of(seen, linear_at_most, 8) == ((1, 5.0), (2, 10.0), (8, 40.0)), "what was seen sets the scale"
    slow = replace(TRAINER, observations=(Observation(1, 10.0), Observation(4, 12.0)))
    assert dict(curve_of(slow, linear_at_most, 8)) == pytest.approx({1: 10.0, 2: 46 / 3, 4: 12.0, 8: 24.0})
    twice = replace(TRAINER, observations=(Observation(1, 100.0), Observation(4, 200.0)))
    assert dict(curve_of(twice, (), 4))[4] == pytest.approx(200.0)


def test_spans_lent_are_told_with_their_users(ledger: Ledger) -> None:
    ledger.save_trainers([TRAINER])
    running = replace(ASKED, trainer=TRAINER.id, state=FragmentState.RUNNING, started_s=800.0)
    over = replace(
        running, state=FragmentState.ENDED, started_s=100.0, ended_s=200.0, end=End.RELEASED, share=0.25
    )
    ledger.save_fragments([running, over, replace(ASKED, trainer=TRAINER.id)])
    assert sorted(ledger.lent_spans(0.0)) == [
        (TRAINER.owner, 100.0, 200.0, 0.25),
        (TRAINER.owner, 800.0, None, 1.0),
    ]
    assert list(ledger.lent_spans(300.0)) == [(TRAINER.owner, 800.0, None, 1.0)]


def test_the_past_of_a_trainer_is_what_it_was_lent(ledger: Ledger) -> None:
    waiting, new = replace(TRAINER, id="8", first_seen_s=70.0), replace(TRAINER, id="9", first_seen_s=90.0)
    ledger.save_trainers([TRAINER, waiting, new])
    ran = replace(ASKED, state=FragmentState.ENDED, started_s=100.0, ended_s=200.0, end=End.RELEASED, share=0.25)
    runs = replace(ASKED, state=FragmentState.RUNNING, started_s=800.0)
    of = {TRAINER.id: (ran, runs), "8": (ran,), "9": (ASKED,)}
    for id_, fragments in of.items():
        ledger.save_fragments(replace(fragment, trainer=id_) for fragment in fragments)
    assert ledger.past_of([TRAINER.id, "8", "9", "unknown"], 1000.0) == {
        TRAINER.id: TrainerPast(0.0, 225.0, 100.0, None),
        "8": TrainerPast(0.0, 25.0, 100.0, 200.0),
        "9": TrainerPast(0.0, 0.0, None, 90.0),
    }


def test_stays_are_kept_for_each_partition_as_they_were_last(ledger: Ledger) -> None:
    ledger.save_stays("one", 100.0, 2.0)
    ledger.save_stays("other", 5.0, 1.0)
    ledger.save_stays("one", 300.0, 4.0)
    assert ledger.stays("one") == (300.0, 4.0)
    assert ledger.stays("none") is None


def wrong(ledger: Ledger, statement: str) -> str:
    """What SQLite says when it refuses this."""
    with (
        closing(sqlite3.connect(ledger._database.path)) as connection,
        pytest.raises(sqlite3.IntegrityError) as refused,
    ):
        connection.execute(statement)
    return str(refused.value)


def test_nobody_changes_replaces_or_removes_an_entry_of_the_audit(ledger: Ledger) -> None:
    ledger.record_command(1000.0, ("scontrol", "release", "7_1"), "grow", "1:3", "done")
    before = [(row.id, row.result) for row in ledger.commands()]
    assert "no entry is changed" in wrong(ledger, "UPDATE commands SET result = 'nothing'")
    assert "entries go when" in wrong(ledger, "DELETE FROM commands")
    assert "no entry is replaced" in wrong(ledger, "INSERT OR REPLACE INTO commands SELECT * FROM commands")
    assert [(row.id, row.result) for row in ledger.commands()] == before


def test_a_result_that_is_unknown_is_written_once_and_nothing_else_of_its_entry(ledger: Ledger) -> None:
    number = ledger.record_command(1000.0, ("scontrol", "release", "7_1"), "grow", "1:3", UNKNOWN)
    assert "no entry is changed" in wrong(ledger, "UPDATE commands SET result = 'done', why = 'shrink'")
    assert [row.id for row in ledger.unknown_commands()] == [number]
    ledger.complete_command(number, "done", 0)
    ledger.complete_command(number, "refused", 1)
    assert ledger.unknown_commands() == []
    assert [(row.result, row.return_code) for row in ledger.commands()] == [("done", 0)]


def test_what_is_older_than_is_kept_leaves_the_audit_and_nothing_else(ledger: Ledger) -> None:
    for time_s in (1000.0, 2000.0, 1500.0, 3000.0):
        ledger.record_command(time_s, (), f"at {time_s:.0f}", None, "done")
    ledger.forget(2000.0)
    assert [row.why for row in ledger.commands()] == ["at 2000", "at 3000"]
    assert "entries go when" in wrong(ledger, "DELETE FROM commands WHERE time_s = 2000")
    ledger.forget(1000.0)  # the clock was put back
    with closing(sqlite3.connect(ledger._database.path)) as connection:
        assert connection.execute("SELECT what, time_s FROM kept_since").fetchall() == [("commands", 2000.0)]
    ledger.forget(2500.0)
    assert [row.why for row in ledger.commands()] == ["at 3000"]


def test_the_audit_of_a_copy_is_append_only_as_well(ledger: Ledger, tmp_path: Path) -> None:
    ledger.record_command(1000.0, (), "grow", None, "done")
    back_up(ledger._database.path, tmp_path / "copy.db")
    copy = Store.open_existing(tmp_path / "copy.db").ledger()
    assert "no entry is changed" in wrong(copy, "UPDATE commands SET result = 'nothing'")
