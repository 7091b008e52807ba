from __future__ import annotations

from collections import defaultdict
from math import inf

import pytest

from benchmarks.filler_model import (
    NAMES,
    Lending,
    Rules,
    SiteRuns,
    gpus_of,
    learn,
    nodes_for,
    place_of,
    play_site,
    shares_of,
)
from benchmarks.live.gpu_figures import lent_within_s
from benchmarks.live.shared import GPUS, draw_shares
from benchmarks.live.workload import SiteJob

TASKS_S = [20.0, 5.0, 60.0, 31.5] * 5


def job(at_s: float, gpus: str, run_s: float = 30.0, nodes: int = 1, partition: str = "main") -> SiteJob:
    return SiteJob(at_s, nodes, run_s, 1, gpus, partition)


def busy_site(seed: int = 3) -> SiteRuns:
    return play_site(draw_shares(300.0, 0.7, seed))


def test_jobs_start_in_order_on_the_first_nodes_with_room_and_each_runs_once() -> None:
    jobs = [job(0, "8"), job(1, "8"), job(2, "h100:8"), job(3, "8"), job(4, "8"), job(5, "1", partition="last")]
    runs = play_site(jobs).runs
    assert [(run.nodes, run.start_s) for run in runs] == [
        ("n001", 0.0), ("n002", 1.0), ("n003", 2.0), ("n004", 3.0), ("n001", 30.0), ("n002", 31.0),
    ]  # fmt: skip


def test_a_small_job_goes_before_a_large_one_only_where_it_is_over_in_time() -> None:
    jobs = [*(job(0, "8", 200.0) for _ in range(3)), job(1, "4", 200.0), job(2, "8"), job(3, "2", 20.0)]
    starts = {run.gpus: run.start_s for run in play_site(jobs).runs if run.nodes == "n004"}
    assert starts == {4: 1.0, 2: 5.0}, "at the next plan of a backfill scheduler every 5 s"


def test_no_job_gets_a_gpu_that_another_has_or_that_it_may_not_use() -> None:
    jobs = draw_shares(300.0, 0.9, 5)
    site = play_site(jobs)
    assert len(site.runs) == sum(job.nodes for job in jobs)
    assert sum(run.gpus * (run.end_s - run.start_s) for run in site.runs) == pytest.approx(
        sum(job.nodes * gpus_of(job) * job.run_s for job in jobs)
    )
    changes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for run in site.runs:
        changes[run.nodes] += [(run.start_s, run.gpus), (run.end_s, -run.gpus)]
    for steps in changes.values():
        used = 0
        for _, more in sorted(steps):
            used += more
            assert 0 <= used <= GPUS
    assert nodes_for(job(0, "h100:1", partition="first")) == [2]


@pytest.mark.parametrize("rules", [Rules(), Rules(trainings_first=False), Rules(knows_ends=True)])
def test_each_task_is_done_once_and_no_gpu_is_lent_that_the_site_has(rules: Rules) -> None:
    site = busy_site()
    lending = Lending(site, TASKS_S, rules, 2.5)
    lending.play()
    runs = [run for run, _ in lending.runs]
    hole = [(name, 0.0, lending.now_s) for name in NAMES for _ in range(GPUS)]
    both = [*runs, *site.runs]
    assert lent_within_s(both, hole) == pytest.approx(
        sum(run.gpus * (min(run.end_s, lending.now_s) - min(run.start_s, lending.now_s)) for run in both), rel=0.01
    ), "together they never have more than there is"
    lost = [run for run, is_useful in lending.runs if not is_useful]
    assert bool(lost) is not rules.knows_ends
    shares = shares_of(site, lending, lending.now_s)
    assert 0.0 < shares.useful <= shares.lent <= 1.0
    assert (shares.useful == shares.lent) is rules.knows_ends


def test_who_knows_the_ends_begins_no_task_that_would_be_cut_off() -> None:
    site = play_site([job(10.0, "8", 100.0) for _ in NAMES])
    lending = Lending(site, [5.0, 60.0], Rules(knows_ends=True), 1.0)
    lending.play()
    assert sorted(
        round(run.end_s - run.start_s) for run, _ in lending.runs if run.end_s - run.start_s in (5, 60)
    ) == [5, 60]
    assert lending.now_s > 170.0, "the long one waits until all of the site's jobs have ended"


def test_what_is_learned_is_which_part_of_all_tasks_would_have_been_done() -> None:
    guess = learn(lambda seed: play_site([job(100.0, "8", 200.0) for _ in NAMES]), range(2), 120.0)
    assert set(guess.values()) <= {guess[place_of(0, tasks, 0, 0)] for tasks in range(1, GPUS + 1)}
    assert guess[place_of(0, 1, 0, 0)] == pytest.approx(0.62, abs=0.05), "all but those of the last 60 of 100 s"
    assert place_of(1, 2, 5, 8) == (1, 2, 2, 3)


def test_when_the_site_next_has_more_than_so_many() -> None:
    site = play_site([job(10.0, "4", 30.0), job(20.0, "a100:4", 30.0)])
    assert (site.used(0, 0.0), site.used(0, 15.0), site.used(0, 25.0), site.used(0, 60.0)) == (0, 4, 8, 0)
    assert site.more_than_s(0, 4, 0.0) == 19.0
    assert site.more_than_s(0, 4, 30.0) == inf
