"""HiGHS itself, on the whole model of each problem: nothing is priced out before, nothing checked afterwards."""

from __future__ import annotations

import pytest

from benchmarks.problems import NOW_S, mixed_problem, problem_with_ends, with_kinds
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import distinct_tables, total_value
from freetrain.guest.guest import Guest
from freetrain.policies import find_policy
from freetrain.policies.solver import highs
from freetrain.policies.solver.knapsack import price_out
from freetrain.policies.solver.piecewise import counts_by_choice, piecewise_choices, single_class_choices
from tests.oracle.enumeration import best_by_enumeration
from tests.policies.test_against_oracle import about

MORE = pytest.param(range(100, 2000), marks=pytest.mark.soak)


@pytest.mark.parametrize("seeds", [range(100), MORE], ids=["few", "more"])
@pytest.mark.parametrize("presolve", [True, False], ids=["presolved", "as it is"])
def test_highs_finds_the_best_of_all_allocations(presolve: bool, seeds: range) -> None:
    for seed in seeds:
        problem = mixed_problem(seed)
        if problem.held.size:
            answer = highs.solve(
                list(piecewise_choices(problem)), problem.capacity.tolist(), (), presolve, left_s=lambda: 60.0
            )
            assert answer.proven, f"seed {seed}"
            assert answer.counts is not None, f"seed {seed}"
            assert total_value(problem, answer.counts) == about(best_by_enumeration(problem)), f"seed {seed}"
            assert answer.bound == about(best_by_enumeration(problem)), f"seed {seed}"


@pytest.mark.parametrize("seed", range(5))
def test_the_search_begins_with_the_allocation_that_is_known(seed: int) -> None:
    problem = with_kinds(problem_with_ends(seed, 8, 40, 3, (60.0, 60.0, 360.0, 60.0)), seed, 2, orderly=True)
    known = find_policy("freetrain").decide(problem).counts
    choices, capacity = list(piecewise_choices(problem)), problem.capacity.tolist()
    model = highs.state_model(choices, capacity)
    solver, column = highs.highs_with(model)
    solver.setOptionValue("mip_max_improving_sols", 1)
    highs.begin_with(solver, model, counts_by_choice(problem, choices, known).tolist(), column)
    solver.run()
    assert solver.getObjectiveValue() == about(total_value(problem, known))


def test_highs_without_time_says_so() -> None:
    problem = mixed_problem(1, lives=True)
    answer = highs.solve(list(piecewise_choices(problem)), problem.capacity.tolist(), left_s=lambda: -1.0)
    assert (answer.out_of_time, answer.proven) == (True, False)


def test_highs_comes_to_an_end() -> None:
    """HiGHS 1.15.1's presolve can run for ever, past any time limit, on columns that only rows bound from above.

    Two trainers, six nodes: such a problem, all that did not matter left out. Nothing but ending it helps then.
    """
    trainers = (Trainer("a", ((3, 199.0),), min_nodes=2), Trainer("b", ((5, 1379.0),)))
    problem = Problem(NOW_S, tuple(Place(f"n{number}") for number in range(6)), trainers, 100.0, "throughput")
    guest = Guest(imports=("freetrain.policies.solver.highs",))
    tables, row = distinct_tables(problem.terms, problem.held_nodes, problem.classes[0])
    choices = list(single_class_choices(problem, price_out(tables, problem.node_count, row)))
    report = guest.ask("freetrain.policies.solver.highs:solve", choices, problem.capacity.tolist(), time_s=60.0)
    guest.close()
    assert report.answer is not None, report.message
    assert total_value(problem, report.answer.counts) == about(137_900.0)
