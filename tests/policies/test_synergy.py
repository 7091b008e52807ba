"""TUNE and OPT: who gets CPUs and memory, and that nobody loses by it; and both as finishers."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.experiments.synergy import PROFILES, place_greedily
from freetrain.core.amounts import Amount
from freetrain.core.data_wait import DataWait, NewPart, SharedNode, WaitProfile
from freetrain.guest.guest import Guest
from freetrain.loop.deciding import finish
from freetrain.policies import FINISHERS, Finisher, find_finisher
from freetrain.policies import synergy as room
from freetrain.policies.binary_programme import BinaryProgramme
from freetrain.policies.stages import AsAsked
from freetrain.policies.synergy import (
    Profile,
    SharedServer,
    SharesOfTasks,
    SharingJob,
    rate_of,
    split_optimally,
    tune,
)
from tests.installing import install_policy

LONG_S = 30.0
SERVER = SharedServer("s", 8, 24.0, 500.0)
CPUS_ONLY = {name: Profile(profile.cpus, (0.0,), (profile.rates[1],)) for name, profile in PROFILES.items()}
"""What the models are with memory enough."""


def jobs_of(models: str, gpus: int = 1, profiles: dict[str, Profile] = PROFILES) -> list[SharingJob]:
    return [SharingJob(f"{row}-{model}", gpus, profiles[model]) for row, model in enumerate(models.split())]


def total(jobs: list[SharingJob], parts: SharesOfTasks) -> float:
    return sum(rate_of(job, parts[job.id]) for job in jobs)


def assert_within(servers: tuple[SharedServer, ...], jobs: list[SharingJob], parts: SharesOfTasks) -> None:
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
    broken = Guest().asking("nowhere:solve")
    parts, why = split_optimally(SERVER, jobs, LONG_S, broken)
    assert "nowhere" in why
    assert_within((SERVER,), jobs, parts)
    assert {round(part["s"].cpus, 6) for part in parts.values()} == {3.0}


def test_more_gpus_than_there_are_are_refused() -> None:
    for share in (lambda jobs: tune((SERVER,), jobs), lambda jobs: split_optimally(SERVER, jobs, LONG_S)):
        with pytest.raises(ValueError, match="more GPUs than there are"):
            share(jobs_of("bert " * 9))


@pytest.mark.parametrize(
    ("model", "demand"),
    [
        ("resnet18", (9, 62.5)),
        ("resnet50", (4, 62.5)),
        ("mobilenet", (6, 62.5)),
        ("alexnet", (12, 125)),
        ("shufflenet", (12, 125)),
        ("m5", (6, 187.5)),
        ("deepspeech", (3, 62.5)),
        ("bert", (1, 20.83)),
    ],
)
def test_a_training_wants_as_much_as_makes_it_faster_and_no_more(model: str, demand: tuple[float, float]) -> None:
    assert PROFILES[model].demand == demand


def test_at_the_share_every_rate_is_one_and_between_points_nothing_is_promised() -> None:
    assert {profile.rate(3, 62.5) for profile in PROFILES.values()} == {1.0}
    alexnet = PROFILES["alexnet"]
    assert alexnet.rate(11.9, 125) == 2.0
    assert alexnet.rate(12, 124) == 2.0
    assert alexnet.rate(12, 62) == 0.1
    assert alexnet.rate(0.5, 125) == 0.0


NOTHING_SEEN = WaitProfile()


@pytest.fixture(params=["synergy-tune", "synergy-opt"])
def finisher(request: pytest.FixtureRequest) -> Finisher:
    """Both, where they are to agree."""
    return find_finisher(request.param)


def part(
    place: str, waits: float, cpus: int = 4, gpus: int = 1, cache_mb: int = 0, profile: WaitProfile = NOTHING_SEEN
) -> NewPart:
    return NewPart(place, place, Amount(cpus, 8000, (("gpu", gpus),) if gpus else ()), waits, cache_mb, profile)


def shared(
    *parts: NewPart, spare: int = 16, spare_mb: int = 64000, free_gpus: int = 0, threads: int = 1
) -> SharedNode:
    """All free GPUs are those of the new parts, unless more are given."""
    gpus = free_gpus or sum(part.asks.gpus for part in parts)
    return SharedNode("n1", Amount(spare, spare_mb), gpus, threads, parts)


def cpus(finisher: Finisher, *parts: NewPart, **node: int) -> dict[str, int]:
    return {place: amount.cpus for place, amount in finisher.finish(shared(*parts, **node)).items()}


def memory_mb(finisher: Finisher, *parts: NewPart, **node: int) -> dict[str, int]:
    return {place: amount.memory_mb for place, amount in finisher.finish(shared(*parts, **node)).items()}


def test_who_waits_for_data_half_the_time_gets_twice_the_cpus(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.5), part("b", 0.0)) == {"a": 8}


def test_who_hardly_waits_gets_what_it_asks_for(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.04)) == {}


def test_what_belongs_to_gpus_that_nobody_has_stays_with_them(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.75), spare=16, free_gpus=4) == {"a": 8}
    assert cpus(finisher, part("a", 0.75), spare=16, free_gpus=1) == {"a": 16}


def test_where_there_is_too_little_for_all_nobody_is_below_its_share(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.9), part("b", 0.5), spare=8) == {"a": 8, "b": 8}


def test_what_one_does_not_need_of_its_share_another_has(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.75), part("b", 0.0), spare=12) == {"a": 16}


def test_whole_cores_are_given(finisher: Finisher) -> None:
    assert cpus(finisher, part("a", 0.9), spare=5, threads=2) == {"a": 8}


@pytest.mark.parametrize("node", [shared(part("a", 0.5, gpus=0)), shared(part("a", 0.5), spare=0)])
def test_without_gpus_or_without_cpus_there_is_nothing_to_decide(finisher: Finisher, node: SharedNode) -> None:
    assert finisher.finish(node) == {}


def test_memory_and_gpus_stay_what_was_asked_for(finisher: Finisher) -> None:
    (given,) = finisher.finish(shared(part("a", 0.5, gpus=2))).values()
    assert (given.memory_mb, given.gpus, given.cpus) == (8000, 2, 8)


def test_who_has_a_cache_gets_the_memory_for_all_of_its_data_and_no_more_cpus(finisher: Finisher) -> None:
    assert memory_mb(finisher, part("a", 0.5, cache_mb=30_000)) == {"a": 38_000}
    assert cpus(finisher, part("a", 0.5, cache_mb=30_000)) == {"a": 4}


def test_where_the_data_do_not_fit_into_its_share_memory_would_bring_nothing(finisher: Finisher) -> None:
    assert memory_mb(finisher, part("a", 0.5, cache_mb=30_000), spare_mb=29_999) == {}
    assert memory_mb(finisher, part("a", 0.5, cache_mb=30_000), spare_mb=32_000, free_gpus=2) == {}


def test_a_cache_of_who_does_not_wait_is_not_filled(finisher: Finisher) -> None:
    assert memory_mb(finisher, part("a", 0.0, cache_mb=30_000), part("b", 0.5, cache_mb=30_000)) == {"b": 38_000}


def test_cpus_go_to_who_reads_with_them_and_memory_to_who_reads_from_it(finisher: Finisher) -> None:
    parts = (part("a", 0.5), part("b", 0.5, cache_mb=50_000))
    assert cpus(finisher, *parts) == {"a": 8, "b": 4}
    assert memory_mb(finisher, *parts) == {"a": 8000, "b": 58_000}


def test_cpus_that_were_seen_to_bring_nothing_are_not_given_again(finisher: Finisher) -> None:
    """It waited as long with twice as many; another, of which only one point is known, gets what it could use."""
    in_vain = part("a", 0.5, profile=WaitProfile((DataWait(0.5, 8), DataWait(0.5, 4))))
    assert cpus(finisher, in_vain, part("b", 0.5), spare=16) == {"b": 8}


def test_as_many_cpus_are_given_as_the_points_that_were_seen_say(finisher: Finisher) -> None:
    """Four times as many made it twice as fast: with ten times as many it would wait for nothing."""
    seen = WaitProfile((DataWait(0.4, 16), DataWait(0.7, 4)))
    assert cpus(finisher, part("a", 0.7, profile=seen), spare=100) == {"a": 45}
    assert cpus(finisher, part("a", 0.7), spare=100) == {"a": 14}


def test_a_cache_that_was_filled_in_vain_is_not_filled_again(finisher: Finisher) -> None:
    """CPUs may help instead; where filling it was of use it is filled again."""
    point, filled = DataWait(0.5, 4, 8000), DataWait(0.49, 4, 38_000)
    in_vain = part("a", 0.5, cache_mb=30_000, profile=WaitProfile((filled, point)))
    assert memory_mb(finisher, in_vain) == {"a": 8000}
    assert cpus(finisher, in_vain) == {"a": 8}
    of_use = part("a", 0.5, cache_mb=30_000, profile=WaitProfile((DataWait(0.1, 4, 38_000), point)))
    assert memory_mb(finisher, of_use) == {"a": 38_000}


def drawn(seed: int) -> SharedNode:
    draw = random.Random(seed)
    parts = tuple(
        part(
            f"p{number}",
            draw.choice([0.0, draw.uniform(0, 1)]),
            draw.randint(1, 8),
            draw.choice([0, 1, 1, 2]),
            draw.choice([0, draw.randint(1, 60_000)]),
            WaitProfile(
                tuple(
                    DataWait(draw.uniform(0, 1), draw.randint(0, 20), draw.choice([0, 8000, 60_000]))
                    for _ in range(draw.choice([0, 2, 5]))
                )
            ),
        )
        for number in range(draw.randint(1, 6))
    )
    gpus = sum(part.asks.gpus for part in parts) + draw.randint(0, 3)
    return SharedNode("n1", Amount(draw.randint(0, 24), draw.randint(0, 100_000)), gpus, 1, parts)


GIVES_ANYTHING = """
import random
from dataclasses import replace

