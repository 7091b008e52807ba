from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from freetrain.elastic.adopting.counts import ScriptCounts, numbered
from freetrain.elastic.errors import NotAdoptedError


class Meter:
    def __init__(self) -> None:
        self.total = 0.0


def batches(
    counts: ScriptCounts, rehearsed: int, steps: int, given: dict[str, Any] | None = None
) -> Iterator[int]:
    """As an adopted loader gives them: some to rehearse with, then those of the training."""
    counts.begin_rehearsal()
    yield from range(rehearsed)
    counts.end_rehearsal()
    if given is not None:
        counts.load_state_dict(given)
    counts.put_back()
    for batch in range(steps):
        counts.begin_step()
        counts.begin_batch()
        yield batch
    counts.begin_step()


def train(counts: ScriptCounts, rehearsed: int, steps: int, given: dict[str, Any] | None = None) -> list[float]:
    updates, meters = 0, {"loss": Meter()}
    seen = []
    for number, _ in numbered(batches(counts, rehearsed, steps, given), 100):
        updates = updates + 1
        meters["loss"].total += 0.5
        seen = [number, updates, meters["loss"].total]
    return seen


def test_a_rehearsal_does_not_count() -> None:
    assert train(ScriptCounts(), 1, 3) == train(ScriptCounts(), 0, 3) == [102, 3, 1.5]


def test_a_newcomer_goes_on_with_the_counts_of_the_others() -> None:
    old = ScriptCounts()
    train(old, 1, 5)
    assert train(ScriptCounts(), 1, 2, old.state_dict()) == [106, 7, 3.5]


def test_numbers_that_do_not_change_are_a_workers_own() -> None:
    def train_as(rank: int, counts: ScriptCounts, given: dict[str, Any] | None = None) -> tuple[int, int]:
        updates = 0
        for _ in batches(counts, 1, 3, given):
            updates += 1
        assert not [name for name in counts.state_dict()["changing"] if "rank" in name]
        return rank, updates

    old = ScriptCounts()
    assert train_as(0, old) == (0, 3)
    assert train_as(4, ScriptCounts(), old.state_dict()) == (4, 6)


def test_a_step_that_is_made_again_counts_once() -> None:
    counts = ScriptCounts()

    def with_a_lost_step() -> Iterator[int]:
        yield from batches(counts, 1, 3)
        before = counts.state_dict()
        counts.begin_batch()
        yield 3
        counts.begin_step()
        counts.load_state_dict(before)
        counts.begin_batch()
        yield 3

    updates = 0
    for _ in with_a_lost_step():
        updates += 1
    assert updates == 4


def test_what_is_not_a_number_stays_as_it_is() -> None:
    old, worst = ScriptCounts(), math.nan
    train(old, 1, 5)
    assert train(ScriptCounts(), 1, 2, old.state_dict()) == [106, 7, 3.5]
    assert math.isnan(worst)


def test_another_workers_counts_are_taken_before_the_first_batch_alone() -> None:
    old, counts = ScriptCounts(), ScriptCounts()
    train(old, 1, 5)
    updates = 0
    for number, _ in numbered(batches(counts, 1, 4), 0):
        updates += 1
        if number == 1:
            counts.load_state_dict(old.state_dict())
    assert (number, updates) == (3, 4)


@pytest.mark.parametrize("rehearsed", [1, 4])
def test_steps_that_a_loop_of_the_scripts_own_counts_are_refused(rehearsed: int) -> None:
    iterator = batches(ScriptCounts(), rehearsed, 20)
    taken = []

    def train_for_so_many_steps() -> None:
        for step in range(30):
            taken.append((step, next(iterator)))

    with pytest.raises(NotAdoptedError) as refused:
        train_for_so_many_steps()
    assert refused.value.reason == "its steps are counted by a loop of its own, 'for step in ...'"
    assert len(taken) == rehearsed + 1
