from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.elastic.training.agreement import Ballot, Difference, Verdict, count


def counted(*ballots: Ballot) -> Verdict:
    sums = [sum(column) for column in zip(*(ballot.numbers() for ballot in ballots), strict=True)]
    return count(sums, len(ballots), ballots[0].shards)


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.integers(1, 300), st.lists(numbers, max_size=8), st.lists(numbers, max_size=8))
def test_ranks_that_are_alike_differ_in_nothing(world: int, rates: list[float], values: list[float]) -> None:
    verdict = counted(*[Ballot(False, False, 0.5 / world, rates, values)] * world)
    assert verdict.difference is None
    assert verdict.loss == pytest.approx(0.5)


@pytest.mark.parametrize("world", [2, 3, 64, 1000])
@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (Ballot(False, False, 0.0, (0.1, 0.101), (1.0, -2.0)), Difference.RATES),
        (Ballot(False, False, 0.0, (0.1, 0.1), (1.0, -2.02)), Difference.VALUES),
        (Ballot(False, False, 0.0, (0.1, 0.1), (1.000_001, -2.0)), None),
    ],
)
def test_one_rank_that_is_off_is_found_in_any_world(world: int, other: Ballot, difference: Difference) -> None:
    alike = Ballot(False, False, 0.0, (0.1, 0.1), (1.0, -2.0))
    assert counted(other, *[alike] * (world - 1)).difference is difference


def test_one_rank_that_wants_a_change_or_the_end_is_enough() -> None:
    quiet = Ballot(False, False, 0.25)
    assert counted(quiet, quiet) == Verdict(False, False, 0.5)
    assert counted(quiet, Ballot(True, False, 0.25)) == Verdict(True, False, 0.5)
    assert counted(Ballot(False, True, 0.25), quiet, quiet) == Verdict(False, True, 0.75)


def test_what_is_not_a_number_is_left_to_the_script() -> None:
    ballots = [Ballot(False, False, 0.0, (0.1,), (value,)) for value in (math.nan, 1.0, math.inf)]
    assert counted(*ballots).difference is None


def test_shards_differ_but_those_who_have_the_same_one_do_not() -> None:
    first = Ballot(False, False, 0.0, (0.1,), (1.0,), shard=0, shards=2)
    second = Ballot(False, False, 0.0, (0.1,), (7.0, 8.0), shard=1, shards=2)
    off = Ballot(False, False, 0.0, (0.1,), (7.0, 8.1), shard=1, shards=2)
    assert counted(first, second, first, second).difference is None
    assert counted(first, second, first, off).difference is Difference.VALUES