class Still:
    def finish(self, node):
        draw = random.Random(node.spare.cpus)
        if draw.random() < 0.2:
            raise RuntimeError("no licence")
        parts = draw.sample(node.parts, draw.randint(0, len(node.parts)))
        return {part.place: replace(part.asks, cpus=part.asks.cpus + draw.randint(-1, 9)) for part in parts}
"""


@pytest.mark.parametrize("name", [*FINISHERS, "gives-anything"])
def test_whatever_is_on_a_node_nobody_gets_less_and_all_together_no_more_than_there_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package's finisher, which breaks the rules now and then, among them."""
    install_policy(tmp_path, monkeypatch, "gives-anything", "anything", GIVES_ANYTHING, "freetrain.finishers")
    gave = failed = 0
    for seed in range(200):
        node = drawn(seed)
        asked = {part.place: part.asks for part in node.parts}
        finished = finish(find_finisher(name), [node])
        assert finished == finish(find_finisher(name), [node]), seed
        given = finished.amounts
        more = [
            (each.cpus - asked[place].cpus, each.memory_mb - asked[place].memory_mb)
            for place, each in given.items()
        ]
        assert all(cpus >= 0 and mb >= 0 for cpus, mb in more), seed
        assert sum(cpus for cpus, _ in more) <= node.spare.cpus, seed
        assert sum(mb for _, mb in more) <= node.spare.memory_mb, seed
        assert all(each.gres == asked[place].gres for place, each in given.items())
        gave += bool(given)
        failed += any(
            "failed" in note or "rejected" in note for notes in finished.notes.values() for note in notes
        )
    assert bool(gave > 40) == (name != "as-asked")
    assert bool(failed > 40) == (name == "gives-anything")


