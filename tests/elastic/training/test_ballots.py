from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from freetrain.elastic.errors import LostRankError, OddOneOutError
from freetrain.elastic.training.ballots import Ballot, Samples, StepVerdict, count_ballots
from freetrain.elastic.worlds.calls import Call, PendingCalls


def counted(*ballots: Ballot, rank: int = 0, joined: Sequence[int] = (), shards: int = 1) -> StepVerdict:
    since = joined or [1] * len(ballots)
    rows = [
        Call("x", joined=first, payload=ballot.pack()).pack() for ballot, first in zip(ballots, since, strict=True)
    ]
    return count_ballots(PendingCalls(1, rank, lambda: rows, lambda _rank, _how: None), 4, shards)


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.integers(1, 40), st.lists(numbers, max_size=12), st.lists(numbers, max_size=8))
def test_ranks_that_are_alike_differ_in_nothing(world: int, rates: list[float], values: list[float]) -> None:
    verdict = counted(*[Ballot(False, False, 0.5 / world, rates, values)] * world)
    assert verdict.loss == pytest.approx(0.5)


ALIKE = Ballot(False, False, 0.0, (0.1, 0.1), (1.0, -2.0))
RATES = Ballot(False, False, 0.0, (0.1, 0.101), (1.0, -2.0))
VALUES = Ballot(False, False, 0.0, (0.1, 0.1), (1.0, -2.02))


@pytest.mark.parametrize("world", [3, 64])
@pytest.mark.parametrize(("other", "difference"), [(RATES, "learning rates"), (VALUES, "parameters differ")])
def test_a_rank_that_is_off_is_told_in_what_and_the_others_that_it_is(
    world: int, other: Ballot, difference: str
) -> None:
    ballots = [ALIKE] * (world - 1) + [other]
    with pytest.raises(OddOneOutError, match=difference) as caught:
        counted(*ballots, rank=world - 1)
    assert "Ellipsis" not in str(caught.value)
    with pytest.raises(LostRankError, match=f"rank {world - 1}: its {difference}"):
        counted(*ballots)


def test_of_two_that_differ_the_one_that_was_there_before_is_right() -> None:
    with pytest.raises(OddOneOutError) as caught:
        counted(RATES, ALIKE, rank=0, joined=(5, 1))
    assert caught.value.is_new
    with pytest.raises(LostRankError):
        counted(RATES, ALIKE, rank=1, joined=(5, 1))


def test_most_of_those_that_were_there_first_are_right_however_many_have_come() -> None:
    with pytest.raises(LostRankError):
        counted(ALIKE, RATES, RATES, RATES, joined=(1, 2, 2, 2))


def test_rounding_is_no_difference() -> None:
    rounded = Ballot(False, False, 0.0, (0.1, 0.1), (1.000_001, -2.0))
    assert counted(ALIKE, rounded) == StepVerdict(False, False, 0.0)


def test_one_rank_that_wants_a_change_or_the_end_is_enough() -> None:
    quiet = Ballot(False, False, 0.25)
    assert counted(quiet, quiet) == StepVerdict(False, False, 0.5)
    assert counted(quiet, Ballot(True, False, 0.25)) == StepVerdict(True, False, 0.5)
    assert counted(Ballot(False, True, 0.25), quiet, quiet) == StepVerdict(False, True, 0.75)


def test_what_is_not_a_number_is_left_to_the_script() -> None:
    ballots = [Ballot(False, False, 0.0, (0.1,), (value,)) for value in (math.nan, 1.0, math.inf)]
    assert counted(*ballots) == StepVerdict(False, False, 0.0)


def test_shards_differ_but_ranks_that_have_the_same_one_do_not() -> None:
    first, second = Ballot(False, False, 0.0, (0.1,), (1.0,)), Ballot(False, False, 0.0, (0.1,), (7.0, 8.0))
    counted(first, second, first, second, shards=2)
    with pytest.raises(LostRankError, match="rank 3"):
        counted(first, second, first, Ballot(False, False, 0.0, (0.1,), (7.0, 8.1)), shards=2)


def test_in_time_samples_come_from_all_parameters_whatever_their_shape_and_layout() -> None:
    module = torch.nn.Module()
    shapes = [(), (0,), (3,), (2, 20), (8, 3, 5, 5)]
    for number, shape in enumerate(shapes):
        values = torch.full(shape, float(number))
        layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
        module.register_parameter(f"p{number}", torch.nn.Parameter(values.contiguous(memory_format=layout)))
    module.register_parameter("ids", torch.nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False))
    samples = Samples(module)
    seen = [samples.at(step) for step in range(8)]
    assert {value for values in seen for value in values} == {0.0, 2.0, 3.0, 4.0}
    assert max(map(len, seen)) == 8
    assert Samples(torch.nn.ReLU()).at(1) == []
