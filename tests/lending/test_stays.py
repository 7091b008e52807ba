"""How long idle nodes are expected to stay."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition
from freetrain.lending.facts import Facts
from freetrain.lending.stays import Stays, idle_for_the_site
from tests.facts import node

MANY = frozenset(f"n{number}" for number in range(100))


def test_before_anything_was_seen_they_stay_for_twenty_minutes() -> None:
    assert Stays().expected_s == 1200.0
    assert Stays().after(0.0, MANY).expected_s == 1200.0


def test_what_was_seen_counts_more_and_more() -> None:
    stays = Stays().after(0.0, MANY)
    for minute in range(1, 200):
        # One of a hundred nodes leaves each minute, and another takes its place.
        left = frozenset({f"n{minute % 100}"})
        stays = stays.after(60.0 * minute - 1, MANY - left).after(60.0 * minute, MANY)
    assert stays.expected_s == pytest.approx(6000, rel=0.25)


def test_nodes_that_stay_for_ever_are_expected_to_stay_longer_and_longer() -> None:
    day = Stays().after(0.0, MANY).after(86400.0, MANY)
    assert day.expected_s > 500_000


def test_before_anything_was_seen_age_tells_nothing() -> None:
    for age_s in (0.0, 500.0, 50_000.0):
        assert Stays().remaining_s(age_s) == pytest.approx(1200.0)
        assert Stays().stays(age_s, 600.0) == pytest.approx(math.exp(-0.5))


def many_short_and_few_long() -> Stays:
    """Every 100 s twenty nodes become idle; all but one of them leave 100 s later, and that one after 5000 s."""
    stays, long, short = Stays(), list[tuple[float, str]](), frozenset[str]()
    for now_s in range(0, 40_000, 100):
        long = [(until_s, name) for until_s, name in long if until_s > now_s] + [(now_s + 5000.0, f"l{now_s}")]
        short = frozenset(f"s{now_s}-{number}" for number in range(19))
        stays = stays.after(float(now_s), short | {name for _, name in long})
    return stays


def test_a_node_that_has_been_idle_for_a_while_is_expected_to_stay_longer_than_a_new_one() -> None:
    stays = many_short_and_few_long()
    assert 2 * stays.remaining_s(0.0) < stays.remaining_s(400.0)
    assert stays.remaining_s(400.0) == pytest.approx(4600.0, rel=0.25)
    assert stays.stays(0.0, 300.0) < 0.4
    assert stays.stays(400.0, 300.0) > 0.9


def test_what_is_expected_to_remain_is_what_the_probabilities_add_up_to() -> None:
    stays = many_short_and_few_long()
    for age_s in (0.0, 119.0, 700.0, 20_000.0):
        added_s = sum(5.0 * stays.stays(age_s, ahead_s + 2.5) for ahead_s in range(0, 200_000, 5))
        assert stays.remaining_s(age_s) == pytest.approx(added_s, rel=1e-3)


def test_what_was_seen_long_ago_is_forgotten() -> None:
    busy = Stays().after(0.0, MANY).after(60.0, frozenset())
    assert busy.expected_s < 200
    later = busy.after(60.0 + 30 * 86400, MANY).after(120.0 + 30 * 86400, MANY)
    assert later.expected_s > 50_000


def test_lent_nodes_are_idle_for_the_site_and_those_of_its_jobs_and_others_are_not() -> None:
    lent = Fragment("7_1", "7", "n1", FragmentState.RUNNING, 0.0, 3600.0, 1.0)
    fragment = Job("7_1", "7", "news", "freetrain", JobState.RUNNING, nodes=frozenset({"n1"}))
    theirs = replace(fragment, id="8", partition="main", nodes=frozenset({"n2"}))
    found = Snapshot(
        10.0,
        (node("n1", "ALLOCATED"), node("n2", "ALLOCATED"), node("n3"), node("n4", "DOWN")),
        (fragment, theirs),
        partitions={"freetrain": Partition("freetrain", frozenset({"n1", "n2", "n3", "n4", "n5"}))},
    )
    assert idle_for_the_site(Facts(found, (lent,)), FragmentQueue("freetrain"), None, {}) == {"n1", "n3"}


def test_nodes_are_kept_in_an_order_that_does_not_depend_on_their_set() -> None:
    names = [f"n{number}" for number in range(50)]
    since_s = Stays().after(0.0, frozenset(names[:40])).after(1.0, frozenset(names)).since_s
    assert list(since_s) == [*sorted(names[:40]), *sorted(names[40:])]
