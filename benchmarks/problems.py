"""Random decision problems, for the benchmarks and the tests; the same arguments give the same problem."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.throughput import Curve
from freetrain.core.trainer import KindChoice, Trainer, past_of_samples
from freetrain.replay.trainers import CURVES

NOW_S = 1_700_000_000.0


def random_problem(
    seed: int,
    trainers: int,
    nodes: int,
    *,
    horizon_s: float = 120.0,
    objective: str = "throughput",
    free_share: float = 0.3,
    curves: Mapping[str, Curve] = CURVES,
) -> Problem:
    """A problem of any size: the curves in turn, each node free or with a random trainer that has room.

    Args:
        seed: which problem of this kind.
        trainers: how many there are; each takes 1 to 64 nodes, growing costs 18 s and shrinking 12 s.
        nodes: how many there are.
        horizon_s: how far ahead value is counted.
        objective: what is maximised.
        free_share: probability that nobody holds a node.
        curves: model → throughput points.
    """
    draw = random.Random(seed)
    models = list(curves)
    jobs = tuple(
        Trainer(f"{models[number % len(models)]}-{number}", curves[models[number % len(models)]], max_nodes=64)
        for number in range(trainers)
    )
    room = {job.id: job.most_nodes for job in jobs}
    lent = (_random_holder(draw, free_share, room) for _ in range(nodes))
    return Problem(
        NOW_S,
        tuple(Place(f"n{number:05}", holder=holder) for number, holder in enumerate(lent)),
        jobs,
        horizon_s,
        objective,
    )


def _random_holder(draw: random.Random, free_share: float, room: dict[str, int]) -> str | None:
    if draw.random() < free_share or not room:
        return None
    holder = draw.choice(list(room))
    room[holder] -= 1
    if room[holder] <= 0:
        del room[holder]
    return holder


def problem_with_ends(
    seed: int,
    trainers: int,
    nodes: int,
    ends: int,
    costs: tuple[float, float, float, float],
    *,
    horizon_s: float = 600.0,
    boot_s: float = 0.0,
) -> Problem:
    """A random problem whose nodes are due back at different times.

    Args:
        seed: which problem of this kind.
        trainers: how many there are.
        nodes: how many there are.
        ends: how many times there are at which nodes are due back; one of them is after the horizon.
        costs: seconds for growing, shrinking, an eviction and a start.
        horizon_s: how far ahead value is counted.
        boot_s: that a new node needs before it trains.
    """
    draw = random.Random(seed + 1000)
    problem = random_problem(seed, trainers, nodes, horizon_s=horizon_s)
    within = (NOW_S + horizon_s * draw.uniform(0.05, 0.95) for _ in range(ends - 1))
    due_s = [*within, None]
    up_s, down_s, eviction_s, start_s = costs
    return replace(
        problem,
        nodes=tuple(replace(node, until_s=draw.choice(due_s)) for node in problem.nodes),
        trainers=tuple(
            replace(
                trainer,
                scale_up_s=up_s,
                scale_down_s=down_s,
                forced_loss_s=eviction_s,
                start_s=start_s,
                boot_s=boot_s,
            )
            for trainer in problem.trainers
        ),
    )


def mixed_problem(seed: int, *, lives: bool = False) -> Problem:
    """A small problem out of corner cases: few nodes, odd minima and maxima, curves of any shape.

    Args:
        seed: which problem of this kind.
        lives: give the nodes up to four times at which they are due back, some of them already past.
    """
    draw = random.Random(seed)
    horizon_s = draw.choice((10.0, 15.0, 60.0, 120.0, 300.0, 600.0))
    jobs = tuple(_mixed_trainer(draw, f"t{number}") for number in range(draw.randint(1, 6)))
    count = draw.randint(0, 14)
    ends = _mixed_ends(draw, horizon_s) if lives else [None]
    holders = _mixed_holders(draw, jobs, count)
    nodes = tuple(Place(f"n{number}", draw.choice(ends), holder) for number, holder in enumerate(holders))
    return Problem(NOW_S, nodes, jobs, horizon_s, draw.choice(("throughput", "speedup", "weighted")))


def with_boots(problem: Problem, seed: int) -> Problem:
    """The same problem; two of three trainers' new nodes must boot, some for longer than there are nodes."""
    draw = random.Random(seed + 2000)
    horizon_s = problem.horizon_s
    boots_s = (
        draw.choice((0.0, draw.uniform(0.0, horizon_s), horizon_s * draw.randint(1, 120) / 100))
        for _ in problem.trainers
    )
    trainers = zip(problem.trainers, boots_s, strict=True)
    return replace(problem, trainers=tuple(replace(one, boot_s=boot_s) for one, boot_s in trainers))


def with_watts(problem: Problem, seed: int) -> Problem:
    """The same problem; its nodes take up to three different powers, and that counts, little or much."""
    draw = random.Random(seed + 4000)
    watts = [draw.uniform(100, 3000) for _ in range(draw.randint(1, 3))]
    nodes = tuple(node.having(watts=draw.choice(watts)) for node in problem.nodes)
    # As much as a node trains by itself in a while, per kWh.
    unit = 100.0 if problem.objective == "throughput" else 1.0
    energy = unit * draw.choice((300.0, 1800.0, 3600.0, 20000.0))
    return replace(problem, nodes=nodes, objective=f"{problem.objective},energy={energy}")


