"""What changes of a trainer's size were seen to cost it."""

from __future__ import annotations

import pytest

from freetrain.core.seen_costs import Change, Seen, SeenCosts

TWO_NODES = SeenCosts(nodes=2, since_s=100.0)


def test_until_anything_was_seen_its_owner_is_believed() -> None:
    assert Seen().believed_s(30.0) == 30.0


def test_a_word_counts_as_much_as_having_been_seen_once() -> None:
    assert Seen().and_then(10.0).believed_s(30.0) == 20.0
    assert Seen().and_then(10.0).and_then(10.0).and_then(10.0).believed_s(30.0) == 15.0


def test_what_was_seen_long_ago_fades() -> None:
    seen = Seen()
    for seconds in (*[100.0] * 50, *[1.0] * 50):
        seen = seen.and_then(seconds)
    assert 1.0 < seen.mean_s < 2.0
    assert seen.times == 10


@pytest.mark.parametrize("seconds", [-1.0, 1e6, float("nan")])
def test_what_cannot_be_is_not_counted(seconds: float) -> None:
    assert Seen().and_then(seconds) == Seen()


def test_each_cause_is_counted_for_itself() -> None:
    changes = [
        Change(200.0, 3, "join", 4.0),
        Change(300.0, 2, "leave", 2.0),
        Change(400.0, 1, "loss", 9.0),
        Change(500.0, 0, "broken", 7.0),
        Change(600.0, 2, "start", 0.0, start_s=33.0),
    ]
    costs = TWO_NODES.after(changes, [])
    assert costs.scale_up == Seen(4.0, 1)
    assert costs.scale_down == Seen(2.0, 1)
    assert costs.forced_loss == Seen(8.0, 2)
    assert costs.start == Seen(33.0, 1)
    assert (costs.nodes, costs.since_s) == (2, 600.0)


def test_a_boot_lasts_from_the_start_of_a_fragment_until_the_others_stop_for_it() -> None:
    costs = TWO_NODES.after([Change(160.0, 3, "join", 4.0)], [50.0, 60.0, 136.0])
    assert costs.boot == Seen(20.0, 1)


def test_of_several_that_join_together_the_last_one_counts() -> None:
    costs = TWO_NODES.after([Change(160.0, 4, "join", 4.0)], [50.0, 60.0, 130.0, 136.0])
    assert costs.boot == Seen(20.0, 1)


def test_where_it_is_not_clear_who_joined_no_boot_is_counted() -> None:
    """Two were started since the last change and one joined; or it began to run before that change."""
    join = Change(160.0, 3, "join", 4.0)
    assert TWO_NODES.after([join], [50.0, 60.0, 136.0, 140.0]).boot == Seen()
    assert TWO_NODES.after([join], [50.0, 60.0, 90.0]).boot == Seen()
