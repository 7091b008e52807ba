"""The simulated sites by which rules of lending are compared."""

from __future__ import annotations

import random

from benchmarks.live.workload import SiteJob
from benchmarks.queue.__main__ import compare
from benchmarks.queue.daemon import Habits
from benchmarks.queue.sites import play, rules_of
from benchmarks.queue.slurm import Pace, SimulatedSlurm

DICE = random.Random(7)
JOBS = [
    SiteJob(20.0 * number, DICE.choice((1, 2, 4, 8, 14)), DICE.uniform(5, 60), DICE.randint(1, 3))
    for number in range(1, 20)
]
RULES = rules_of(10.0)


def test_all_jobs_start_where_nodes_are_lent_and_none_beside_a_fragment() -> None:
    site, _ = play(JOBS, RULES, Habits(), 1)
    assert site.started_s.keys() == set(range(len(JOBS)))
    assert sum(until_s - from_s for _, from_s, until_s in site.lent) > 1000
    for name, from_s, until_s in site.stays:
        assert not [one for one in site.lent if one[0] == name and from_s < one[2] and one[1] < until_s]


def test_a_job_behind_one_that_waits_starts_at_a_backfill_cycle() -> None:
    jobs = [SiteJob(1.0, 10, 100, 5), SiteJob(2.0, 16, 10, 1), SiteJob(3.0, 2, 10, 1)]
    site = SimulatedSlurm(16, jobs, RULES.nodes.backfill, Pace(), random.Random(1))
    site.run()
    assert site.started_s[0] == 1.0
    assert site.started_s[2] == site_first_cycle_after(3.0)
    assert site.started_s[1] > 101.0


def site_first_cycle_after(moment_s: float) -> float:
    first_s = random.Random(1).uniform(0.0, 10.0)
    return next(at_s for number in range(9) if (at_s := first_s + 10.0 * number) >= moment_s)


def test_the_same_pair_comes_out_the_same() -> None:
    first, second = (compare(JOBS, RULES, Habits(), 3, 500.0) for _ in range(2))
    assert first == second


def test_a_shift_of_submissions_counts_as_no_delay_by_itself() -> None:
    alone = [SiteJob(200.0 * number, 4, 20, 1) for number in range(1, 6)]
    pair = compare(alone, RULES, None, 3, 1200.0, shift_s=1.0)
    assert max(map(abs, pair.added_s)) < 1e-6