def with_deadlines(problem: Problem, seed: int) -> Problem:
    """The same problem; most trainers have a deadline: early, late, out of reach or past."""
    draw = random.Random(seed + 5000)
    trainers, done = [], {}
    for one in problem.trainers:
        target = draw.uniform(1e3, 1e6)
        usual_s = target / max(float(one.samples_per_s.max()), 1e-9)
        due_s = problem.now_s + usual_s * draw.choice((-1.0, 0.5, 0.95, 1.05, draw.uniform(1, 4), 100.0))
        trainers.append(replace(one, target_samples=target, deadline_s=due_s if draw.random() < 0.8 else None))
        if draw.random() < 0.5:
            done[one.id] = target * draw.uniform(0, 1.1)
    objective = f"{problem.objective},deadlines={draw.choice((0.5, 3.0, 50.0))}"
    return replace(
        problem,
        trainers=tuple(trainers),
        past=past_of_samples(done),
        objective=objective,
    )


def with_kinds(problem: Problem, seed: int, kinds: int = 3, *, orderly: bool = False) -> Problem:
    """The same problem; its nodes are of different kinds, which trainers may use, and mix, or not.

    Args:
        problem: without kinds.
        seed: which problem of this kind.
        kinds: how many kinds there are.
        orderly: all nodes of a trainer are such that it may have them together.
    """
    draw = random.Random(seed + 3000)
    names = [f"k{number}" for number in range(kinds)]
    trainers = tuple(replace(one, choices=_some_choices(draw, names)) for one in problem.trainers)
    at_home = {one.id: _some_home(draw, one, names) for one in trainers}
    astray = 0.0 if orderly else draw.choice((0.0, 0.0, 0.3))
    nodes = tuple(
        node.having(kind=draw.choice(names if draw.random() < astray else at_home.get(node.holder or "", names)))
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes, trainers=trainers)


def _some_choices(draw: random.Random, names: list[str]) -> tuple[KindChoice, ...] | None:
    """Any kind; or some of them, two together here and there, at different speeds."""
    if draw.random() < 0.25:
        return None
    some = draw.sample(names, draw.randint(1, len(names)))
    choices = []
    while some:
        together = 2 if draw.random() < 0.3 else 1
        choices.append(KindChoice(tuple(some[:together]), draw.choice((1.0, 1.0, draw.uniform(0.3, 3)))))
        some = some[together:]
    return tuple(choices)


def _some_home(draw: random.Random, trainer: Trainer, names: list[str]) -> list[str]:
    """Kinds of nodes that it may have together."""
    return [draw.choice(names)] if trainer.choices is None else list(draw.choice(trainer.choices).kinds)


def _mixed_trainer(draw: random.Random, name: str) -> Trainer:
    curve = _mixed_curve(draw)
    min_nodes = draw.choice((1, 1, 1, 2, 2, 3, 4, 6))
    # Up to a curve's first positive point a trainer with a small maximum would never get on.
    useful = next(nodes for nodes, rate in curve if rate > 0)
    fewest = max(min_nodes, useful)
    max_nodes = draw.choice((None, fewest, fewest + draw.randint(0, 6), curve[-1][0] + draw.randint(0, 5)))
    return Trainer(
        name,
        curve,
        min_nodes,
        None if max_nodes is None else max(fewest, max_nodes),
        scale_up_s=draw.choice((0.0, 0.5, 18.0, draw.uniform(0, 60))),
        scale_down_s=draw.choice((0.0, 0.5, 12.0, draw.uniform(0, 60))),
        forced_loss_s=draw.choice((None, 0.0, draw.uniform(0, 60))),
        start_s=draw.choice((0.0, 0.0, draw.uniform(0, 60))),
        weight=draw.choice((1.0, 1.0, draw.uniform(0.1, 5))),
    )


def _mixed_curve(draw: random.Random) -> Curve:
    sizes = sorted(draw.sample(range(1, draw.choice((6, 9, 17))), draw.randint(1, 5)))
    if draw.random() < 0.6:
        sizes[0] = 1
    # Sizes raised to a random power: concave, convex, or (by the noise) falling in places.
    power = draw.uniform(0.3, 1.6)
    rates = [100 * size**power * draw.uniform(0.6, 1.3) for size in sizes]
    if len(rates) > 1 and draw.random() < 0.1:
        rates[draw.randrange(len(rates) - 1)] = 0.0
    origin = ((0, 0.0),) if draw.random() < 0.2 else ()
    return (*origin, *zip(sizes, rates, strict=True))


def _mixed_holders(draw: random.Random, jobs: tuple[Trainer, ...], count: int) -> list[str | None]:
    free_share = draw.choice((0.0, 0.2, 0.5, 0.9, 1.0))
    over_full = draw.random() < 0.05
    room = {
        job.id: count if over_full else job.most_nodes for job in draw.sample(jobs, draw.randint(1, len(jobs)))
    }
    return [_random_holder(draw, free_share, room) for _ in range(count)]


def _mixed_ends(draw: random.Random, horizon_s: float) -> list[float | None]:
    def one_end() -> float:
        kind = draw.random()
        if kind < 0.1:
            return NOW_S - draw.choice((0, 5, 1000))
        if kind < 0.25:
            return NOW_S + horizon_s * draw.choice((1.0, 1.5, 10.0))
        return NOW_S + horizon_s * draw.randint(1, 99) / 100

    ends: list[float | None] = [one_end() for _ in range(draw.randint(1, 4))]
    return ends if draw.random() < 0.4 else [*ends, None]
