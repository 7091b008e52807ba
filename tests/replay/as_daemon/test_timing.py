"""When Slurm's backfill cycles begin."""

from __future__ import annotations

from freetrain.replay.as_daemon.timing import BackfillCycles


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
