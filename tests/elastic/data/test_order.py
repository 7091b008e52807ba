from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from freetrain.elastic.data.order import Permutation

HUNDRED_MILLION = 100_000_000


@given(st.integers(1, 5000), st.text(max_size=5))
def test_every_number_has_one_place(size: int, key: str) -> None:
    assert sorted(Permutation(size, key).places(0, size).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [7, 4096, 4097, HUNDRED_MILLION, 2**59 + 1])
def test_places_are_the_same_however_they_are_asked_for(size: int) -> None:
    order, start = Permutation(size, "a"), size // 2
    stop = min(start + 1000, size)
    alone = [
        Permutation(size, "a").places(place, place + 1).item() for place in range(start, min(start + 20, stop))
    ]
    together = order.places(start, stop).tolist()
    assert together[:20] == alone
    assert len(set(together)) == stop - start
    assert all(0 <= number < size for number in together)


def test_all_shuffles_of_a_few_come_up_about_equally_often() -> None:
    found = Counter(tuple(Permutation(3, str(key)).places(0, 3).tolist()) for key in range(240))
    assert len(found) == 6
    assert max(found.values()) < 2 * min(found.values())


def test_a_shuffle_looks_random_along_itself_and_beside_another() -> None:
    places = torch.arange(60_000)
    order, other = (Permutation(len(places), key).places(0, len(places)) for key in ("0/0", "0/1"))
    for pair in ((order, places), (order[1:], order[:-1]), (order, other)):
        correlation = torch.corrcoef(torch.stack(pair).double())[0, 1]
        assert abs(correlation) < 0.02  # five times its scatter for a random shuffle


def test_steps_of_sorted_data_are_mixed_as_by_chance() -> None:
    """Ten classes that lie one after the other: the counts in steps of 60 scatter as in random draws."""
    classes = Permutation(60_000, "0/0").places(0, 60_000) // 6_000
    steps = classes.view(-1, 60)
    counts = torch.stack([(steps == one).sum(1) for one in range(10)]).double()
    assert counts.var().item() == pytest.approx(60 * 0.1 * 0.9, rel=0.05)
