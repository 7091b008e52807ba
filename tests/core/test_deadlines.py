"""Deadlines: what they ask for, and that they gain no more than that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.problems import mixed_problem, with_deadlines, with_kinds
from freetrain.core.aim import read_aim, without
from freetrain.core.deadlines import DeadlineRate, Outlook, deadline_rate_of, deadline_rates_of, nodes_needed
from freetrain.core.problem import Problem
from freetrain.core.terms import terms_of
from freetrain.core.trainer import KindChoice, Trainer

NOW_S = 1_000_000.0
HOUR_S = 3600.0
LINEAR = Trainer("t", tuple((nodes, 10.0 * nodes) for nodes in (1, 8)), target_samples=36_000.0)


def due_in(seconds: float, trainer: Trainer = LINEAR) -> Trainer:
    return replace(trainer, deadline_s=NOW_S + seconds)


seeds = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("trainer", "done", "outlook"),
    [
        (LINEAR, 0.0, Outlook.NONE),
        (due_in(HOUR_S, replace(LINEAR, target_samples=None)), 0.0, Outlook.NONE),
        (due_in(HOUR_S, replace(LINEAR, min_nodes=9)), 0.0, Outlook.NONE),
        (due_in(HOUR_S), 36_000.0, Outlook.DONE),
        (due_in(0.0), 0.0, Outlook.PASSED),
        (due_in(449.0), 0.0, Outlook.OUT_OF_REACH),
        (due_in(450.0), 0.0, Outlook.OPEN),
    ],
)
def test_how_it_stands_with_a_deadline(trainer: Trainer, done: float, outlook: Outlook) -> None:
    rate = deadline_rate_of(trainer, done, NOW_S)
    assert rate.outlook is outlook
    assert (rate.samples_per_s > 0) == (outlook is Outlook.OPEN)


def test_half_of_the_time_that_is_left_is_spare_as_far_as_the_trainer_is_fast_enough() -> None:
    assert deadline_rate_of(due_in(HOUR_S), 0.0, NOW_S) == DeadlineRate(Outlook.OPEN, pytest.approx(20.0))
    assert deadline_rate_of(due_in(450.0), 0.0, NOW_S) == DeadlineRate(Outlook.OPEN, 80.0)


def test_who_is_ahead_needs_fewer_nodes() -> None:
    trainer = due_in(HOUR_S)
    needed = [
        nodes_needed(trainer, deadline_rate_of(trainer, done, NOW_S).samples_per_s) for done in (0.0, 2e4, 35e3)
    ]
    assert needed == [2, 1, 1]
    assert nodes_needed(trainer, 80.1) == 0
    assert nodes_needed(replace(trainer, min_nodes=4), 5.0) == 4


def test_the_fastest_kind_of_nodes_counts_and_slower_ones_need_more_of_them() -> None:
    choices = (KindChoice(("a100",), 2.0), KindChoice(("v100",), 0.5))
    trainer = due_in(450.0, replace(LINEAR, choices=choices, target_samples=72_000.0))
    rate = deadline_rate_of(trainer, 0.0, NOW_S)
    assert rate == DeadlineRate(Outlook.OPEN, 160.0)
    assert [nodes_needed(trainer, rate.samples_per_s, speed) for speed in (2.0, 0.5)] == [8, 0]


@given(st.floats(1.0, 1e6), st.floats(0.0, 1e6), st.floats(-1e4, 1e6))
def test_on_the_nodes_that_it_needs_a_trainer_is_in_time(target: float, done: float, left_s: float) -> None:
    trainer = due_in(left_s, replace(LINEAR, target_samples=target))
    rate = deadline_rate_of(trainer, done, NOW_S)
    nodes = nodes_needed(trainer, rate.samples_per_s)
    assert (nodes > 0) == (rate.outlook is Outlook.OPEN)
    if nodes:
        assert trainer.rate(nodes) * left_s >= (target - done) * (1 - 1e-6)


@given(seeds)
def test_what_a_deadline_gains_is_bounded_and_its_trainers_alone(seed: int) -> None:
    problem = with_deadlines(mixed_problem(seed), seed)
    plain = terms_of(problem.trainers, without(problem.objective, "deadlines"))
    factor = read_aim(problem.objective).deadlines
    for row, trainer in enumerate(problem.trainers):
        more = problem.terms.worth[row] - plain.worth[row]
        rate = deadline_rate_of(trainer, problem.done_samples.get(trainer.id, 0.0), problem.now_s)
        needed = nodes_needed(trainer, rate.samples_per_s)
        assert (more >= -1e-9).all()
        assert (more <= factor * plain.worth[row].max() + 1e-6).all()
        if rate.outlook is Outlook.OPEN:
            assert more[needed] == pytest.approx(factor * plain.worth[row, needed])
            assert more[needed:] == pytest.approx(more[needed]), "what it does not need gains nothing"
        else:
            assert not more.any(), "a deadline that cannot be met takes nobody's nodes"


@given(seeds)
def test_without_deadlines_in_the_objective_none_counts(seed: int) -> None:
    problem = with_deadlines(with_kinds(mixed_problem(seed), seed), seed)
    plain = replace(problem, objective=without(problem.objective, "deadlines"))
    nobody = tuple(replace(trainer, deadline_s=None) for trainer in plain.trainers)
    other = Problem(plain.now_s, plain.nodes, nobody, plain.horizon_s, plain.objective)
    assert np.array_equal(plain.choices.terms.worth, other.choices.terms.worth)
    assert plain.terms.worth is terms_of(plain.trainers, plain.objective).worth


def test_trainers_that_are_alike_but_for_their_deadlines_are_not_taken_for_each_other() -> None:
    trainers = (due_in(HOUR_S), replace(due_in(450.0), id="u"), replace(LINEAR, id="v"))
    deadline_rates = deadline_rates_of(trainers, {}, NOW_S, 3.0)
    terms = deadline_rates.on(terms_of(trainers, "speedup"), range(3), np.ones(3))
    assert len(set(terms.kind.tolist())) == 3
    assert terms.worth[0].tolist() == [0.0, 4.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0]
    assert terms.worth[1].tolist() == [4.0 * nodes for nodes in range(9)]
    assert terms.worth[2].tolist() == [float(nodes) for nodes in range(9)]
