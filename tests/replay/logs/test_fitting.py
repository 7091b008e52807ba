"""How many tasks would have fit beside jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core.amounts import Amount
from freetrain.core.holes import Holes, sorted_holes
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.logs.model import TaskPlaces, TaskRoom
from freetrain.replay.logs.shares import find_places, times_that_fit
from freetrain.replay.share_outcome import ShareOutcome, share_outcome, share_rows
from tests.replay.logs.build import Write, hour, read, row
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import count_fitting
from tests.replay.logs.test_shares import machine, with_tres

GPU_TASK = Amount(4, 16 * 1024, (("gpu", 1),))


def parts(log: SiteLog) -> ShareOutcome:
    found = share_outcome(log)
    assert found is not None
    return found


def test_the_scarcest_decides_after_what_is_kept_back() -> None:
    cpus, gpus = np.array([16.0, 16.0, 3.0, np.nan]), np.array([4.0, 1.0, 4.0, 4.0])
    assert times_that_fit([(cpus, 4.0, 4.0), (gpus, 0.0, 1.0)], 4).tolist() == [3, 1, 0, 0]


def room(rows: list[tuple[int, float, float, int]], on_empty: list[int], shortest_s: float = 0.0) -> TaskRoom:
    node, start_s, end_s, tasks = (np.array([row[column] for row in rows], int) for column in range(4))
    task = TaskRequest(Amount(1), shortest_s=shortest_s)
    columns = (node.astype(np.int32), start_s.astype(float), end_s.astype(float), tasks)
    return TaskRoom(task, np.array(on_empty), *columns, np.ones((len(on_empty), 3)))


def holes(*rows: tuple[int, float, float]) -> Holes:
    node, start_s, end_s = (np.array([row[column] for row in rows], float) for column in range(3))
    return sorted_holes(("a", "b"), node.astype(np.int32), start_s, end_s, 0.0, 100.0)


def times_of(places: TaskPlaces) -> dict[str, list[tuple[float, float]]]:
    its = places.holes
    return {
        name: [
            (start, end) for node, start, end in zip(its.node, its.start_s, its.end_s, strict=True) if node == row
        ]
        for row, name in enumerate(its.node_names)
    }


ROOM = [(0, 0.0, 20.0, 2), (0, 20.0, 30.0, 1), (0, 40.0, 50.0, 1), (1, 10.0, 100.0, 1)]


def test_a_place_is_there_as_long_as_so_many_tasks_fit_beside_jobs_or_alone() -> None:
    places = find_places(room(ROOM, [3, 0]), holes((0, 50.0, 60.0), (1, 0.0, 10.0)))
    assert times_of(places) == {
        "a#+1": [(0, 30), (40, 60)], "a#+2": [(0, 20), (50, 60)], "a#+3": [(50, 60)], "b#+1": [(10, 100)],
    }  # fmt: skip
    assert places.node.tolist() == [0, 0, 0, 1]
    assert places.beside_jobs_s.tolist() == [2 * 20 + 10 + 10, 90]
    assert places.idle_nodes_s.tolist() == [3 * 10, 0]
    assert places.holes.in_parts


def test_a_place_that_is_there_for_too_short_a_time_is_none() -> None:
    places = find_places(room(ROOM, [3, 0], shortest_s=20.0), holes((0, 50.0, 60.0)))
    assert times_of(places) == {"a#+1": [(0, 30), (40, 60)], "a#+2": [(0, 20)], "a#+3": [], "b#+1": [(10, 100)]}
    assert places.idle_nodes_s.tolist() == [10, 0]


def test_where_nothing_ever_fits_there_are_no_places() -> None:
    places = find_places(room([], [0, 0]), holes((0, 50.0, 60.0)))
    assert (places.holes.node_names, len(places.holes), places.idle_nodes_s.tolist()) == ((), 0, [0, 0])


def test_places_have_the_kinds_of_their_nodes() -> None:
    kinds = replace(holes((0, 50.0, 60.0)), kind_of={"a": "new", "b": "old"})
    places = find_places(room(ROOM, [1, 0]), kinds)
    assert places.holes.kind_of == {"a#+1": "new", "a#+2": "new", "b#+1": "old"}


LOG = with_tres(
    row("1", start="01", end="03", cores="4", list="c1", tres="cpu=4,gres/gpu:a100=1,gres/gpu=1,mem=16G"),
    row("2", start="02", end="03", cores="4", list="c1", tres="cpu=4,mem=8192M"),
    row("3", start="05", end="07", cores="10", list="c2", partition="long", tres="cpu=10,gres/gpu:v100=2,mem=40G"),
)


def test_what_fits_beside_jobs_is_counted_by_node_partition_and_type_of_gpu(write: Write, tmp_path: Path) -> None:
    log = read(write(LOG), machine=machine(tmp_path), task=TaskRequest(GPU_TASK, shortest_s=3600.0))
    # c1: 3, then 2 as memory is left for 40 GiB; c2: 1 for two hours, with 6 CPUs and 24 GiB beside two GPUs.
    assert parts(log).partly_fitting_task_hours == 3 + 2 + 2 * 1
    assert parts(log).idle_nodes_fitting_task_hours == (24 - 2) * 4 + (24 - 2) * 4
    by_group = {f"{one.what} {one.name}": one.outcome.partly_fitting_task_hours for one in share_rows(log)}
    assert by_group == {"partition batch": 5, "partition long": 2, "GPU a100": 5, "GPU v100": 2}


@pytest.mark.parametrize(
    ("keep", "shortest_s", "hours"), [(Amount(4), 0.0, 2 + 1 + 0), (Amount(), 86400.0, 2 * 2 + 2)]
)
def test_what_is_kept_back_and_too_short_does_not_fit(
    write: Write, tmp_path: Path, keep: Amount, shortest_s: float, hours: float
) -> None:
    log = read(write(LOG), machine=machine(tmp_path), task=TaskRequest(GPU_TASK, keep, shortest_s))
    assert parts(log).partly_fitting_task_hours == hours


@pytest.mark.parametrize("shortest_s", [0, 600])
def test_what_fits_is_what_is_counted_second_by_second(write: Write, shortest_s: int) -> None:
    text = make_gpu_log(3)
    log = read(write(text), until_s=hour(6), task=TaskRequest(GPU_TASK, shortest_s=shortest_s))
    task = {"cpu": 4, "memory": 16 * 2.0**30, "gpu": 1}
    counted = count_fitting(text, int(hour(0)), int(hour(6)), task, shortest_s)
    assert log.places is not None
    assert log.holes.node_names == tuple(counted)
    beside, alone = (np.array(column) for column in zip(*counted.values(), strict=True))
    assert (beside.sum() > 20, alone.sum() > 20) == (True, True)
    assert (log.places.beside_jobs_s / 3600).tolist() == pytest.approx(beside.tolist(), abs=1e-6)
    assert (log.places.idle_nodes_s / 3600).tolist() == pytest.approx(alone.tolist(), abs=1e-6)


def test_memory_of_which_the_log_says_nothing_is_not_asked_for(write: Write, tmp_path: Path) -> None:
    text = with_tres(row("1", start="01", end="03", cores="8", list="c1", tres="cpu=8"))
    log = read(write(text), machine=machine(tmp_path), task=TaskRequest(Amount(4, 16 * 1024)))
    assert parts(log).partly_fitting_task_hours == 2 * 2
    assert any("says of no job how much memory it held" in note for note in log.notes)


def test_gpus_of_which_the_log_says_nothing_are_not_taken_for_free(write: Write, tmp_path: Path) -> None:
    silent = with_tres(row("1", start="01", end="03", cores="8", list="c1", tres=""))
    none = with_tres(row("1", start="01", end="03", cores="8", list="c1", tres="cpu=8"))
    for text, hours in ((silent, 0), (none, 2 * 4)):
        log = read(write(text), machine=machine(tmp_path), task=TaskRequest(Amount(1, 0, (("gpu", 1),))))
        assert parts(log).partly_fitting_task_hours == hours
        assert parts(log).partly_idle_gpu_hours is None


def test_without_being_asked_nothing_is_counted(write: Write, tmp_path: Path) -> None:
    log = read(write(LOG), machine=machine(tmp_path))
    assert parts(log).partly_fitting_task_hours is None
