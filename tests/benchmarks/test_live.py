from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.live.figures import first_in_line_s, holes_of, latencies_s, lent_within_s, node_hours, spread
from benchmarks.live.play import NODES, PORTS, compare, play_all, play_site
from benchmarks.live.shadow import verdicts
from benchmarks.live.site import Ran
from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples
from freetrain.lab import LabOptions
from freetrain.lending.shadow import BackfillRules
from tests.slurm_lab import on_free_ports, require_python_for_all, short_directory


def ran(start_s: float, end_s: float, nodes: str) -> Ran:
    return Ran("1", start_s, start_s, end_s, nodes, "COMPLETED")


def test_a_workload_fills_the_wanted_share_with_jobs_of_seconds() -> None:
    require_python_for_all()
    jobs = draw(read_samples(SAMPLE_LOG), NODES, 1200.0, 0.6, seed=2)
    work = sum(job.nodes * job.run_s for job in jobs)
    assert work == pytest.approx(0.6 * NODES * 1200, rel=0.1)
    assert all(5 <= job.run_s <= 180 and 1 <= job.nodes <= NODES and 0 <= job.at_s <= 1200 for job in jobs)
    assert all(job.limit_min * 60 > job.run_s for job in jobs)
    assert jobs == draw(read_samples(SAMPLE_LOG), NODES, 1200.0, 0.6, seed=2)


def test_what_was_lent_is_counted_within_the_long_enough_holes_only() -> None:
    holes = holes_of([ran(10, 20, "a"), ran(30, 80, "a"), ran(0, 50, "b")], ("a", "b"), 0, 100)
    assert sorted(zip(holes.start_s.tolist(), holes.end_s.tolist(), strict=True)) == [
        (0, 10), (20, 30), (50, 100), (80, 100),
    ]  # fmt: skip
    fragments = [ran(60, 90, "b"), ran(22, 28, "a"), ran(95, 120, "a")]
    assert lent_within_s(fragments, holes, 15.0) == (30.0 + 5.0, 70.0)
    assert node_hours(fragments, 0, 100) == pytest.approx((30 + 6 + 5) / 3600)


def test_a_job_waits_on_free_nodes_from_when_the_last_job_of_the_site_left_them() -> None:
    site = [
        replace(ran(10, 20, "a"), id="1"),
        replace(ran(0, 15, "b"), id="2"),
        replace(ran(23, 40, "a,b"), id="3"),
    ]
    submitted_s, started_s = {"1": 4.0, "3": 5.0}, {"1": 10.5, "3": 23.5}
    assert latencies_s(site, submitted_s, started_s) == [6.5, 3.5]


def test_who_is_first_in_line_waits_from_when_enough_nodes_are_free() -> None:
    site = [
        Ran("1", 0, 0, 50, "a", "COMPLETED"),
        Ran("2", 5, 57, 90, "a,b", "COMPLETED"),
        Ran("3", 6, 20, 40, "b", "COMPLETED"),
        Ran("4", 7, 95, 99, "b", "COMPLETED"),
    ]
    assert first_in_line_s(site, {"a": 1, "b": 1}) == [0, 7, 5], "3 went before 2"


def test_a_start_is_compared_with_the_shadows_at_each_submission_and_end() -> None:
    site = [
        Ran("1", 0, 0, 100, "a,b", "COMPLETED", 120.0),
        Ran("2", 10, 101, 150, "a", "COMPLETED", 60.0),
        Ran("3", 20, 60, 99, "b", "COMPLETED", 60.0),
    ]
    found = {verdict.job: verdict for verdict in verdicts(site, ["a", "b"], BackfillRules())}
    assert (found["1"].late_s, found["2"].late_s) == (0, 1)
    assert found["3"].late_s is None, "its node was not free when it is said to have started"


def test_a_spread_is_median_high_and_largest() -> None:
    found = spread(np.arange(101).astype(float).tolist())
    assert (found.p50_s, found.p95_s, found.max_s) == (50.0, 95.0, 100.0)


@pytest.mark.slurm
@pytest.mark.soak
def test_a_short_workload_gains_most_of_the_holes_and_costs_the_site_next_to_nothing() -> None:
    shapes = [(0, 4, 30), (2, 2, 12), (15, 6, 15), (35, 8, 10), (50, 3, 5), (60, 1, 2)]
    jobs = [SiteJob(at_s, nodes, run_s, 1) for at_s, nodes, run_s in shapes]
    first = on_free_ports(LabOptions(nodes=PORTS, accounting=True)).base_port
    with short_directory() as folder:
        play = partial(play_site, interval_s=5)
        outcome = compare(play_all(Path(folder), first, [jobs], play), interval_s=5)
    said = "\n".join(f"{name}: {value}" for name, value in outcome.lines())
    # The goals are measured by 'make bench-live', for long and alone; this shows that nothing is broken.
    assert outcome.lent_share > 0.3, said
    assert outcome.latencies[2].p50_s < outcome.latencies[0].p50_s + 15, said
    assert 0.3 < outcome.predicted_node_hours / outcome.lent_node_hours < 3, said
