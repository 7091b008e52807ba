from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.fillers import SHARED, WHOLE, outcome_of
from benchmarks.live.site import Ran


def ran(id_: str, start_s: float, end_s: float, node: str, state: str = "COMPLETED") -> Ran:
    return Ran(id_, 0.0, start_s, end_s, node, state)


def test_what_was_cut_off_is_lent_and_not_useful_and_only_whole_holes_count(tmp_path: Path) -> None:
    (tmp_path / "task-0").write_text("began\nbegan\ndone\n")
    (tmp_path / "task-1").write_text("began\ndone\nbegan\ndone\n")
    of_site = [ran("1", 60.0, 100.0, "a"), ran("2", 0.0, 90.0, "b")]
    lent = [ran("7_0", 0.0, 20.0, "a", "REQUEUED"), ran("7_0", 25.0, 50.0, "a"), ran("8_0", 92.0, 99.0, "b")]
    site: Any = SimpleNamespace(
        out=tmp_path,
        lab=SimpleNamespace(node_names=("a", "b")),
        submitted_s={"1": 30.0, "2": 0.0},
        accounting=lambda partition: of_site if partition == "main" else lent,
    )
    found = outcome_of(site, WHOLE, "7", 2, (0.0, 100.0))
    assert (found.done_once, found.done_again, found.completed, found.cut_off) == (1, 1, 1, 1)
    assert (found.idle_s, found.lent_share, found.useful_share) == pytest.approx((60.0, 45 / 60, 25 / 60))
    assert found.tasks_share == pytest.approx(25 / 60)
    assert (found.busy_s, found.busy_lent_share, found.busy_useful_share) == pytest.approx((30.0, 25 / 30, 5 / 30))


def test_where_jobs_share_nodes_it_counts_gpus(tmp_path: Path) -> None:
    of_site = [replace(ran("1", 0.0, 100.0, "a"), gpus=7)]
    runs = [ran("7_0", 10.0, 30.0, "a", "PREEMPTED"), ran("7_0", 40.0, 90.0, "a"), ran("8_0", 0.0, 9.0, "a")]
    lent = [replace(run, gpus=1) for run in runs]
    site: Any = SimpleNamespace(
        out=tmp_path,
        lab=SimpleNamespace(node_names=("a",)),
        submitted_s={"1": 40.0},
        accounting=lambda partition, qos: of_site if qos == "normal" else lent,
    )
    found = outcome_of(site, SHARED, "7", 1, (0.0, 100.0))
    assert (found.idle_s, found.lent_share, found.useful_share) == pytest.approx((100.0, 79 / 100, 59 / 100))
    assert found.tasks_share == pytest.approx(50 / 100)
    assert (found.busy_s, found.busy_lent_share, found.busy_useful_share) == pytest.approx((40.0, 29 / 40, 9 / 40))
