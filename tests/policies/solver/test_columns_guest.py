"""What combines columns may hang, die and lie, as HiGHS may; a decision comes nevertheless."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks.problems import problem_with_ends
from freetrain.core.decision import GOOD_ENOUGH, Decision, Status
from freetrain.core.verify import verify
from freetrain.guest.guest import Guest
from freetrain.policies import find_policy
from freetrain.policies.freetrain import FreeTrain, Solver
from freetrain.policies.solver.columns_guest import ColumnsGuest
from tests.policies import deciding
from tests.policies.solver import planted_columns

LONG_S = 300.0
PROBLEM = problem_with_ends(3, 12, 90, 3, (18.0, 12.0, 12.0, 0.0))
GREEDY = deciding.decide(find_policy("greedy"), PROBLEM)


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    guest = Guest(imports=("tests.policies.solver.planted_columns",), patience_s=0.05)
    yield guest
    guest.close()


def decide(guest: Guest, solver: Callable[..., object], time_limit_s: float = LONG_S) -> Decision:
    """The decision, whatever the solver does: usable, and as good as the greedy one."""
    columns = ColumnsGuest(guest, f"{solver.__module__}:{solver.__name__}")
    decision = deciding.decide(FreeTrain(Solver.AUTO, time_limit_s, columns=columns), PROBLEM)
    assert verify(PROBLEM, decision) == ()
    assert decision.objective >= GREEDY.objective
    return decision


def test_what_is_good_enough_is_feasible_and_needs_no_note() -> None:
    large = problem_with_ends(0, 300, 3000, 4, (18.0, 12.0, 12.0, 0.0))
    decision = deciding.decide(find_policy("freetrain", time_limit_s=LONG_S), large)
    assert (decision.status, decision.solver, decision.notes) == (Status.FEASIBLE, "columns", ())
    assert decision.gap is not None
    assert 0 < decision.gap <= GOOD_ENOUGH


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        (planted_columns.sleeps, "HiGHS had not answered after"),
        (planted_columns.crashes, "HiGHS died (signal 11, SIGSEGV); decided greedily"),
        (planted_columns.fails, "HiGHS failed: RuntimeError: licence of the moon expired; decided greedily"),
        (planted_columns.gives_more_than_there_is, "which has"),
    ],
)
def test_one_that_hangs_dies_or_lies_leaves_the_greedy_decision(
    guest: Guest, solver: Callable[..., object], said: str
) -> None:
    decision = decide(guest, solver, 0.2 if solver is planted_columns.sleeps else LONG_S)
    assert (decision.status, decision.placement) == (Status.FALLBACK, GREEDY.placement)
    assert said in decision.notes[0]


def test_one_that_ran_out_of_time_says_so_and_gives_way_to_what_is_better(guest: Guest) -> None:
    decision = decide(guest, planted_columns.gives_nothing_in_time)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "greedy")
    assert "(its time had run out); the best allocation known then, greedy's, is used" in decision.notes[0]
    assert decision.gap is not None


def test_one_that_calls_waste_optimal_is_not_believed(guest: Guest) -> None:
    decision = decide(guest, planted_columns.calls_waste_optimal)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "greedy")
    assert "HiGHS calls an allocation worth" in decision.notes[0]
