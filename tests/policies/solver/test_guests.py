"""A solver may hang, die and lie; there is a decision nevertheless, the greedy one or a better one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from benchmarks.problems import problem_with_ends, random_problem, with_kinds
from freetrain.core.decision import GOOD_ENOUGH, Decision, Status
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.guest.guest import Guest
from freetrain.policies import find_policy
from freetrain.policies.freetrain import FreeTrain, Solver
from tests.policies import deciding
from tests.policies.solver import planted, planted_columns

LONG_S = 300.0
SHORT_S = 0.2


def lives_problem() -> Problem:
    problem = random_problem(3, 12, 90)
    ends = (None, problem.now_s + 40, problem.now_s + 80)
    nodes = tuple(replace(node, until_s=ends[row % 3]) for row, node in enumerate(problem.nodes))
    return replace(problem, nodes=nodes)


PROBLEM = lives_problem()
GREEDY = deciding.decide(find_policy("greedy"), PROBLEM)
GREEDY_IS_USED = "; the best allocation known then, greedy's, is used"
KINDS = with_kinds(problem_with_ends(1, 12, 90, 3, (60.0, 60.0, 360.0, 60.0)), 1, 3, orderly=True)


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    guest = Guest(
        imports=("tests.policies.solver.planted", "tests.policies.solver.planted_columns"), patience_s=0.05
    )
    yield guest
    guest.close()


def decide(guest: Guest, solver: Callable[..., object], time_limit_s: float = LONG_S) -> Decision:
    """The decision where there are no columns, whatever the solver does: usable, and as good as the greedy one."""
    highs = guest.asking(f"{solver.__module__}:{solver.__name__}")
    columns = guest.asking(f"{planted_columns.__name__}:fails")
    decision = deciding.decide(FreeTrain(Solver.HIGHS, time_limit_s, highs=highs, columns=columns), PROBLEM)
    assert verify(PROBLEM, decision) == ()
    assert decision.objective >= GREEDY.objective
    return decision


@pytest.fixture(scope="module")
def optimum() -> float:
    decision = deciding.decide(find_policy("freetrain", solver="highs", time_limit_s=LONG_S), PROBLEM)
    assert (decision.status, decision.solver, decision.notes) == (Status.OPTIMAL, "HiGHS", ())
    return decision.objective


@pytest.mark.parametrize("solver", [planted.sleeps, planted.computes])
def test_one_that_hangs_is_ended(guest: Guest, solver: Callable[..., object]) -> None:
    decision = decide(guest, solver, SHORT_S)
    assert (decision.status, decision.solver, decision.placement) == (Status.FALLBACK, "greedy", GREEDY.placement)
    took = re.fullmatch(
        r"HiGHS had not answered after ([\d.]+) s and was ended" + GREEDY_IS_USED, decision.notes[-1]
    )
    assert took is not None
    assert float(took[1]) >= SHORT_S


@pytest.mark.parametrize(
    ("solver", "status_text"),
    [
        (planted.exits, "HiGHS died (exit code 0)" + GREEDY_IS_USED),
        (planted.crashes, "HiGHS died (signal 11, SIGSEGV)" + GREEDY_IS_USED),
        (planted.is_killed, "HiGHS died (signal 9, SIGKILL)" + GREEDY_IS_USED),
        (
            planted.fails,
            "HiGHS failed: RuntimeError: licence of the moon expired" + GREEDY_IS_USED,
        ),
    ],
)
def test_one_that_dies_or_fails_leaves_the_greedy_decision(
    guest: Guest, solver: Callable[..., object], status_text: str
) -> None:
    decision = decide(guest, solver)
    assert decision.status == Status.FALLBACK
    assert decision.notes[-1] == status_text


@pytest.mark.parametrize(
    ("solver", "status_text"),
    [
        (planted.answers_none, "HiGHS's answer is none: {'counts': 'all of them'}"),
        (planted.answers_text, "it is not a table of whole numbers for 12 trainers and 3 classes of nodes"),
        (planted.gives_fractions, "it is not a table of whole numbers"),
        (planted.gives_the_wrong_shape, "it is not a table of whole numbers"),
        (planted.gives_less_than_nothing, "gets -1 nodes of class 0, which has 30"),
        (planted.gives_more_than_there_is, "360 nodes of class 0 are given away, which has 30"),
        (planted.gives_endlessly, "gets 4611686018427387904 nodes of class 0"),
        (planted.gives_all_to_one, "90 nodes, outside its 1 to 64"),
        (planted.lets_somebody_migrate, "migrate"),
    ],
)
def test_an_allocation_that_cannot_be_is_not_used(
    guest: Guest, solver: Callable[..., object], status_text: str
) -> None:
    decision = decide(guest, solver)
    assert (decision.status, decision.solver) == (Status.FALLBACK, "greedy")
    assert status_text in decision.notes[-1]
    assert decision.notes[-1].count(status_text) == 2, "it was asked again without presolve"


def test_one_that_wastes_nodes_gives_way_to_the_greedy_decision(guest: Guest) -> None:
    decision = decide(guest, planted.wastes)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "greedy")
    assert decision.gap == pytest.approx((1e18 - decision.objective) / decision.objective)


def test_one_that_calls_waste_optimal_is_not_believed(guest: Guest) -> None:
    decision = decide(guest, planted.calls_waste_optimal)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "greedy")
    assert "HiGHS calls an allocation worth" in decision.notes[-1]


def test_a_bound_below_what_there_is_is_said_and_not_believed(guest: Guest, optimum: float) -> None:
    decision = decide(guest, planted.claims_too_low_a_bound)
    assert (decision.status, decision.solver, decision.gap) == (Status.FEASIBLE, "HiGHS", None)
    assert decision.objective == pytest.approx(optimum)
    assert "HiGHS claims that nothing is worth more than" in decision.notes[-1]


def test_a_bound_that_is_no_number_is_not_believed(guest: Guest) -> None:
    decision = decide(guest, planted.claims_a_bound_that_is_none)
    assert (decision.status, decision.gap) == (Status.FEASIBLE, None)
    assert "claims a bound that is not a number (nan)" in decision.notes[-1]


def test_the_best_known_when_time_ran_out_is_used_with_its_gap(guest: Guest, optimum: float) -> None:
    decision = decide(guest, planted.stops_at_the_best)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "HiGHS")
    assert decision.objective == pytest.approx(optimum)
    assert decision.gap == pytest.approx(0.1, rel=1e-3)


def test_a_message_tells_the_time_that_has_passed_and_not_the_limit(guest: Guest) -> None:
    decision = decide(guest, planted.finds_nothing_in_time, LONG_S)
    status_text = re.fullmatch(
        r"HiGHS found no allocation after ([\d.e-]+) s \(Time limit reached\)" + GREEDY_IS_USED,
        decision.notes[-1],
    )
    assert status_text is not None
    assert float(status_text[1]) < LONG_S


@pytest.mark.parametrize("solver", [planted.needs_presolve_off, planted.loses_what_it_found])
def test_a_problem_that_is_called_insoluble_is_solved_without_presolve(
    guest: Guest, solver: Callable[..., object], optimum: float
) -> None:
    decision = decide(guest, solver)
    assert (decision.status, decision.solver, decision.gap) == (Status.OPTIMAL, "HiGHS", 0.0)
    assert decision.objective == pytest.approx(optimum)
    assert "although there always is one; asked again without presolve, it was solved" in decision.notes[-1]


def test_one_that_never_solves_is_asked_twice(guest: Guest) -> None:
    decision = decide(guest, planted.never_solves)
    assert decision.status == Status.FALLBACK
    assert decision.notes[-1].count("(Infeasible), although there always is one") == 2


def test_the_second_try_has_what_is_left_of_the_time(guest: Guest) -> None:
    """On a machine so busy that even the first is too late, both get more."""
    decisions = (decide(guest, planted.hangs_at_the_second_try, limit_s) for limit_s in (0.5, 4.0, 32.0))
    decision = next(decision for decision in decisions if "asked again" in decision.notes[-1])
    assert decision.status == Status.FALLBACK
    assert "asked again without presolve, HiGHS had not answered after" in decision.notes[-1]


def test_highs_is_never_worse_than_the_columns_with_which_it_begins(guest: Guest) -> None:
    by_columns = deciding.decide(find_policy("freetrain"), KINDS)
    highs = guest.asking(f"{planted.__name__}:keeps_the_start")
    decision = deciding.decide(FreeTrain(Solver.HIGHS, LONG_S, highs=highs), KINDS)
    assert decision.placement == by_columns.placement
    assert decision.objective == by_columns.objective > deciding.decide(find_policy("greedy"), KINDS).objective
    assert (decision.status, decision.gap) == (by_columns.status, by_columns.gap)


def test_a_worker_of_its_own_gets_the_same_plan(guest: Guest, optimum: float) -> None:
    first = deciding.decide(find_policy("freetrain", solver="highs", time_limit_s=LONG_S), PROBLEM)
    fresh = Guest(imports=("freetrain.policies.solver.highs",))
    retry = deciding.decide(
        FreeTrain(Solver.HIGHS, LONG_S, highs=fresh.asking("freetrain.policies.solver.highs:solve")), PROBLEM
    )
    fresh.close()
    assert retry == first


NOBODY = Guest().asking("tests.policies.solver.planted:nowhere")
"""Must not be asked."""


ONE = Trainer("one", ((1, 10.0), (2, 20.0)))
PAIR = Trainer("pair", ((2, 20.0), (4, 30.0)), min_nodes=3)
NODES = (Place("long", None, "pair"), Place("short", 60.0, "pair"))


@pytest.mark.parametrize(
    "problem",
    [
        Problem(0.0, (), (ONE,)),
        Problem(0.0, NODES[:0], ()),
        Problem(0.0, (Place("long"), Place("short", 60.0)), ()),
        Problem(0.0, NODES, (PAIR,)),
    ],
    ids=["no nodes", "nothing", "no trainers", "too few nodes for anybody"],
)
def test_what_cannot_change_anything_is_not_solved(problem: Problem) -> None:
    decision = deciding.decide(FreeTrain(Solver.HIGHS, highs=NOBODY), problem)
    assert (decision.status, decision.gap, decision.placement) == (Status.OPTIMAL, 0.0, {})
    assert decision.solver == "nothing to decide"
    assert verify(problem, decision) == ()


def test_what_pricing_has_proven_is_not_solved() -> None:
    problem = Problem(0.0, (Place("n1"), Place("n2")), (ONE,))
    decision = deciding.decide(FreeTrain(Solver.HIGHS, highs=NOBODY), problem)
    assert (decision.status, decision.solver) == (Status.OPTIMAL, "pricing")
    assert len(decision.placement["one"]) == 2


PROBLEM_WITH_ENDS = problem_with_ends(3, 12, 90, 3, (18.0, 12.0, 12.0, 0.0))
GREEDY_WITH_ENDS = deciding.decide(find_policy("greedy"), PROBLEM_WITH_ENDS)


def decide_by_columns(guest: Guest, solver: Callable[..., object], time_limit_s: float = LONG_S) -> Decision:
    """The decision, whatever the solver does: usable, and as good as the greedy one."""
    columns = guest.asking(f"{solver.__module__}:{solver.__name__}")
    decision = deciding.decide(FreeTrain(Solver.AUTO, time_limit_s, columns=columns), PROBLEM_WITH_ENDS)
    assert verify(PROBLEM_WITH_ENDS, decision) == ()
    assert decision.objective >= GREEDY_WITH_ENDS.objective
    return decision


def test_what_is_good_enough_is_feasible_and_needs_no_note() -> None:
    large = problem_with_ends(0, 300, 3000, 4, (18.0, 12.0, 12.0, 0.0))
    decision = deciding.decide(find_policy("freetrain", time_limit_s=LONG_S), large)
    assert (decision.status, decision.solver, decision.notes) == (Status.FEASIBLE, "columns", ())
    assert decision.gap is not None
    assert 0 < decision.gap <= GOOD_ENOUGH


@pytest.mark.parametrize(
    ("solver", "status_text"),
    [
        (planted_columns.sleeps, "HiGHS had not answered after"),
        (
            planted_columns.crashes,
            "HiGHS died (signal 11, SIGSEGV)" + GREEDY_IS_USED,
        ),
        (
            planted_columns.fails,
            "HiGHS failed: RuntimeError: licence of the moon expired" + GREEDY_IS_USED,
        ),
        (planted_columns.gives_more_than_there_is, "which has"),
    ],
)
def test_columns_that_hang_die_or_lie_leave_the_greedy_decision(
    guest: Guest, solver: Callable[..., object], status_text: str
) -> None:
    decision = decide_by_columns(guest, solver, 0.2 if solver is planted_columns.sleeps else LONG_S)
    assert (decision.status, decision.placement) == (Status.FALLBACK, GREEDY_WITH_ENDS.placement)
    assert status_text in decision.notes[0]


def test_columns_that_ran_out_of_time_say_so_and_give_way_to_what_is_better(guest: Guest) -> None:
    decision = decide_by_columns(guest, planted_columns.gives_nothing_in_time)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "greedy")
    assert "(its time had run out)" + GREEDY_IS_USED in decision.notes[0]
    assert decision.gap is not None


def test_columns_that_call_waste_optimal_are_not_believed(guest: Guest) -> None:
    decision = decide_by_columns(guest, planted_columns.calls_waste_optimal)
    assert (decision.status, decision.solver) == (Status.FEASIBLE, "greedy")
    assert "HiGHS calls an allocation worth" in decision.notes[0]
