"""TUNE and OPT: who gets CPUs and memory, and that nobody loses by it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from freetrain.guest.guest import Guest
from freetrain.policies.binary_programme import ProgrammeGuest
from freetrain.policies.synergy.experiment import PROFILES
from freetrain.policies.synergy.mechanisms import (
    Parts,
    Profile,
    SharedServer,
    SharingJob,
    place_greedily,
    rate_of,
    split_optimally,
    tune,
)

LONG_S = 30.0
SERVER = SharedServer("s", 8, 24.0, 500.0)
CPUS_ONLY = {name: Profile(profile.cpus, (0.0,), (profile.rates[1],)) for name, profile in PROFILES.items()}
"""What the models are with memory enough."""


def jobs_of(models: str, gpus: int = 1, profiles: dict[str, Profile] = PROFILES) -> list[SharingJob]:
    return [SharingJob(f"{row}-{model}", gpus, profiles[model]) for row, model in enumerate(models.split())]


def total(jobs: list[SharingJob], parts: Parts) -> float:
    return sum(rate_of(job, parts[job.id]) for job in jobs)


def assert_within(servers: tuple[SharedServer, ...], jobs: list[SharingJob], parts: Parts) -> None:
    """No server is overdrawn, and everyone has its GPUs."""
    for server in servers:
        here = [mine[server.name] for mine in parts.values() if server.name in mine]
        assert sum(part.gpus for part in here) <= server.gpus
        assert sum(part.cpus for part in here) <= server.cpus + 1e-6
        assert sum(part.memory_gb for part in here) <= server.memory_gb + 1e-6
    assert {job.id: sum(part.gpus for part in parts[job.id].values()) for job in jobs} == {
        job.id: job.gpus for job in jobs
    }


def test_the_optimal_split_of_four_hungry_and_four_modest_trainings() -> None:
    jobs = jobs_of("alexnet " * 4 + "gnmt " * 4, profiles=CPUS_ONLY)
    parts, why = split_optimally(SERVER, jobs, LONG_S)
    assert why == ""
    assert total(jobs, parts) == pytest.approx(10.12)
    assert [parts[job.id]["s"].cpus for job in jobs] == [5, 5, 5, 5, 1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(15))
def test_with_tune_nobody_is_slower_than_with_its_share_and_no_gpu_is_stranded(seed: int) -> None:
    draw = random.Random(seed)
    servers = tuple(
        SharedServer(
            f"s{number}",
            gpus := draw.randint(1, 8),
            gpus * draw.uniform(2.0, 6.0),
            gpus * draw.uniform(30.0, 130.0),
        )
        for number in range(6)
    )
    left, jobs = sum(server.gpus for server in servers), list[SharingJob]()
    while left:
        gpus = min(left, draw.choice((1, 1, 1, 2, 4, 8)))
        jobs.append(SharingJob(f"j{len(jobs):03}", gpus, PROFILES[draw.choice(list(PROFILES))]))
        left -= gpus
    parts = tune(servers, jobs)
    assert_within(servers, jobs, parts)
    by_name = {server.name: server for server in servers}
    for job in jobs:
        shares = (
            job.profile.rate(by_name[name].cpus / by_name[name].gpus, by_name[name].memory_gb / by_name[name].gpus)
            for name in parts[job.id]
        )
        assert rate_of(job, parts[job.id]) >= min(shares)
    assert parts == tune(servers, jobs)


def any_profile(draw: random.Random) -> Profile:
    """Faster with CPUs and with memory, in steps of any height."""
    cpus, memory_gb = ([0.5, 1, 2, 3, 4, 8], [5, 10, 20, 40, 80])
    heights = [[draw.choice((0.0, 0.0, draw.random())) for _ in cpus] for _ in memory_gb]
    rates = np.cumsum(np.cumsum(heights, axis=0), axis=1) + 0.1
    return Profile(tuple(cpus), tuple(memory_gb), tuple(map(tuple, rates.tolist())))


@pytest.mark.parametrize("seed", range(40))
def test_with_tune_nobody_is_slower_than_with_its_share_whatever_the_profiles(seed: int) -> None:
    draw = random.Random(seed)
    server = SharedServer("s", gpus := draw.randint(1, 8), gpus * draw.uniform(1, 5), gpus * draw.uniform(6, 60))
    jobs = [SharingJob(f"j{number}", 1, any_profile(draw)) for number in range(gpus)]
    parts = tune((server,), jobs)
    assert_within((server,), jobs, parts)
    for job in jobs:
        assert rate_of(job, parts[job.id]) >= job.profile.rate(server.cpus / gpus, server.memory_gb / gpus) - 1e-9


def test_a_training_alone_gets_memory_up_to_its_share_where_its_cpus_do_not_suffice() -> None:
    profile = Profile((1.0, 2.0, 4.0), (10.0, 20.0), ((0.2, 0.6, 1.0), (0.8, 0.8, 1.0)))
    parts = tune((SharedServer("s", 1, 3.0, 40.0),), [SharingJob("j0", 1, profile)])
    assert rate_of(SharingJob("j0", 1, profile), parts["j0"]) == 0.8


def test_who_can_use_more_gets_what_others_leave() -> None:
    jobs = jobs_of("alexnet bert bert bert bert bert bert bert")
    parts = tune((SERVER,), jobs)
    assert rate_of(jobs[0], parts[jobs[0].id]) == 2.94
    assert all(rate_of(job, parts[job.id]) == 1.0 for job in jobs[1:])


def test_where_all_can_use_more_the_last_gpus_still_get_their_share() -> None:
    jobs = jobs_of("alexnet " * 8)
    parts = tune((SERVER,), jobs)
    assert_within((SERVER,), jobs, parts)
    assert all(rate_of(job, parts[job.id]) >= 1.0 for job in jobs)
    greedy = place_greedily((SERVER,), jobs)
    assert len(greedy) == 2  # twelve CPUs each, and six GPUs idle


def test_greedily_placed_a_training_that_wants_more_than_a_server_has_is_split() -> None:
    servers = tuple(SharedServer(f"s{number}", 8, 24.0, 500.0) for number in range(4))
    (job,) = jobs_of("alexnet", gpus=8)
    parts = place_greedily(servers, [job])[job.id]
    assert [part.gpus for part in parts.values()] == [2, 2, 2, 2]
    assert rate_of(job, parts) == 2.94


@pytest.mark.parametrize("seed", range(8))
def test_tune_lies_between_the_shares_and_the_optimum(seed: int) -> None:
    draw = random.Random(seed)
    jobs = jobs_of(" ".join(draw.choice(list(PROFILES)) for _ in range(8)))
    tuned, (best, _) = total(jobs, tune((SERVER,), jobs)), split_optimally(SERVER, jobs, LONG_S)
    assert 8.0 <= tuned <= total(jobs, best) + 1e-6
    assert tuned >= 0.75 * total(jobs, best)


def test_where_highs_fails_everyone_gets_its_share() -> None:
    jobs = jobs_of("alexnet " * 4 + "gnmt " * 4)
    broken = ProgrammeGuest(Guest(), "nowhere:solve")
    parts, why = split_optimally(SERVER, jobs, LONG_S, broken)
    assert "nowhere" in why
    assert_within((SERVER,), jobs, parts)
    assert {round(part["s"].cpus, 6) for part in parts.values()} == {3.0}


def test_more_gpus_than_there_are_are_refused() -> None:
    for share in (lambda jobs: tune((SERVER,), jobs), lambda jobs: split_optimally(SERVER, jobs, LONG_S)):
        with pytest.raises(ValueError, match="more GPUs than there are"):
            share(jobs_of("bert " * 9))
