from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.live.figures import first_in_line_s
from benchmarks.live.gpu_figures import gpu_seconds, holes_of_gpus
from benchmarks.live.shared import GPUS, NODES, TYPES, draw_shares, nodes_for
from benchmarks.live.site import Ran
from benchmarks.live.workload import SiteJob, lengthened, shifted
from freetrain.lab.options import LabOptions


def ran(start_s: float, end_s: float, nodes: str, gpus: int) -> Ran:
    return Ran("1", start_s, start_s, end_s, nodes, "COMPLETED", gpus=gpus)


def test_a_workload_takes_one_to_eight_gpus_in_partitions_that_overlap() -> None:
    jobs = draw_shares(1200.0, 0.7, seed=3)
    work = sum(job.nodes * int(job.gpus.rpartition(":")[2]) * job.run_s for job in jobs)
    assert work == pytest.approx(0.7 * NODES * GPUS * 1200, rel=0.1)
    assert {job.partition for job in jobs} == {"main", "first", "last"}
    assert {job.gpus.rpartition(":")[0] for job in jobs} == {"", "a100", "h100"}
    assert all(job.limit_min * 60 > job.run_s for job in jobs)
    assert jobs == draw_shares(1200.0, 0.7, seed=3)


def test_who_is_first_in_line_waits_for_gpus_on_the_nodes_that_he_may_use() -> None:
    site = [
        Ran("1", 0, 0, 50, "a", "COMPLETED", gpus=6),
        Ran("2", 0, 0, 30, "b", "COMPLETED", gpus=8),
        Ran("3", 5, 57, 90, "a", "COMPLETED", gpus=3),
        Ran("4", 58, 59, 99, "b", "COMPLETED", gpus=8),
    ]
    assert first_in_line_s(site, {"a": 8, "b": 8}, {"3": {"a"}}) == [0, 0, 7, 1]
    assert first_in_line_s(site, {"a": 8, "b": 8})[2] == 27, "it might have run on the other node"


def test_a_job_may_use_the_nodes_of_its_partition_that_have_its_type() -> None:
    options = LabOptions(nodes=NODES, gpus=GPUS, gpu_type=",".join(TYPES))
    for gpus, partition, nodes in (
        ("2", "main", ["n001", "n002", "n003", "n004"]),
        ("2", "last", ["n002", "n003", "n004"]),
        ("a100:2", "last", ["n002"]),
        ("h100:8", "first", ["n003"]),
    ):
        assert sorted(nodes_for(SiteJob(0, 1, 5, 1, gpus, partition), options)) == nodes


def test_the_last_gpus_of_a_node_have_the_long_holes() -> None:
    site = [ran(0, 50, "a", 1), ran(10, 100, "a", 2), ran(60, 90, "a", 1)]
    assert sorted(holes_of_gpus(site, {"a": 4}, (0, 100))) == [
        ("a", 0, 10), ("a", 0, 10), ("a", 0, 100), ("a", 50, 60), ("a", 90, 100),
    ]  # fmt: skip


def test_a_job_that_follows_in_the_second_of_an_end_has_that_ones_gpus() -> None:
    assert holes_of_gpus([ran(0, 50, "a", 2), ran(50, 100, "a", 2)], {"a": 2}, (0, 100)) == []


def test_what_is_lent_counts_where_the_sites_jobs_left_so_much() -> None:
    site = [ran(0, 60, "a", 1), ran(60, 100, "a,b", 2)]
    fragments = [ran(10, 70, "a", 1), ran(20, 90, "b", 1), ran(80, 90, "b", 1)]
    found = gpu_seconds(site, fragments, {"a": 2, "b": 2}, (0, 100), 5.0, (15.0, 61.0))
    assert (found.idle, found.lent, found.useful) == (60 + 120, 50 + 40, 45 + 35)
    assert found.in_holes == {15.0: (180, 90), 61.0: (0, 0)}


def test_a_lengthened_workload_runs_a_little_longer() -> None:
    jobs = draw_shares(1200.0, 0.7, seed=3)
    longer = lengthened(jobs, 1.0, seed=3)
    added_s = [long.run_s - job.run_s for job, long in zip(jobs, longer, strict=True)]
    assert all(0 <= each <= 1.01 for each in added_s)
    assert max(added_s) > 0.5
    assert [replace(long, run_s=job.run_s) for job, long in zip(jobs, longer, strict=True)] == jobs


def test_a_shifted_workload_comes_a_little_later_in_the_same_order() -> None:
    jobs = draw_shares(1200.0, 0.7, seed=3)
    later = shifted(jobs, 1.0, seed=3)
    added_s = [late.at_s - job.at_s for job, late in zip(jobs, later, strict=True)]
    assert all(0 <= each <= 1.01 for each in added_s)
    assert max(added_s) > 0.5
    assert [replace(late, at_s=job.at_s) for job, late in zip(jobs, later, strict=True)] == jobs
    assert [job.at_s for job in later] == sorted(job.at_s for job in later)
