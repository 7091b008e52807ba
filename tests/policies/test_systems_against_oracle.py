"""The other systems against plain loops: values by definition, optima by trying all, rules written again."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from itertools import accumulate

import pytest

from benchmarks.experiments.dltap import Host, PlacedTask, TaskKind, Weights, place_tasks
from benchmarks.experiments.smd import RunOption, SizeLimits, choose, fastest, fastest_on_grid
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer, past_of_samples
from freetrain.policies import find_policy
from freetrain.policies.gadget.policy import UTILITIES, Gadget
from freetrain.policies.smd import ServerModel, Smd
from freetrain.policies.synergy import Profile, SharedServer, SharingJob, rate_of, split_optimally, tune
from tests.oracle import systems as oracle

LONG_S = 30.0
FEW = pytest.param(range(30), id="few")
MORE = pytest.param(range(30, 1000), marks=pytest.mark.soak, id="more")
every_seed = pytest.mark.parametrize("seeds", [FEW, MORE])


@every_seed
def test_smds_inner_problem_is_solved_by_the_shortest_step_and_on_a_grid_nearly(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        a, b, c, d, e = (draw.choice((0.0, draw.uniform(0.0005, 0.05))) for _ in range(5))
        model = ServerModel((a, b, 10 * c, d / 10, e / 10), draw.choice((32, 64, 256, 512)))
        worker, server = (tuple(draw.uniform(0.5, 6) for _ in range(3)) for _ in range(2))
        limits = SizeLimits(worker, server, tuple(draw.uniform(1, 80) for _ in range(3)), 20, 20)
        best_s = oracle.shortest_step_s(model, limits)
        found, on_grid = fastest(model, limits), fastest_on_grid(model, limits, 0.05)
        assert (found is None) == (on_grid is None) == (best_s == float("inf")), seed
        if found is not None and on_grid is not None:
            assert limits.allow(*found), seed
            assert float(model.step_s(*found)) == pytest.approx(best_s, rel=1e-12), seed
            assert limits.allow(*on_grid), seed
            assert float(model.step_s(*on_grid)) <= 1.05 * best_s + 1e-12, seed


@every_seed
def test_smds_outer_problem_is_solved_to_the_optimum(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        jobs, ways = draw.choice(((9, 1), (4, 3), (3, 5)))
        options = [
            RunOption(job, draw.uniform(0, 100), tuple(draw.choice((0.0, draw.uniform(1, 9))) for _ in range(3)))
            for job in range(jobs)
            for _ in range(ways)
        ]
        capacity = tuple(draw.uniform(2, 30) for _ in range(3))
        found = choose(options, capacity, LONG_S)
        assert found.why == "", seed
        assert found.value == pytest.approx(oracle.best_options(options, capacity), rel=1e-6, abs=1e-6), seed


def random_profile(draw: random.Random) -> Profile:
    """Faster with CPUs and with memory, in steps of any height, many of them none."""
    cpus = tuple(sorted(draw.sample((0.5, 1.0, 2.0, 3.0, 4.0, 8.0), 4)))
    memory_gb = tuple(sorted(draw.sample((5.0, 10.0, 20.0, 40.0, 80.0), 3)))
    before, rates = tuple([0.1] * 4), []
    for _ in memory_gb:
        steps = accumulate(draw.choice((0.0, 0.0, draw.random())) for _ in cpus)
        before = tuple(rate + step for rate, step in zip(before, steps, strict=True))
        rates.append(before)
    return Profile(cpus, memory_gb, tuple(rates))


@every_seed
def test_synergys_optimum_is_the_best_of_all_splits(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        jobs = [SharingJob(f"j{number}", draw.choice((1, 1, 2)), random_profile(draw)) for number in range(3)]
        gpus = sum(job.gpus for job in jobs) + draw.choice((0, 0, 1))
        server = SharedServer("s", gpus, gpus * draw.uniform(1, 6), gpus * draw.uniform(6, 60))
        # Below its smallest point a profile has no rate, so that a training's share may be no point that fits.
        jobs = [replace(job, profile=with_origin(job.profile)) for job in jobs]
        parts, why = split_optimally(server, jobs, LONG_S)
        assert why == "", seed
        total = sum(rate_of(job, parts[job.id]) for job in jobs)
        assert total == pytest.approx(oracle.best_split(server, jobs), rel=1e-6), seed


def with_origin(profile: Profile) -> Profile:
    """The same with a point without CPUs and memory."""
    rates = ((0.0,) * (len(profile.cpus) + 1), *((0.0, *row) for row in profile.rates))
    return Profile((0.0, *profile.cpus), (0.0, *profile.memory_gb), rates)


@every_seed
def test_synergys_tune_gives_what_its_rules_say(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        servers = [
            SharedServer(name, gpus := draw.randint(1, 8), gpus * draw.uniform(1, 6), gpus * draw.uniform(6, 90))
            for name in "abcde"[: draw.randint(1, 5)]
        ]
        jobs, left = list[SharingJob](), sum(server.gpus for server in servers)
        while left and draw.random() < 0.97:
            gpus = min(left, draw.choice((1, 1, 1, 2, 4, 8)))
            jobs.append(SharingJob(f"j{len(jobs):03}", gpus, random_profile(draw)))
            left -= gpus
        found, expected = tune(servers, jobs), oracle.tuned(servers, jobs)
        assert {job: mine.keys() for job, mine in found.items()} == {
            job: mine.keys() for job, mine in expected.items()
        }
        for job, mine in found.items():
            for name, part in mine.items():
                each = part.gpus, part.cpus / part.gpus, part.memory_gb / part.gpus
                assert each == pytest.approx(expected[job][name]), (seed, job)


def random_decision(draw: random.Random) -> Problem:
    """A few trainings, some of them with nodes, on nodes that are all alike."""
    curve = (1, 2, 3, 4, 6)
    trainers = tuple(
        Trainer(
            f"t{number}",
            tuple((nodes, 100 * nodes ** draw.uniform(0.3, 1.1)) for nodes in curve),
            draw.choice((1, 1, 2)),
            scale_up_s=draw.uniform(0, 60),
            scale_down_s=draw.uniform(0, 60),
            start_s=draw.uniform(0, 90),
            weight=draw.uniform(0.1, 5),
            target_samples=10 ** draw.uniform(4, 8),
        )
        for number in range(draw.randint(1, 3))
    )
    room = {trainer.id: 6 for trainer in trainers}
    nodes = []
    for number in range(draw.randint(1, 8)):
        holder = draw.choice((None, *(name for name, left in room.items() if left)))
        room[holder or ""] = room.get(holder or "", 1) - 1
        nodes.append(Place(f"n{number}", None, holder))
    done = {trainer.id: draw.uniform(0, 1.1) * (trainer.target_samples or 0.0) for trainer in trainers}
    return Problem(0.0, tuple(nodes), trainers, draw.uniform(60, 7200), past=past_of_samples(done))


@every_seed
@pytest.mark.parametrize("utility", UTILITIES)
def test_gadget_takes_the_sizes_that_gain_most_utility(utility: str, seeds: range) -> None:
    for seed in seeds:
        problem = random_decision(random.Random(seed))
        alpha = UTILITIES[utility].alpha
        assert_best(
            problem,
            f"gadget,utility={utility},patience=0",
            [
                {size: oracle.gadget_value(problem, trainer, alpha, size) for size in sizes_of(trainer)}
                for trainer in problem.trainers
            ],
            seed,
        )


@every_seed
@pytest.mark.parametrize("sizes", ["fastest", "menu"])
def test_smd_takes_the_sizes_whose_completions_are_worth_most(sizes: str, seeds: range) -> None:
    for seed in seeds:
        problem = random_decision(random.Random(seed))
        values = [
            {size: oracle.smd_value(problem, trainer, size) for size in sizes_of(trainer)}
            for trainer in problem.trainers
        ]
        if sizes == "fastest":
            rates = [
                {size: trainer.rate(size) for size in sizes_of(trainer) if size <= len(problem.nodes)}
                for trainer in problem.trainers
            ]
            best = [max(sorted(of_trainer), key=of_trainer.__getitem__) for of_trainer in rates]
            values = [{0: 0.0, size: of_trainer[size]} for of_trainer, size in zip(values, best, strict=True)]
        assert_best(problem, f"smd,sizes={sizes},patience=0", values, seed)


def sizes_of(trainer: Trainer) -> list[int]:
    return [0, *range(trainer.min_nodes, trainer.most_nodes + 1)]


def assert_best(problem: Problem, policy: str, values: list[dict[int, float]], seed: int) -> None:
    """Sizes are valued as defined, and no others are worth more."""
    decides, nodes = find_policy(policy), len(problem.nodes)
    assert isinstance(decides, Gadget | Smd)
    weighed = decides.weigh(problem)
    for row, of_trainer in enumerate(values):
        known = {size: value for size, value in of_trainer.items() if size <= nodes}
        weighed_here = {size: weighed[row, size] for size in known}
        assert weighed_here == pytest.approx(known, abs=2e-7), (seed, row)
    found = decides.decide(problem).counts.sum(axis=1).tolist()
    assert sum(found) <= nodes, seed
    worth = sum(of_trainer[size] for of_trainer, size in zip(values, found, strict=True))
    assert worth == pytest.approx(oracle.best_sizes(values, nodes), rel=1e-6, abs=1e-9), (seed, found)


def random_host(draw: random.Random) -> Host:
    size = draw.choice((10, 20, 50))
    return Host("", size, size, draw.randint(0, size), draw.randint(0, size), f"leaf{draw.randrange(3)}")


@every_seed
def test_dltap_places_tasks_where_the_scores_say(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        hosts = [random_host(draw) for _ in range(draw.randint(1, 12))]
        kinds = [TaskKind.WORKER] * draw.randint(1, 8) + [TaskKind.SERVER] * draw.randint(0, 3)
        tasks = [PlacedTask(kind, draw.randint(1, 7), draw.randint(1, 7)) for kind in kinds]
        if draw.random() < 0.3:
            tasks.reverse()
        weight = partial(draw.choice, (0, 1, 1, 5))
        weights = Weights(weight(), weight(), weight(), weight(), weight(), draw.random() < 0.5)
        assert list(place_tasks(tasks, hosts, weights)) == oracle.placed_by_score(tasks, hosts, weights), seed
