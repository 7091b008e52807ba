"""How long idle nodes are expected to stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Job, JobState, Partition, Snapshot
from freetrain.core.fragment import Fragment, FragmentState
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
    assert idle_for_the_site(found, (lent,), "freetrain") == {"n1", "n3"}
