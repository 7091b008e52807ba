"""What is known of how long a training waits for data, with more CPUs and memory or less."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from freetrain.core.data_wait import DataWait, WaitProfile, summed_up


def profile(*points: DataWait) -> WaitProfile:
    """Seen one after the other."""
    known = WaitProfile()
    for point in points:
        known = WaitProfile((point,)).after(known)
    return known


@pytest.mark.parametrize(
    ("wait", "asks", "share"),
    [
        (DataWait(0.5, 4), 4, 0.5),
        (DataWait(0.5, 8), 4, 0.75),  # all of a step reads: with half the CPUs it takes twice as long
        (DataWait(0.5, 4), 8, 0.0),
        (DataWait(0.5, 4), 6, 0.25),
        (DataWait(0.04, 8), 4, 0.04),
        (DataWait(0.5), 4, 0.5),
        (DataWait(7.0, 8), 4, 0.995),
    ],
)
def test_from_one_point_reading_is_taken_to_be_in_proportion_to_cpus(
    wait: DataWait, asks: int, share: float
) -> None:
    assert profile(wait).share_with(asks) == pytest.approx(share)


def test_nothing_is_known_of_who_has_said_nothing() -> None:
    assert WaitProfile().share_with(4) == 0.0
    assert not WaitProfile().knows_cpus


@pytest.mark.parametrize(
    ("cpus", "share"),
    [(2, 0.75), (4, 0.5), (8, 0.5), (9, 0.5), (64, 0.5)],
)
def test_who_was_no_faster_with_more_cpus_is_not_thought_to_be_with_still_more(cpus: int, share: float) -> None:
    """As where the disk is what it waits for."""
    assert profile(DataWait(0.5, 4), DataWait(0.5, 8)).share_with(cpus) == pytest.approx(share)


def test_between_and_beyond_points_it_goes_with_the_power_that_they_show() -> None:
    """Four times the CPUs are twice the speed: each doubling brings the square root of two."""
    seen = profile(DataWait(0.8, 2), DataWait(0.6, 8))
    assert seen.share_with(4) == pytest.approx(1 - 0.2 * 2**0.5)
    assert seen.share_with(16) == pytest.approx(1 - 0.4 * 2**0.5)
    assert seen.share_with(1000) == 0.0


def test_where_twice_the_cpus_brought_less_than_a_tenth_more_are_thought_to_bring_nothing() -> None:
    assert profile(DataWait(0.5, 4), DataWait(0.46, 8)).share_with(64) == pytest.approx(0.46)
    assert profile(DataWait(0.5, 4), DataWait(0.44, 8)).share_with(64) < 0.3


def test_points_that_are_near_each_other_say_nothing_of_what_lies_beyond() -> None:
    assert profile(DataWait(0.5, 8), DataWait(0.5, 9)).share_with(18) == 0.0
    assert profile(DataWait(0.8, 2), DataWait(0.5, 8), DataWait(0.5, 9)).share_with(18) > 0.2


def test_who_no_longer_waits_as_it_has_more_waits_again_with_less() -> None:
    seen = profile(DataWait(0.5, 4, 1000), DataWait(0.0, 8, 1000))
    assert seen.share_with(4) == 0.5
    assert seen.share_with(8) == seen.share_with(64) == 0.0


def test_memory_is_looked_at_by_itself() -> None:
    seen = profile(DataWait(0.5, 4, 1000), DataWait(0.1, 4, 3000))
    assert seen.share_with(4, 1000) == seen.share_with(4, 2000) == 0.5
    assert seen.share_with(4, 3000) == pytest.approx(0.1)
    assert seen.has_had(3000)
    assert not seen.has_had(3001)


def test_with_less_memory_than_it_ever_had_nothing_better_is_known_than_what_it_had() -> None:
    assert profile(DataWait(0.2, 8, 3000)).share_with(8, 1000) == pytest.approx(0.2)


WAITED = DataWait(0.5, 4, 1000)


@pytest.mark.parametrize(
    ("later", "points"),
    [
        (DataWait(0.0, 8, 1000), 2),
        (DataWait(0.0, 4, 3000), 2),
        (DataWait(0.54, 8, 1000), 2),  # as much as chance makes
        (DataWait(0.56, 8, 1000), 1),  # it has changed: with more it waits longer
        (DataWait(0.44, 2, 1000), 1),
        (DataWait(0.46, 2, 1000), 2),
        (DataWait(0.44, 2, 3000), 2),  # that may be the memory
        (DataWait(0.0, 4, 1000), 1),
        (DataWait(0.0), 1),
    ],
)
def test_what_is_refuted_is_forgotten(later: DataWait, points: int) -> None:
    known = profile(WAITED, later)
    assert known.points[-1] == later
    assert len(known.points) == points


def test_so_many_points_are_kept() -> None:
    assert len(profile(*(DataWait(0.5, cpus) for cpus in range(1, 100))).points) == 16


def test_more_cpus_are_never_slower_whatever_was_seen() -> None:
    draw = random.Random(1)
    for _ in range(300):
        points = [
            DataWait(draw.uniform(0, 1.2), draw.randrange(0, 40), draw.choice((0, 1000, 4000)))
            for _ in range(draw.randrange(1, 30))
        ]
        seen, memory_mb = profile(*points), draw.choice((0, 500, 1000, 8000))
        shares = [seen.share_with(cpus, memory_mb) for cpus in range(1, 60)]
        assert all(0 <= share <= 1.2 for share in shares)
        assert all(more <= less + 1e-9 for less, more in pairwise(shares)), points


def test_several_statements_with_the_same_cpus_are_averaged_and_the_next_follow_them() -> None:
    assert summed_up([]) is None
    for wait, points in (
        ([(DataWait(0.2, 4), 10.0), (DataWait(0.8, 4), 5.0)], [DataWait(pytest.approx(0.4), 4)]),
        ([(DataWait(0.5, 4), 9.0), (DataWait(0.0, 8), 100.0)], [DataWait(0.5, 4), DataWait(0.0, 8)]),
        ([(DataWait(0.5, 4), 9.0), (DataWait(0.0, 4), 91.0)], [DataWait(pytest.approx(0.045), 4)]),
    ):
        assert summed_up(wait) == WaitProfile(tuple(points))
