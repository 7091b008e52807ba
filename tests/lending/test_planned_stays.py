"""Plans are scored as they go, and those that are worse than knowing nothing are not believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from freetrain.lending.planned_stays import PlannedStays

HORIZON_S = 1000.0
NODES = [f"n{number}" for number in range(30)]


def after_plans(planned_s: float, came_s: float, plans: PlannedStays = PlannedStays()) -> PlannedStays:  # noqa: B008
    """After all nodes were planned to be taken so much later, and were taken then."""
    began_s = plans.seen_s or 0.0
    plans = plans.after(began_s, NODES, dict.fromkeys(NODES, began_s + planned_s), HORIZON_S)
    return plans.after(began_s + came_s, (), {}, HORIZON_S)


def believed_s(plans: PlannedStays, planned_s: float) -> float | None:
    """How long a node is expected to stay of which this is planned; None: nothing is believed."""
    now_s = plans.seen_s or 0.0
    found = plans.believed_s(now_s, {"n": now_s + planned_s}, HORIZON_S)
    return found["n"] - now_s if found else None


def test_plans_are_believed_as_they_are_before_any_was_scored() -> None:
    assert believed_s(PlannedStays(), 300.0) == 300.0
    assert believed_s(PlannedStays(), 1000.0) is None


def test_jobs_that_end_before_their_limits_bring_the_expected_end_nearer() -> None:
    assert believed_s(after_plans(400.0, 200.0), 300.0) == 150.0


def test_plans_that_never_come_true_are_believed_no_more() -> None:
    plans = after_plans(300.0, 990.0)
    assert believed_s(plans, 300.0) is None
    assert believed_s(plans, 800.0) == 800.0


def test_that_a_node_goes_at_once_is_believed_once_it_has_been_seen() -> None:
    assert believed_s(PlannedStays(), 0.0) is None
    assert believed_s(after_plans(0.0, 10.0), 0.0) == 10.0


def test_nothing_is_believed_beyond_the_horizon() -> None:
    assert believed_s(PlannedStays(), 2 * HORIZON_S) is None


def test_nodes_are_given_back_for_jobs_that_could_start_as_long_as_that_pays() -> None:
    starts, waits = after_plans(0.0, 10.0), after_plans(0.0, 900.0)
    assert starts.leaves_now(saved_node_s=60.0, again_node_s=0.0)
    assert starts.leaves_now(saved_node_s=60.0, again_node_s=60.0)
    assert not waits.leaves_now(saved_node_s=6000.0, again_node_s=0.0)
    # What has not been seen may never happen: where Slurm starts otherwise, nodes would stay idle.
    assert not PlannedStays().leaves_now(saved_node_s=6000.0, again_node_s=0.0)


@given(st.lists(st.tuples(st.floats(0.0, 1200.0), st.floats(1.0, 3000.0)), max_size=8))
def test_an_end_is_believed_within_the_horizon_or_not_at_all(seen: list[tuple[float, float]]) -> None:
    plans = PlannedStays()
    for planned_s, came_s in seen:
        plans = after_plans(planned_s, came_s, plans)
    assert not plans.open
    for planned_s in (0.0, 100.0, 400.0, 900.0):
        found = believed_s(plans, planned_s)
        assert found is None or found >= 0.0
