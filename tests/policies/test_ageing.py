"""Nobody who can run waits for ever: bounded waiting, of policies that weigh sizes by a value of their own."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer, past_of_samples
from freetrain.policies import VARIANTS, Policy, find_policy
from tests.seeds import seeds

HOUR_S, STEP_S = 3600.0, 1200.0
AGEING = tuple(name for name in VARIANTS if name.partition(",")[0] in ("gadget", "smd"))


def patient(policy: str, hours: int) -> Policy:
    return find_policy(f"{policy},patience={hours}h")


def random_trainer(draw: random.Random, name: str, now_s: float, nodes: int) -> Trainer:
    """One of minutes or of weeks, or without an end, as wide as the machine at most."""
    power, least = draw.uniform(0.5, 1.0), draw.choice((1, 1, 1, 2, nodes))
    curve = tuple((count, 100.0 * count**power) for count in (1, 2, 4, 8, 16))
    target = draw.choice((None, 100.0 * draw.choice((600.0, 6 * HOUR_S, 1000 * HOUR_S))))
    weight = draw.choice((0.1, 1.0, 1.0, 10.0))
    return Trainer(name, curve, least, target_samples=target, submitted_s=now_s, weight=weight)


def longest_waits(policy: Policy, seed: int, hours: int = 200) -> dict[str, float]:
    """Trainer → the longest that it had no node; what completes is replaced by other work at once."""
    draw = random.Random(seed)
    nodes, count = draw.randint(2, 8), draw.randint(3, 7)
    here = {f"t{number}": random_trainer(draw, f"t{number}", 0.0, nodes) for number in range(count)}
    done: dict[str, float] = {}
    held: dict[str, int] = {}
    waits, longest = defaultdict[str, float](float), defaultdict[str, float](float)
    now_s = 0.0
    while now_s < hours * HOUR_S:
        holders = [name for name, size in held.items() for _ in range(size)]
        offers = [Place(f"n{number}", None, holder) for number, holder in enumerate(holders)]
        offers += [Place(f"n{number}") for number in range(len(holders), nodes)]
        problem = Problem(
            now_s,
            tuple(offers),
            tuple(here.values()),
            STEP_S,
            past=past_of_samples(done),
        )
        sizes = policy.decide(problem).counts.sum(axis=1).tolist()
        now_s += STEP_S
        held = {}
        for trainer, size in zip(problem.trainers, sizes, strict=True):
            waits[trainer.id] = 0.0 if size else waits[trainer.id] + STEP_S
            longest[trainer.id] = max(longest[trainer.id], waits[trainer.id])
            done[trainer.id] = done.get(trainer.id, 0.0) + trainer.rate(size) * STEP_S
            if done[trainer.id] >= (trainer.target_samples or float("inf")):
                del here[trainer.id], done[trainer.id]
                name = f"t{len(longest)}-{now_s:.0f}"
                here[name] = random_trainer(draw, name, now_s, nodes)
            elif size:
                held[trainer.id] = size
    return dict(longest)


@pytest.mark.parametrize("seed", seeds(1, 8))
@pytest.mark.parametrize("policy", AGEING)
def test_nobody_who_can_run_waits_for_ever(policy: str, seed: int) -> None:
    """Overdue after a patience, its turn within two more, and seldom a later one as another's began meanwhile."""
    assert max(longest_waits(patient(policy, 8), seed).values()) <= 6 * 8 * HOUR_S


def test_without_patience_as_in_the_papers_somebody_does() -> None:
    assert max(max(longest_waits(patient("smd", 0), seed).values()) for seed in range(3)) >= 180 * HOUR_S


@pytest.mark.parametrize("policy", AGEING)
def test_a_long_training_has_its_turn_though_shorter_work_always_comes(policy: str) -> None:
    """Thirty days of work on all nodes, and two others that are always replaced by work of some hours."""
    curve = tuple((count, 100.0 * count**0.9) for count in (1, 2, 4, 8, 16))
    long = Trainer("long", curve, target_samples=3.6e9, submitted_s=0.0)
    short = tuple(Trainer(f"{name}", curve, target_samples=1e7, submitted_s=86300.0) for name in ("b", "c"))
    nodes = tuple(Place(f"n{number}") for number in range(16))
    early = Problem(86300.0, nodes, (long, *short), 1200.0)
    assert find_policy(policy).decide(replace(early, now_s=86500.0)).counts[0].sum() >= 1
    assert find_policy("smd").decide(early).counts[0].sum() == 0


def test_turns_follow_each_other_and_change_no_more_often_than_there_are_trainings() -> None:
    curve = ((1, 100.0), (2, 180.0))
    trainers = tuple(Trainer(name, curve, target_samples=1e9, submitted_s=0.0, min_nodes=2) for name in "abc")
    holders = []
    for step in range(48):
        problem = Problem(2e5 + 600.0 * step, (Place("n0"), Place("n1")), trainers, 600.0)
        allocation = patient("smd", 2).decide(problem)
        holders += [
            trainer.id for trainer, size in zip(trainers, allocation.counts.sum(axis=1), strict=True) if size
        ]
        assert allocation.notes[0].startswith(f"It is the turn of {holders[-1]}, to which 2-")
    assert set(holders) == {"a", "b", "c"}
    changes = sum(before != after for before, after in pairwise(holders))
    assert 3 < changes <= 3 * 5  # eight hours are four rounds and a part of a fifth


def test_a_size_that_stays_is_not_taken_for_anybodys_turn() -> None:
    curve = ((1, 100.0), (2, 180.0))
    task = Trainer("task", curve, moldable=True, submitted_s=0.0)
    long = Trainer("long", curve, target_samples=1e9, submitted_s=0.0)
    problem = Problem(1e6, (Place("n0", None, "task"), Place("n1", None, "task")), (task, long), 600.0)
    for policy in AGEING:
        assert find_policy(policy).decide(problem).counts.sum(axis=1).tolist() == [2, 0]
