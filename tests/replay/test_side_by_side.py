"""All policies and placers on the same holes: what they have in common, and what each is better at."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from freetrain.core.holes import Holes
from freetrain.core.topology import Topology
from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal
from freetrain.policies import VARIANTS, find_placer, find_policy
from freetrain.replay.course import ReplaySetup
from freetrain.replay.foresight import Foresight
from freetrain.replay.outcome import ReplayOutcome
from freetrain.replay.study import study
from freetrain.replay.trainers import CURVES

NODES, PER_LEAF, WINDOW_S = 24, 6, 6 * 3600.0
CURVE = ((1, 100.0), (2, 190.0), (4, 350.0), (8, 600.0))
TRAINERS = [Trainer(f"T{number:02}", CURVE, max_nodes=8, target_samples=1e6) for number in range(30)]


def holes() -> Holes:
    """Of an hour or so each; about half of the nodes are idle at any time."""
    draw, rows = random.Random(7), list[tuple[float, int, float]]()
    for node in range(NODES):
        at_s = draw.uniform(0.0, 3600.0)
        while at_s < WINDOW_S:
            end_s = min(at_s + draw.expovariate(1 / 3600.0) + 60.0, WINDOW_S)
            rows.append((at_s, node, end_s))
            at_s = end_s + draw.expovariate(1 / 3600.0) + 60.0
    start_s, node, end_s = zip(*sorted(rows), strict=True)
    names = tuple(f"n{number:02}" for number in range(NODES))
    return Holes(names, np.array(node, np.int32), np.array(start_s), np.array(end_s), 0.0, WINDOW_S)


def outcome(policy: str, placer: str = "first", at_once: int = 4) -> ReplayOutcome:
    idle = holes()
    leaves = {name: f"leaf{number // PER_LEAF}" for number, name in enumerate(idle.node_names)}
    topology = Topology(leaves, dict.fromkeys(leaves.values(), "top"))
    goal = Goal.of(find_policy(policy), "throughput", find_placer(placer, topology))
    setup = ReplaySetup(TRAINERS, goal, time.perf_counter, topology=topology)
    return study(idle, setup, Foresight(0.0), at_once).outcome


@pytest.fixture(scope="module")
def by_policy() -> dict[str, ReplayOutcome]:
    return {policy: outcome(policy) for policy in VARIANTS}


def test_all_have_the_same_idle_nodes_and_none_lends_more(by_policy: dict[str, ReplayOutcome]) -> None:
    assert len({found.idle_node_hours for found in by_policy.values()}) == 1
    for policy, found in by_policy.items():
        assert 0.5 * found.idle_node_hours < found.lent_node_hours <= found.idle_node_hours + 1e-6, policy
        assert found.trainers_completed > 0, policy
        assert found.completion_mean_s is not None, policy
        assert found.leaf_links is not None, policy


def test_freetrain_does_most_work_or_nearly_so(by_policy: dict[str, ReplayOutcome]) -> None:
    best = max(found.work for found in by_policy.values())
    assert by_policy["freetrain"].work >= 0.97 * best


def test_fair_completion_completes_as_many_as_equal_share_and_costs_no_work() -> None:
    """Work is counted in hours of each training's own on one node; networks scale differently."""
    trainers = [
        Trainer(f"T{number:02}", curve, target_samples=1.5 * 3600 * curve[0][1])
        for number, curve in enumerate(list(CURVES.values()) * 10)
    ]

    def work_and_completed(policy: str, objective: str) -> tuple[float, int]:
        goal = Goal.of(find_policy(policy), objective)
        done = study(holes(), ReplaySetup(trainers, goal, time.perf_counter), Foresight(0.0), 4)
        work_s = sum(run.samples / run.trainer.rate(1) for run in done.record.runs)
        return work_s / 3600, done.outcome.trainers_completed

    default, equal, fair = (
        work_and_completed(*how)
        for how in (("freetrain", "weighted"), ("equal-share", "weighted"), ("freetrain", "fair-completion"))
    )
    assert fair[0] >= 0.98 * default[0]
    assert fair[1] >= equal[1]


def test_placers_that_know_the_switches_have_fewer_links_between_leaves_where_there_is_a_choice() -> None:
    """One trainer of at most eight nodes leaves it. Where every node is lent, placers take what comes."""
    first, ring, dltap = (
        outcome("freetrain", placer, at_once=1).leaf_links for placer in ("first", "ring", "dltap")
    )
    assert first is not None
    assert ring is not None
    assert dltap is not None
    assert ring < 0.9 * first
    assert dltap < 0.9 * first
