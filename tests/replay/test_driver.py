"""Replays small enough to be reckoned by hand."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from freetrain.core.decision import Decision
from freetrain.core.holes import Holes, sorted_holes
from freetrain.core.power import PowerDraw
from freetrain.core.problem import Problem
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.core.verify import verify
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.course import Costs, ReplayRecord, ReplaySetup
from freetrain.replay.driver import Replay
from freetrain.replay.foresight import Foresight, Knowledge
from freetrain.replay.outcome import outcome_of
from freetrain.replay.study import study
from freetrain.replay.trainer_run import Loss
from freetrain.replay.trainers import PRESETS
from freetrain.replay.yardsticks import train_dedicated
from tests.policies.deciding import decide

CURVE = ((1, 10.0), (2, 20.0), (4, 40.0))


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.decisions: list[tuple[Problem, Decision]] = []

    def next_decision(self) -> str:
        return ""

    def record(self, problem: Problem, decision: Decision) -> None:
        self.decisions.append((problem, decision))


def holes(*rows: tuple[int, float, float], until_s: float = 1000.0) -> Holes:
    node, start_s, end_s = (np.array([row[column] for row in rows], dtype=float) for column in range(3))
    return sorted_holes(("n0", "n1", "n2", "n3"), node.astype(np.int32), start_s, end_s, 0.0, until_s)


def replay(
    idle: Holes,
    trainers: Iterable[Trainer],
    max_running: int = 10,
    policy: str = "freetrain",
    horizon_s: float = 120.0,
    knows: Knowledge = Knowledge.NONE,
) -> tuple[ReplayRecord, Kept]:
    kept = Kept()
    goal = Goal.of(find_policy(policy), "throughput")
    foresight = Foresight(horizon_s, knows)
    setup = ReplaySetup(trainers, goal, time.perf_counter, journal=kept)
    return Replay(idle, setup, foresight, max_running).run(), kept


def test_one_trainer_on_one_hole_trains_as_long_as_it_lasts() -> None:
    record, _ = replay(holes((0, 100, 400)), [Trainer("A", CURVE)])
    (run,) = record.runs
    assert run.samples == 300 * 10 - 12 * 10
    assert run.evicted_nodes == 1
    assert run.started_s == 100


def test_a_hole_that_reaches_the_windows_end_evicts_nobody() -> None:
    record, _ = replay(holes((0, 100, 1000)), [Trainer("A", CURVE)])
    assert record.runs[0].samples == 900 * 10
    assert record.runs[0].evicted_nodes == 0


def test_losing_two_nodes_at_once_hurts_once() -> None:
    record, _ = replay(holes((0, 0, 500), (1, 0, 500), (2, 0, 1000)), [Trainer("A", ((1, 10.0), (3, 30.0)))])
    (run,) = record.runs
    assert run.evicted_nodes == 2
    assert run.losses[Loss.EVICTION] == 1
    assert run.samples == 500 * 30 + 500 * 10 - 12 * 30


NEW, OLD = KindChoice(("new",)), KindChoice(("old",), 0.25)
KIND_OF = {"n0": "new", "n1": "old", "n2": "old", "n3": "new"}


def test_trainers_get_nodes_of_their_kinds_and_are_as_fast_as_these_are() -> None:
    idle = replace(holes(*((node, 0, 1000) for node in range(4))), kind_of=KIND_OF)
    picky, other = Trainer("A", CURVE, choices=(NEW,)), Trainer("B", CURVE, choices=(OLD,))
    record, kept = replay(idle, [picky, other])
    assert {run.trainer.id: run.samples for run in record.runs} == {"A": 1000 * 20, "B": 1000 * 20 * 0.25}
    ((_, decision),) = kept.decisions
    assert {trainer: set(names) for trainer, names in decision.placement.items()} == {
        "A": {"n0", "n3"},
        "B": {"n1", "n2"},
    }


@pytest.mark.parametrize("kind_of", [{}, dict.fromkeys(KIND_OF, "old")], ids=["no kinds", "another kind"])
def test_who_names_kinds_gets_no_node_of_another(kind_of: dict[str, str]) -> None:
    idle = replace(holes(*((node, 0, 1000) for node in range(4))), kind_of=kind_of)
    record, _ = replay(idle, [Trainer("A", CURVE, choices=(NEW,))])
    assert record.runs[0].samples == 0


def test_while_no_trainer_tells_kinds_of_nodes_apart_there_are_none() -> None:
    idle = replace(holes(*((node, 0, 1000) for node in range(4))), kind_of=KIND_OF)
    record, kept = replay(idle, [Trainer("A", CURVE)])
    assert record.runs[0].samples == 1000 * 40
    assert all(problem.choices.is_free for problem, _ in kept.decisions)


DEAR = Trainer("A", CURVE, scale_down_s=12.0, forced_loss_s=200.0, start_s=60.0)


def test_who_sees_an_end_gives_back_in_good_order() -> None:
    unseen, _ = replay(holes((0, 0, 500)), [DEAR], horizon_s=600.0)
    seen, _ = replay(holes((0, 0, 500)), [DEAR], horizon_s=600.0, knows=Knowledge.PERFECT)
    assert unseen.runs[0].samples == (500 - 60 - 200) * 10
    assert seen.runs[0].samples == (500 - 60 - 12) * 10


def test_who_sees_ends_starts_nothing_that_a_hole_is_too_short_for() -> None:
    rows = (0, 0, 70), (1, 100, 1000)
    unseen, _ = replay(holes(*rows), [DEAR], horizon_s=600.0)
    seen, _ = replay(holes(*rows), [DEAR], horizon_s=600.0, knows=Knowledge.PERFECT)
    assert unseen.runs[0].losses[Loss.START] == 2
    assert seen.runs[0].losses[Loss.START] == 1
    assert seen.runs[0].samples == (900 - 60) * 10


def test_who_learns_looks_further_ahead_when_the_nodes_have_been_idle_for_long() -> None:
    """Many holes are short; one that has lasted for a while mostly lasts much longer."""
    short = [(node, 200.0 * number, 200.0 * number + 90) for node in (0, 1, 2) for number in range(40)]
    _, kept = replay(
        holes(*short, (3, 100.0, 9000.0), until_s=9000.0), [DEAR], horizon_s=0.0, knows=Knowledge.LEARNED
    )
    last = kept.decisions[-1][0]
    alone = [problem.horizon_s for problem, _ in kept.decisions if len(problem.nodes) == 1]
    beside = [problem.horizon_s for problem, _ in kept.decisions if len(problem.nodes) == 4]
    assert last.now_s > 7000.0
    assert alone[-1] > 1.5 * beside[-1]


def test_who_learns_that_sizes_change_often_grows_less_often_for_nodes_that_leave_soon() -> None:
    """One node stays; each of the others leaves 50 s later, which growing and losing it cost more than."""
    short = [(1, 100.0 * number, 100.0 * number + 50) for number in range(90)]
    rows = holes((0, 0.0, 9000.0), *short, until_s=9000.0)
    dear = Trainer("A", CURVE, scale_up_s=90.0, scale_down_s=12.0, forced_loss_s=30.0)
    (looks_far, kept), (learns, learned) = (
        replay(rows, [dear], horizon_s=horizon_s, knows=Knowledge.LEARNED) for horizon_s in (600.0, 0.0)
    )
    assert {problem.changes for problem, _ in kept.decisions} == {1.0}
    assert max(problem.changes for problem, _ in learned.decisions) > 3
    assert learns.runs[0].losses[Loss.SCALE_UP] < looks_far.runs[0].losses[Loss.SCALE_UP]
    assert learns.runs[0].samples > looks_far.runs[0].samples


def test_what_is_learned_never_comes_from_what_the_log_says_later() -> None:
    past = [(node, 100.0 * number + 40 * node, 100.0 * number + 90) for node in (0, 1) for number in range(5)]
    ends_soon, ends_late = ((*past, (2, 300.0, end_s), (3, 350.0, end_s)) for end_s in (700.0, 990.0))
    (_, first), (_, second) = (
        replay(holes(*rows), [DEAR], horizon_s=0.0, knows=Knowledge.LEARNED) for rows in (ends_soon, ends_late)
    )
    before = [[problem for problem, _ in kept.decisions if problem.now_s < 700.0] for kept in (first, second)]
    assert before[0] == before[1]
    assert len(before[0]) > 5


def test_a_replay_says_how_good_forecasts_were_whether_they_were_used_or_not() -> None:
    for knows in Knowledge:
        record, _ = replay(random_holes(5), PRESETS["mix"], 3, horizon_s=0.0, knows=knows)
        assert record.forecast.calibration
        assert sum(error.forecasts for error in record.forecast.learned) > 0
        assert record.forecast.planned == (), "the log tells of no jobs"


def test_growing_costs_seconds_at_the_old_rate() -> None:
    record, _ = replay(holes((0, 0, 1000), (1, 500, 1000)), [Trainer("A", CURVE, scale_up_s=18)])
    assert record.runs[0].samples == 500 * 10 + 500 * 20 - 18 * 10
    assert record.runs[0].lost_s[Loss.SCALE_UP] == 18


def test_a_trainer_completes_at_its_exact_time_and_its_node_goes_to_the_next() -> None:
    trainers = [Trainer("A", CURVE, max_nodes=1, target_samples=1005.0), Trainer("B", CURVE, max_nodes=1)]
    record, kept = replay(holes((0, 0, 1000)), trainers, max_running=1)
    first, second = record.runs
    assert first.completed_s == pytest.approx(100.5)
    assert first.samples == 1005.0
    assert second.samples == pytest.approx((1000 - 100.5) * 10)
    assert [problem.now_s for problem, _ in kept.decisions] == pytest.approx([0.0, 100.5])


def test_a_trainer_that_arrives_gets_nodes_at_once() -> None:
    record, kept = replay(
        holes((0, 0, 1000), (1, 0, 1000)),
        [Trainer("A", ((1, 10.0),)), Trainer("B", ((1, 10.0),), submitted_s=250.0)],
    )
    assert record.runs[1].started_s == 250.0
    assert [problem.now_s for problem, _ in kept.decisions] == [0.0, 250.0]


def test_places_are_given_first_come_first_served() -> None:
    trainers = [Trainer(name, ((1, 10.0),), target_samples=1000.0) for name in "ABCD"]
    record, _ = replay(holes((0, 0, 1000)), trainers, max_running=2)
    assert [run.trainer.id for run in record.runs] == ["A", "B", "C", "D"]
    completed = [run.completed_s for run in record.runs]
    assert completed == [100.0, 200.0, 300.0, 400.0]


def test_a_trainer_that_cannot_run_takes_nobodys_place() -> None:
    trainers = [Trainer("large", ((8, 80.0),), min_nodes=8), Trainer("small", ((1, 10.0),))]
    record, _ = replay(holes((0, 0, 1000)), trainers, max_running=1)
    assert [(run.trainer.id, run.samples) for run in record.runs] == [("large", 0.0), ("small", 10000.0)]
    assert outcome_of(record, train_dedicated(trainers, 1.0, 0, 1000, 1, "throughput")).u_oracle == pytest.approx(
        1.0
    )


def test_who_came_first_competes_again_when_there_are_nodes_for_it() -> None:
    first = Trainer("first", ((2, 20.0),), min_nodes=2, scale_down_s=3.0)
    second = Trainer("second", ((1, 10.0),), scale_down_s=3.0)
    record, kept = replay(holes((0, 0, 1000), (1, 500, 1000)), [first, second], max_running=1)
    assert [(run.trainer.id, run.samples) for run in record.runs] == [("first", 10000.0), ("second", 4970.0)]
    assert [[trainer.id for trainer in problem.trainers] for problem, _ in kept.decisions] == [
        ["second"],
        ["first"],
    ]


def test_on_a_dedicated_machine_who_cannot_run_takes_nobodys_place_either() -> None:
    trainers = [Trainer("large", ((8, 80.0),), min_nodes=8), Trainer("small", ((1, 10.0),))]
    assert train_dedicated(trainers, 1.0, 0, 100, 1, "throughput").samples == pytest.approx(1000.0)


def test_what_happens_at_one_instant_is_one_decision() -> None:
    _, kept = replay(holes((0, 0, 500), (1, 500, 1000)), [Trainer("A", CURVE)])
    assert [problem.now_s for problem, _ in kept.decisions] == [0.0, 500.0]


def test_nothing_to_train_is_an_outcome_too() -> None:
    record, kept = replay(holes((0, 0, 500)), [])
    outcome = outcome_of(record, train_dedicated([], record.holes.mean_idle_nodes, 0, 1000, 10, "throughput"))
    assert kept.decisions == []
    assert outcome.samples == 0
    assert outcome.u_dedicated is None


def random_holes(seed: int) -> Holes:
    random = np.random.default_rng(seed)
    rows = []
    for node in range(4):
        edges = np.cumsum(random.exponential(200, 40))
        rows += [(node, float(start), float(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
    return holes(*rows, until_s=6000.0)


@pytest.mark.parametrize("policy", ["freetrain", "equal-share", "greedy"])
def test_every_decision_of_a_replay_verifies_and_the_books_balance(policy: str) -> None:
    idle = random_holes(1)
    trainers = [Trainer(f"T{number}", CURVE, target_samples=4000.0, start_s=5.0) for number in range(40)]
    record, kept = replay(idle, trainers, 3, policy)
    outcome = outcome_of(record, train_dedicated(trainers, idle.mean_idle_nodes, 0, 6000, 3, "throughput"))
    assert kept.decisions
    assert all(verify(problem, decision) == () for problem, decision in kept.decisions)
    assert outcome.useful_node_hours <= outcome.lent_node_hours <= outcome.idle_node_hours + 1e-9
    assert outcome.u_oracle is not None
    assert 0 < outcome.u_oracle <= 1 + 1e-9
    assert outcome.decisions == sum(outcome.statuses.values()) == len(kept.decisions)


def test_a_replay_gives_the_same_twice() -> None:
    first, second = (replay(random_holes(2), PRESETS["mix"], 5)[0] for _ in range(2))
    assert [run.samples for run in first.runs] == [run.samples for run in second.runs]


def test_highs_agrees_with_the_dynamic_programme_on_every_decision_of_a_replay() -> None:
    trainers = [Trainer(f"T{number}", CURVE, target_samples=9000.0) for number in range(6)]
    _, kept = replay(random_holes(3), trainers, 3)
    assert len(kept.decisions) > 20
    for problem, decision in kept.decisions:
        again = decide(find_policy("freetrain", "highs"), problem)
        assert again.objective == pytest.approx(decision.objective, rel=1e-9)


def test_without_costs_a_replay_reaches_the_best_division() -> None:
    goal = Goal.of(find_policy("freetrain"), "throughput")
    free = Costs(scale_up_s=0, scale_down_s=0, forced_loss_s=0, start_s=0)
    done = study(random_holes(4), ReplaySetup(PRESETS["hpo"], goal, time.perf_counter, free), Foresight(120.0), 3)
    assert done.outcome.u_oracle == pytest.approx(1.0)


def test_a_new_node_trains_when_it_has_booted_and_who_is_shorter_lived_is_left() -> None:
    trainer = Trainer("A", CURVE, scale_up_s=0.0, scale_down_s=0.0, boot_s=40.0)
    record, kept = replay(holes((0, 100, 400), (1, 200, 230)), [trainer], knows=Knowledge.PERFECT)
    (run,) = record.runs
    assert run.samples == (300 - 40) * 10
    assert run.evicted_nodes == 1
    assert run.node_s == 300.0
    assert all(set(decision.placement.get("A", ())) <= {"n0"} for _, decision in kept.decisions)
    outcome = outcome_of(record, train_dedicated([trainer], 1.0, 0, 1000, 1, "throughput"))
    assert outcome.useful_node_hours * 3600 == pytest.approx(260.0)


def test_the_books_balance_where_nodes_boot() -> None:
    idle = random_holes(1)
    trainers = [Trainer(f"T{number}", CURVE, target_samples=4000.0, boot_s=25.0) for number in range(40)]
    record, kept = replay(idle, trainers, 3)
    outcome = outcome_of(record, train_dedicated(trainers, idle.mean_idle_nodes, 0, 6000, 3, "throughput"))
    assert all(verify(problem, decision) == () for problem, decision in kept.decisions)
    assert outcome.useful_node_hours < outcome.lent_node_hours <= outcome.idle_node_hours + 1e-9
    assert sum(run.booting_node_s for run in record.runs) > 0


def test_a_dedicated_machine_shares_fractions_of_nodes() -> None:
    trainers = [Trainer("A", CURVE), Trainer("B", CURVE)]
    assert train_dedicated(trainers, 2.5, 0, 100, 2, "throughput").samples == pytest.approx(2.5 * 10 * 100)


def test_a_dedicated_machine_takes_the_next_trainer_when_one_completes() -> None:
    trainers = [Trainer(name, ((1, 10.0),), target_samples=500.0) for name in "ABC"]
    record = train_dedicated(trainers, 1.0, 0, 1000, 1, "throughput")
    assert record.samples == pytest.approx(1500.0)
    assert record.at_s == pytest.approx([50.0, 100.0, 150.0])


def test_deadlines_that_lie_in_the_window_and_those_that_were_met_are_counted() -> None:
    due = [
        Trainer(name, CURVE, max_nodes=1, target_samples=samples, deadline_s=deadline_s)
        for name, samples, deadline_s in (("met", 1e3, 200.0), ("missed", 3e3, 200.0), ("later", 3e3, 2000.0))
    ]
    record, _ = replay(holes(*((number, 0, 1000) for number in range(3))), due)
    outcome = outcome_of(record, train_dedicated(due, 3.0, 0, 1000, 10, "throughput"))
    assert (outcome.deadlines, outcome.deadlines_met) == (2, 1)
    assert (outcome.node_hours_of, outcome.lent_watts) == ({}, None)


def test_a_deadline_is_met_that_would_have_been_missed() -> None:
    idle = holes(*((number, 0, 1000) for number in range(4)))
    urgent = Trainer("urgent", CURVE, target_samples=1.8e4, deadline_s=600.0, scale_up_s=0.0)
    other = Trainer("other", ((1, 20.0), (4, 80.0)), scale_up_s=0.0)
    completed = {}
    for objective in ("throughput", "throughput,deadlines=2"):
        goal = Goal.of(find_policy("freetrain"), objective)
        trainers, foresight = [other, urgent], Foresight(120.0, Knowledge.NONE)
        record = Replay(idle, ReplaySetup(trainers, goal, time.perf_counter), foresight, 10).run()
        completed[objective] = record.runs[1].completed_s
    assert completed["throughput"] is None
    assert completed["throughput,deadlines=2"] == pytest.approx(450.0)


def test_what_lent_nodes_take_is_added_up_by_their_kinds() -> None:
    idle = replace(holes((0, 0, 1000), (1, 0, 1000)), kind_of={"n0": "old", "n1": "new", "n2": "new", "n3": "new"})
    owned = [Trainer("A", CURVE, owner="ann", account="vision")]
    for objective, nodes, watts in (("throughput", 2, 1500.0), ("throughput,energy=2e4", 1, 1000.0)):
        goal = Goal.of(find_policy("freetrain"), objective)
        draw = PowerDraw(1000.0, {"old": 2000.0})
        foresight = Foresight(120.0, Knowledge.NONE)
        record = Replay(idle, ReplaySetup(owned, goal, time.perf_counter), foresight, 10, draw=draw).run()
        outcome = outcome_of(record, train_dedicated(owned, 2.0, 0, 1000, 10, "throughput"))
        assert outcome.lent_watts == pytest.approx(watts)
        assert outcome.node_hours_of == {"vision/ann": pytest.approx(nodes * 1000 / 3600)}