def test_where_highs_is_killed_the_optimum_is_tunes(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(imports=("tests.policies.test_synergy",), patience_s=0.05)
    killed = guest.asking("tests.policies.test_synergy:is_killed")
    monkeypatch.setattr(
        room, "split_optimally", lambda server, jobs, time_s: split_optimally(server, jobs, time_s, killed)
    )
    for seed in (1, 2, 3, 4):
        opt, tune = (find_finisher(name).finish(drawn(seed)) for name in ("synergy-opt", "synergy-tune"))
        assert opt == tune
    assert tune
    guest.close()


def is_killed(programme: BinaryProgramme, *, left_s: Callable[[], float]) -> object:
    os.kill(os.getpid(), signal.SIGKILL)
    return ()


def test_of_two_caches_of_which_one_fits_that_is_filled_as_its_share_is_of_no_use_to_the_other() -> None:
    two = shared(part("a", 0.5, cache_mb=60_000), part("b", 0.5, cache_mb=60_000))
    for name in ("synergy-tune", "synergy-opt"):
        assert len(find_finisher(name).finish(two)) == 1


def test_where_highs_fails_the_optimum_is_tunes(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Guest().asking("nowhere:solve")
    monkeypatch.setattr(
        room, "split_optimally", lambda server, jobs, time_s: split_optimally(server, jobs, time_s, broken)
    )
    node = shared(part("a", 0.75), part("b", 0.0), spare=12)
    assert find_finisher("synergy-opt").finish(node) == find_finisher("synergy-tune").finish(node)
    assert {place: amount.cpus for place, amount in find_finisher("synergy-opt").finish(node).items()} == {"a": 16}


def test_without_a_finisher_all_get_what_they_ask_for() -> None:
    assert AsAsked().finish(shared(part("a", 0.9))) == {}
