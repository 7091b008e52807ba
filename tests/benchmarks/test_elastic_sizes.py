"""Sizes of models, with trainings that do not start: who is measured when."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")

from benchmarks.elastic.events import NOT_STARTED
from benchmarks.elastic.sizes import NO_MEMORY, measure_sizes
from benchmarks.elastic.systems import System


def dead(name: str) -> System:
    return System(name, lambda place: [sys.executable, "-c", "pass"])


def test_the_systems_take_turns_so_that_none_has_the_quiet_minutes_alone() -> None:
    outcomes = list(measure_sizes([dead("one"), dead("other")], "adam", 2, [1000]))
    turns = list(dict.fromkeys((outcome.system, outcome.repeat) for outcome in outcomes))
    assert turns == [("one", 0), ("other", 0), ("one", 1), ("other", 1)]
    assert {outcome.failure for outcome in outcomes} == {NOT_STARTED}
    assert len(outcomes) == 4 * 4


def test_a_model_for_which_there_is_no_memory_is_told_for_every_event() -> None:
    outcomes = list(measure_sizes([dead("one")], "adam", 1, [10**12]))
    assert [outcome.failure for outcome in outcomes] == [NO_MEMORY] * 4
