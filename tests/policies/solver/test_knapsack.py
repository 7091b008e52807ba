"""Pricing and the dynamic programme against all allocations there are."""

from __future__ import annotations

import itertools
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.terms import Table
from freetrain.policies.solver.knapsack import best_sizes, price_out

values = st.integers(-5, 30) | st.just(-inf) | st.floats(0, 10)
cases = st.integers(1, 4).flatmap(
    lambda most: st.tuples(
        st.lists(st.lists(values, min_size=most, max_size=most), min_size=1, max_size=4), st.integers(0, 8)
    )
)


def table(rows: list[list[float]]) -> Table:
    """Every trainer may also have no node at all, which is worth nothing."""
    return np.array([[0.0, *row] for row in rows])


def allocations(tables: Table, nodes: int) -> list[tuple[float, tuple[int, ...]]]:
    """All that fit: what they are worth, and their sizes."""
    trainers, sizes = tables.shape
    return [
        (float(sum(tables[row, size] for row, size in enumerate(chosen))), chosen)
        for chosen in itertools.product(range(sizes), repeat=trainers)
        if sum(chosen) <= nodes
    ]


@given(cases)
def test_the_dynamic_programme_finds_the_best_of_all_allocations(case: tuple[list[list[float]], int]) -> None:
    tables, nodes = table(case[0]), case[1]
    priced = price_out(tables, nodes)
    sizes = best_sizes(priced, nodes)
    assert sizes.sum() <= nodes
    worth = float(priced.values[np.arange(len(sizes)), sizes].sum())
    assert worth == pytest.approx(max(allocations(tables, nodes))[0])


@given(cases, st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_trainers_that_share_a_table_are_decided_as_if_each_had_its_own(
    case: tuple[list[list[float]], int], rows: list[int]
) -> None:
    tables, nodes = table(case[0]), case[1]
    row = np.array(rows) % len(tables)
    shared, own = price_out(tables, nodes, row), price_out(tables[row], nodes)
    assert shared.bound == own.bound
    worth = [tables[row, best_sizes(priced, nodes)].sum() for priced in (shared, own)]
    assert worth[0] == pytest.approx(worth[1])


def plain_best(tables: Table, row: list[int], nodes: int) -> float:
    """One trainer after the other, whatever they have in common."""
    best = np.zeros(nodes + 1)
    for values in tables[row]:
        sizes = range(min(len(values), nodes + 1))
        best = np.array(
            [max(values[size] + best[left - size] for size in sizes if size <= left) for left in range(nodes + 1)]
        )
    return float(best[nodes])


steps = st.sampled_from([0.0, 1.0, 2.0, 2.5]) | st.floats(0, 3)


@given(
    st.lists(st.lists(steps, min_size=6, max_size=6), min_size=1, max_size=3),
    st.lists(st.integers(0, 2), min_size=10, max_size=25),
    st.integers(0, 80),
)
def test_of_many_alike_trainers_the_best_sizes_are_those_of_a_plain_programme(
    gains: list[list[float]], rows: list[int], nodes: int
) -> None:
    tables, row = (
        table([list(itertools.accumulate(its)) for its in gains]),
        [number % len(gains) for number in rows],
    )
    sizes = best_sizes(price_out(tables, nodes, np.array(row)), nodes)
    assert sizes.sum() <= nodes
    assert tables[row, sizes].sum() == pytest.approx(plain_best(tables, row, nodes))


@given(cases)
def test_pricing_bounds_every_allocation_and_leaves_what_can_be_better(
    case: tuple[list[list[float]], int],
) -> None:
    tables, nodes = table(case[0]), case[1]
    priced = price_out(tables, nodes)
    assert priced.sizes.sum() <= nodes
    assert all(priced.worthwhile[row, size] for row, size in enumerate(priced.sizes))
    for worth, chosen in allocations(tables, nodes):
        assert worth <= priced.bound + 1e-6
        if worth > priced.value + 1e-6:
            assert all(priced.worthwhile[row, size] for row, size in enumerate(chosen))


def test_where_there_is_enough_for_all_nothing_is_left_to_solve() -> None:
    priced = price_out(table([[1.0, 3.0], [2.0, 1.0]]), 9)
    assert priced.proven
    assert priced.sizes.tolist() == best_sizes(priced, 9).tolist() == [2, 1]
    assert priced.bound == 5.0


def test_sizes_that_the_nodes_do_not_suffice_for_are_left_out() -> None:
    priced = price_out(table([[-inf, -inf, 9.0]]), 2)
    assert priced.values.shape == (1, 3)
    assert best_sizes(priced, 2).tolist() == [0]
