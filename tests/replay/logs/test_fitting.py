"""How many tasks would have fit beside jobs."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from freetrain.core.amounts import Amount
from freetrain.replay.logs import SiteLog, TaskAsked
from freetrain.replay.logs.fitting import lasting_place_s, times_that_fit
from freetrain.replay.share_outcome import ShareOutcome, share_document, share_outcome, share_rows
from tests.replay.logs.build import Write, hour, read, row
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import count_fitting
from tests.replay.logs.test_shares import machine, with_tres

GPU_TASK = Amount(4, 16 * 1024, (("gpu", 1),))


def parts(log: SiteLog) -> ShareOutcome:
    assert log.shares is not None
    return share_outcome(log.shares, log.holes)


def test_the_scarcest_decides_after_what_is_kept_back() -> None:
    cpus, gpus = np.array([16.0, 16.0, 3.0, np.nan]), np.array([4.0, 1.0, 4.0, 4.0])
    assert times_that_fit([(cpus, 4.0, 4.0), (gpus, 0.0, 1.0)], 4).tolist() == [3, 1, 0, 0]


def test_a_place_counts_that_is_there_for_long_enough_whatever_happens_beside_it() -> None:
    fits, lasts_s = np.array([0, 2, 1, 2, 0, 1, 0]), np.array([9.0, 50.0, 30.0, 60.0, 9.0, 59.0, 0.0])
    assert lasting_place_s(fits, lasts_s, 60.0).tolist() == [0, 50, 30, 120, 0, 0, 0]
    assert lasting_place_s(fits, lasts_s, 0.0).tolist() == [0, 100, 30, 120, 0, 59, 0]
    assert lasting_place_s(fits, lasts_s, 141.0).tolist() == [0] * 7
    assert not lasting_place_s(np.array([], np.int64), np.array([]), 60.0).size


def brute_place_s(fits: list[int], lasts_s: list[int], shortest_s: int) -> int:
    """The same second by second: for each place the runs of seconds in which it is there."""
    seconds = [count for count, lasts in zip(fits, lasts_s, strict=True) for _ in range(lasts)]
    found = 0
    for number in range(1, max(fits, default=0) + 1):
        there = "".join("x" if count >= number else " " for count in seconds)
        found += sum(len(run) for run in there.split() if len(run) >= shortest_s)
    return found


def test_places_are_those_that_are_found_second_by_second() -> None:
    draw = random.Random(7)
    for _ in range(200):
        fits = [draw.randint(0, 4) for _ in range(draw.randint(1, 12))] + [0]
        lasts_s = [draw.randint(1, 9) for _ in fits]
        shortest_s = draw.randint(1, 12)
        found = lasting_place_s(np.array(fits), np.array(lasts_s, float), shortest_s)
        assert found.sum() == brute_place_s(fits, lasts_s, shortest_s)


LOG = with_tres(
    row("1", start="01", end="03", cores="4", list="c1", tres="cpu=4,gres/gpu:a100=1,gres/gpu=1,mem=16G"),
    row("2", start="02", end="03", cores="4", list="c1", tres="cpu=4,mem=8192M"),
    row("3", start="05", end="07", cores="10", list="c2", partition="long", tres="cpu=10,gres/gpu:v100=2,mem=40G"),
)


def test_what_fits_beside_jobs_is_counted_by_node_partition_and_type_of_gpu(write: Write, tmp_path: Path) -> None:
    log = read(write(LOG), machine=machine(tmp_path), task=TaskAsked(GPU_TASK, shortest_s=3600.0))
    # c1: 3, then 2 as memory is left for 40 GiB; c2: 1 for two hours, with 6 CPUs and 24 GiB beside two GPUs.
    assert parts(log).partly_fitting_task_hours == 3 + 2 + 2 * 1
    assert parts(log).idle_nodes_fitting_task_hours == (24 - 2) * 4 + (24 - 2) * 4
    by_group = {f"{one.what} {one.name}": one.outcome.partly_fitting_task_hours for one in share_rows(log)}
    assert by_group == {"partition batch": 5, "partition long": 2, "GPU a100": 5, "GPU v100": 2}
    document = share_document(log)
    assert document is not None
    assert document["task"]["each"] == {"cpus": 4, "memory_mb": 16384, "gres": (("gpu", 1),)}


@pytest.mark.parametrize(
    ("keep", "shortest_s", "hours"), [(Amount(4), 0.0, 2 + 1 + 0), (Amount(), 3601.0, 2 * 2 + 2)]
)
def test_what_is_kept_back_and_too_short_does_not_fit(
    write: Write, tmp_path: Path, keep: Amount, shortest_s: float, hours: float
) -> None:
    log = read(write(LOG), machine=machine(tmp_path), task=TaskAsked(GPU_TASK, keep, shortest_s))
    assert parts(log).partly_fitting_task_hours == hours


@pytest.mark.parametrize("shortest_s", [0, 600])
def test_what_fits_is_what_is_counted_second_by_second(write: Write, shortest_s: int) -> None:
    text = make_gpu_log(3)
    log = read(write(text), until_s=hour(6), task=TaskAsked(GPU_TASK, shortest_s=shortest_s))
    task = {"cpu": 4, "memory": 16 * 2.0**30, "gpu": 1}
    counted = count_fitting(text, int(hour(0)), int(hour(6)), task, shortest_s)
    assert log.shares is not None
    assert log.shares.fitting is not None
    assert log.shares.node_names == tuple(counted)
    assert sum(counted.values()) > 20
    assert (log.shares.fitting.beside_jobs_s / 3600).tolist() == pytest.approx([*counted.values()], abs=1e-6)


def test_memory_of_which_the_log_says_nothing_is_not_asked_for(write: Write, tmp_path: Path) -> None:
    text = with_tres(row("1", start="01", end="03", cores="8", list="c1", tres="cpu=8"))
    log = read(write(text), machine=machine(tmp_path), task=TaskAsked(Amount(4, 16 * 1024)))
    assert parts(log).partly_fitting_task_hours == 2 * 2
    assert any("says of no job how much memory it held" in note for note in log.notes)


def test_gpus_of_which_the_log_says_nothing_are_not_taken_for_free(write: Write, tmp_path: Path) -> None:
    silent = with_tres(row("1", start="01", end="03", cores="8", list="c1", tres=""))
    none = with_tres(row("1", start="01", end="03", cores="8", list="c1", tres="cpu=8"))
    for text, hours in ((silent, 0), (none, 2 * 4)):
        log = read(write(text), machine=machine(tmp_path), task=TaskAsked(Amount(1, 0, (("gpu", 1),))))
        assert parts(log).partly_fitting_task_hours == hours
        assert parts(log).partly_idle_gpu_hours is None


def test_without_being_asked_nothing_is_counted(write: Write, tmp_path: Path) -> None:
    log = read(write(LOG), machine=machine(tmp_path))
    assert parts(log).partly_fitting_task_hours is None
