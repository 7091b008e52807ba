from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from freetrain.replay.logs.model import LoggedJobs, NodeKind, SiteLog
from freetrain.replay.report import ReportInput
from freetrain.replay.report.page import render
from freetrain.replay.report.tables import by_kind, by_partition
from tests.replay.report.conftest import FROM_S, make_holes


def logged(*jobs: tuple[str, list[int]]) -> LoggedJobs:
    start_s = np.full(len(jobs), FROM_S)
    names = sorted({partition for partition, _ in jobs})
    return LoggedJobs(
        ids=pl.Series([str(number) for number in range(len(jobs))]),
        partition_names=tuple(names),
        partition=np.array([names.index(partition) for partition, _ in jobs], np.int32),
        submit_s=start_s, start_s=start_s, end_s=start_s + 60, limit_s=start_s * 0 + 60,
        begin=np.cumsum([0, *(len(nodes) for _, nodes in jobs)]),
        node=np.array([node for _, nodes in jobs for node in nodes], np.int32),
    )  # fmt: skip


@pytest.fixture
def log(report: ReportInput) -> SiteLog:
    holes = make_holes([(0, 0, 3600), (1, 0, 1800), (2, 1800, 3600)], 4, 3600)
    return replace(report.log, holes=holes)


def test_idle_time_is_told_by_kind_of_node(log: SiteLog) -> None:
    rows = by_kind(replace(log, kinds=(NodeKind("thin", ("n001", "n002", "n003")), NodeKind("gpu", ("n000",)))))
    assert [(row.name, row.nodes, row.idle_node_hours, row.median_s) for row in rows] == [
        ("gpu", 1, 1.0, 3600.0),
        ("thin", 3, 1.0, 1800.0),
    ]
    assert rows[1].idle_share == pytest.approx(1 / 3)


def test_idle_time_is_told_by_partition_which_may_share_nodes(log: SiteLog) -> None:
    rows = by_partition(replace(log, logged=logged(("batch", [0, 1]), ("batch", [1, 2]), ("debug", [2, 3]))))
    assert [(row.name, row.nodes, row.idle_node_hours) for row in rows] == [("batch", 3, 2.0), ("debug", 2, 0.5)]


def test_one_group_is_no_table(log: SiteLog) -> None:
    assert by_kind(replace(log, kinds=(NodeKind("all", log.holes.node_names),))) == ()
    assert by_partition(replace(log, logged=logged(("batch", [0])))) == ()
    assert by_partition(replace(log, logged=None)) == ()


def test_nodes_that_are_not_looked_at_do_not_count(log: SiteLog) -> None:
    kinds = (NodeKind("thin", ("n000", "elsewhere")), NodeKind("gpu", ("n001",)), NodeKind("old", ("gone",)))
    assert [(row.name, row.nodes) for row in by_kind(replace(log, kinds=kinds))] == [("thin", 1), ("gpu", 1)]


def test_the_page_has_the_tables(report: ReportInput) -> None:
    log = replace(report.log, logged=logged(("batch", [0, 1]), ("<debug>", [2, 3])))
    page = render(replace(report, log=log))
    assert "Idle time by partition" in page
    assert "&lt;debug&gt;" in page
    assert "Idle time by kind of node" not in page
