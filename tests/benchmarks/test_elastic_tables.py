from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.elastic.checkpoints import cost_of
from benchmarks.elastic.events import Outcome
from benchmarks.elastic.membership import StepTime
from benchmarks.elastic.memory import Memory
from benchmarks.elastic.progress import ProgressCost
from benchmarks.elastic.rewrapping import Rewrap
from benchmarks.elastic.steps import Change
from benchmarks.elastic.tables import (
    checkpoint_table,
    membership_table,
    memory_table,
    pause_table,
    progress_table,
    rewrap_table,
    size_table,
)


def took(system: str, event: str, *pauses_s: float, parameters: int = 1_000_000) -> list[Outcome]:
    return [
        Outcome(system, event, repeat, parameters, "", Change((pause_s,), 3, 0.01, 0.02, 0.03))
        for repeat, pause_s in enumerate(pauses_s)
    ]


def failed(system: str, event: str, failure: str) -> list[Outcome]:
    return [Outcome(system, event, 0, 1_000_000, failure)]


def test_systems_stand_below_each_other_by_event() -> None:
    first = [*took("freetrain", "grow", 0.1, 0.2, 0.3), *took("freetrain", "kill", 0.1)]
    table = pause_table([*first, *took("torchrun", "grow", 10.0, 12.0)])
    assert table.rows == [
        ("grow", "freetrain", "0.200", "0.290", "0.300", "3 of 3", "1.0"),
        ("grow", "torchrun", "11.000", "11.900", "12.000", "2 of 2", "55.0"),
        ("kill", "freetrain", "0.100", "0.100", "0.100", "1 of 1", "1.0"),
    ]


def test_failures_are_counted_and_give_no_figure() -> None:
    lost = [*failed("torchrun", "kill", "job lost"), *failed("torchrun", "kill", "job lost")]
    table = pause_table([*took("freetrain", "kill", 0.1), *failed("freetrain", "kill", "hung"), *lost])
    assert table.rows == [
        ("kill", "freetrain", "0.100", "0.100", "0.100", "1 of 2, 1 hung", "1.0"),
        ("kill", "torchrun", "–", "–", "–", "0 of 2, 2 job lost", "–"),
    ]


def test_a_note_tells_steps_done_again_and_changes_through_several_worlds() -> None:
    twice = Outcome("torchrun", "grow", 0, 1_000_000, "", Change((5.0, 6.0), 40, 0.01, 0.02))
    (note,) = pause_table([twice]).notes
    assert "10.0 ms per step" in note
    assert "1 of 1 changes took more than one new world" in note
    assert "40 (p50)" in note


def test_each_size_of_model_has_a_row() -> None:
    table = size_table(
        [
            *took("freetrain", "grow 2→3", 0.1, 0.3, 0.2),
            *took("freetrain", "leave 3→2", 0.05),
            *took("freetrain", "kill -9, 3→2", 0.06, 0.07),
            *took("torchrun", "grow 2→3", 9.0),
            Outcome("freetrain", "grow 2→3", 0, 500_000_000, "not enough memory"),
        ]
    )
    assert table.rows == [
        (
            "1 M",
            "freetrain",
            "0.010",
            "0.030",
            "0.010",
            "0.200",
            "0.100–0.300",
            "0.050",
            "0.050–0.050",
            "0.065",
            "0.060–0.070",
            "6 of 6",
        ),
        ("1 M", "torchrun", "0.010", "0.030", "–", "9.000", "9.000–9.000", *["–"] * 4, "1 of 1"),
        ("500 M", "freetrain", *["–"] * 9, "0 of 1, 1 not enough memory"),
    ]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_cost_of_progress_is_a_share_of_a_step() -> None:
    cost = ProgressCost((1e-6, 1e-6), (5e-4, 5e-4), (0.0101, 0.0100), (0.0100, 0.0100))
    assert cost.timed_shares == [pytest.approx(2e-4), pytest.approx(2e-4)]
    assert cost.differing_shares == [pytest.approx(0.01), pytest.approx(0.0)]
    timed, differing = progress_table(cost).rows
    assert timed[1:] == ("+0.0200 %",) * 3
    assert differing[1:] == ("+0.5000 %", "+0.0000 %", "+1.0000 %")


def test_what_a_checkpoint_costs_is_what_the_steps_last_longer() -> None:
    steps_s = [1.0] * 105
    for at, longer_s in {19: 3.0, 20: 0.5, 39: 0.2, 40: 0.5, 59: 0.3, 60: 0.5, 79: 0.4, 80: 0.5}.items():
        steps_s[at] += longer_s
    table = checkpoint_table([cost_of(100_000_000, True, steps_s)])
    (row,) = table.rows
    assert row == ("100 M", "in the background", "1.000", "3.000", "0.300", "0.200–0.400", "0.800")


def test_steps_of_worlds_that_do_not_change_are_compared_in_pairs() -> None:
    systems = ("freetrain", "torchrun", "torchrun, one small sum")
    times_s = [(0.0102, 0.0100, 0.0101), (0.0101, 0.0100, 0.0101), (None, 0.0100, 0.0101)]
    table = membership_table(
        [
            StepTime(name, 2, repeat, step_s)
            for repeat, each in enumerate(times_s)
            for name, step_s in zip(systems, each, strict=True)
        ]
    )
    assert table.columns[1:4] == tuple(f"{name}, ms" for name in systems)
    assert table.columns[4:] == ("longer than torchrun", "longer than torchrun, one small sum")
    (row,) = table.rows
    assert row[:5] == ("2", "10.150", "10.000", "10.100", "+1.50 % (+1.00 to +2.00)")
    assert row[5] == "+0.50 % (+0.00 to +0.99)"


def test_a_size_at_which_nothing_could_be_measured_has_no_figures() -> None:
    table = membership_table([StepTime("freetrain", 8, 0, None), StepTime("torchrun", 8, 0, 0.01)])
    assert table.rows == [("8", "–", "10.000", "–")]


def test_what_torch_alone_takes_is_shown_beside_a_step() -> None:
    table = rewrap_table(
        [Rewrap(25_000_000, 0.3, 0.5), Rewrap(25_000_000, 0.4, 0.4), Rewrap(25_000_000, 0.4, 0.6)]
    )
    assert table.rows == [("25 M", "0.400", "0.500", "0.400–0.600", "+0.200")]


def test_memory_is_compared_with_that_after_the_first_changes() -> None:
    table = memory_table([Memory(10, 400_000_000, 300_000_000, 30), Memory(20, 410_000_000, 303_000_000, 33)])
    assert table.rows == [
        ("10", "400", "+0.0 %", "300", "+0.0 %", "30"),
        ("20", "410", "+2.5 %", "303", "+1.0 %", "33"),
    ]
