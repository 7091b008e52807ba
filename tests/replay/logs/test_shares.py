"""What lies idle on nodes that have jobs, and room for tasks there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core import holes as holes_module
from freetrain.core.amounts import Amount
from freetrain.core.holes import Holes, sorted_holes
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.logs.model import IdleShares, TaskPlaces, TaskRoom
from freetrain.replay.logs.shares import find_places, times_that_fit
from freetrain.replay.outcome import ShareOutcome, share_outcome, share_rows
from tests.replay.logs.build import HEADER, Write, hour, read, row, sacct
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import count_fitting, count_idle_parts

TRES_HEADER = HEADER + "|AllocTRES"
MACHINE = """
name = "one"
[[pools]]
name = "gpu"
nodes = "c[1-2]"
cores = 16
gpus = 4
memory_gib = 64
"""


def shares_of(log: SiteLog) -> IdleShares:
    assert log.shares is not None
    return log.shares


def parts(log: SiteLog) -> ShareOutcome:
    found = share_outcome(log)
    assert found is not None
    return found


def with_tres(*rows: str) -> str:
    return sacct(*rows, header=TRES_HEADER)


def machine(tmp_path: Path) -> Path:
    path = tmp_path / "machine.toml"
    path.write_text(MACHINE)
    return path


def test_beside_a_job_of_one_core_the_others_lie_idle(write: Write) -> None:
    log = read(write(sacct(row("1", start="01", end="02", cores="8"), row("2", start="05", end="08", cores="1"))))
    assert (parts(log).partly_used_node_hours, parts(log).partly_idle_cpu_hours) == (3.0, 21.0)
    assert parts(log).idle_nodes_cpu_hours == 20 * 8
    assert any("CPUs) is taken to be the most that jobs held there at once" in note for note in log.notes)


def test_a_machine_file_says_how_much_the_nodes_have(write: Write, tmp_path: Path) -> None:
    text = sacct(row("1", start="01", end="02", cores="8"), row("2", start="05", end="08", cores="1"))
    log = read(write(text), machine=machine(tmp_path))
    assert parts(log).partly_idle_cpu_hours == 1 * 8 + 3 * 15
    assert not any("at once" in note for note in log.notes)


def test_jobs_that_follow_each_other_are_not_there_at_once(write: Write) -> None:
    log = read(write(sacct(row("1", start="01", end="02"), row("2", start="02", end="03"))))
    assert shares_of(log).cpus.size.tolist() == [8.0]
    assert parts(log).partly_idle_cpu_hours == 0.0


def test_memory_and_gpus_count_beside_an_idle_cpu_alone(write: Write, tmp_path: Path) -> None:
    text = with_tres(
        row("1", start="01", end="03", cores="4", list="c1", tres="cpu=4,gres/gpu:a100=1,gres/gpu=1,mem=16G"),
        row("2", start="02", end="03", cores="12", list="c1", tres="cpu=12,mem=8192M"),
    )
    done = parts(read(write(text), machine=machine(tmp_path)))
    assert (done.partly_used_node_hours, done.partly_idle_cpu_hours) == (1.0, 12.0)
    assert (done.partly_idle_memory_gib_hours, done.partly_idle_gpu_hours) == (48.0, 3.0)
    assert (done.idle_nodes_memory_gib_hours, done.idle_nodes_gpu_hours) == (46 * 64.0, 46 * 4.0)


def test_what_jobs_on_several_nodes_hold_is_spread_evenly_and_says_less_of_sizes(write: Write) -> None:
    text = sacct(
        row("1", start="01", end="04", cores="30", nodes="3", list="c[1-3]"),
        row("2", start="02", end="05", cores="6", list="c1"),
    )
    log = read(write(text))
    # c1 has at least 10 CPUs, not 16: nobody knows how many of the 30 were there while the second job ran.
    assert shares_of(log).cpus.size.tolist() == [10.0, 10.0, 10.0]
    assert parts(log).partly_idle_cpu_hours == 4.0
    assert any("83 % of the CPU time was held by jobs on several nodes" in note for note in log.notes)


def test_a_node_with_a_job_of_unknown_size_counts_as_used(write: Write) -> None:
    text = sacct(
        row("1", start="01", end="02", cores="8"),
        row("2", start="05", end="09", cores="1"),
        row("3", start="06", end="08", cores=""),
    )
    log = read(write(text))
    assert (parts(log).partly_idle_cpu_hours, parts(log).held_unknown_node_hours) == (14.0, 2.0)
    assert any("For 2 node-hours the log does not say how much of the CPUs" in note for note in log.notes)


def test_a_log_that_says_nothing_of_cpus_or_names_no_nodes_shows_no_idle_parts(write: Write) -> None:
    unsaid = read(write(sacct(row("1", cores=""))))
    packed = read(write(sacct(row("1", list="", nodes="1"))), nodes=4)
    events = read(write("t,node,idle\n1717372800,a,1\n1717376400,a,0\n"))
    assert (unsaid.shares, packed.shares, events.shares) == (None, None, None)


def test_jobs_packed_by_the_core_leave_parts_of_nodes_idle(write: Write, tmp_path: Path) -> None:
    path = machine(tmp_path)
    path.write_text(MACHINE + "shared = true\n")
    log = read(write(sacct(row("1", start="01", end="02", cores="20", list="", nodes=""))), machine=path)
    assert (parts(log).partly_used_node_hours, parts(log).partly_idle_cpu_hours) == (1.0, 12.0)


def test_a_node_out_of_service_has_no_idle_parts(write: Write, tmp_path: Path) -> None:
    states = tmp_path / "states"
    states.write_text("NodeName|TimeStart|TimeEnd|State\nc1|2024-06-03T07:00:00|2024-06-03T20:00:00|DRAIN\n")
    text = sacct(row("1", start="01", end="02", cores="8"), row("2", start="05", end="08", cores="1"))
    assert parts(read(write(text), node_states=states)).partly_idle_cpu_hours == 14.0


def test_hours_and_nodes_that_are_left_out_do_not_count(write: Write) -> None:
    jobs = [row(str(number), start="01", end="02", list=f"c{number}") for number in range(1, 41)]
    text = sacct(*jobs, row("99", start="04", end="06", cores="1", list="c7"))
    assert parts(read(write(text))).partly_idle_cpu_hours == 14.0
    assert parts(read(write(text), skip_empty_hours=True)).partly_idle_cpu_hours == 0.0
    assert parts(read(write(text), only_nodes="c[6-8]")).partly_idle_cpu_hours == 14.0
    assert parts(read(write(text), only_nodes="c[1-6]")).partly_idle_cpu_hours == 0.0


@pytest.mark.parametrize(("seed", "rows_at_once"), [(1, 1 << 18), (2, 60)])
def test_as_much_lies_idle_as_a_count_of_every_second_finds(
    write: Write, seed: int, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes_module, "_ROWS_AT_ONCE", rows_at_once)
    text = make_gpu_log(seed)
    log = read(write(text), until_s=hour(6))
    counted = count_idle_parts(text, int(hour(0)), int(hour(6)))
    shares = shares_of(log)
    assert shares.memory_bytes is not None
    assert shares.gpus is not None
    assert shares.node_names == tuple(counted)
    assert 0 < shares.spread < 0.5
    for kind, found_s in (
        ("node", shares.partly_used_s),
        ("cpu", shares.cpus.idle_s),
        ("memory", shares.memory_bytes.idle_s),
        ("gpu", shares.gpus.idle_s),
    ):
        by_hand = [counted[name][kind] for name in shares.node_names]
        assert sum(by_hand) > 5
        assert (found_s / 3600).tolist() == pytest.approx(by_hand, rel=1e-6, abs=1e-6)


def test_idle_parts_are_told_by_partition_and_type_of_gpu(write: Write) -> None:
    log = read(write(make_gpu_log(1)), until_s=hour(6))
    rows = {(row.what, row.name): row for row in share_rows(log)}
    assert {key: row.nodes for key, row in rows.items()} == {
        ("partition", "gpu"): 9,
        ("partition", "batch"): 3,
        ("GPU", "a100"): 6,
        ("GPU", "v100"): 3,
    }
    whole = parts(log)
    assert whole.partly_idle_cpu_hours == pytest.approx(
        sum(row.outcome.partly_idle_cpu_hours for (what, _), row in rows.items() if what == "partition")
    )
    assert whole.partly_idle_gpu_hours == pytest.approx(
        sum(row.outcome.partly_idle_gpu_hours or 0 for (what, _), row in rows.items() if what == "GPU")
    )


@pytest.mark.parametrize(
    ("tres", "memory_gib", "gpus", "types"),
    [
        ("cpu=8,mem=1.50T,node=1,gres/gpu=2", 1536.0, 2, ("",)),
        ("cpu=8,mem=2048,node=1,gres/gpu:a100=2", 2.0, 2, ("a100",)),
        ("cpu=8,gres/gpu:1g.5gb=1,gres/gpu:3g.20gb=2,gres/gpu=3,mem=512M", 0.5, 3, ("1g.5gb+3g.20gb",)),
        ("cpu=8,gres/gpumem=40G,gres/gpuutil=90,gres/gpu=1,mem=1G", 1.0, 1, ("",)),
    ],
)
def test_memory_and_gpus_are_read_from_the_list_of_resources(
    write: Write, tres: str, memory_gib: float, gpus: int, types: tuple[str, ...]
) -> None:
    shares = shares_of(read(write(with_tres(row("1", tres=tres)))))
    assert shares.memory_bytes is not None
    assert shares.gpus is not None
    assert (shares.memory_bytes.size[0], shares.gpus.size[0]) == (memory_gib * 2**30, gpus)
    assert shares.gpu_types == types


def test_a_number_of_gpus_that_no_machine_has_is_none_that_is_known(write: Write) -> None:
    rows = (row("1", tres="cpu=8,gres/gpu=3000000000"), row("2", start="05", end="06", tres="cpu=8,gres/gpu=2"))
    gpus = shares_of(read(write(with_tres(*rows)))).gpus
    assert gpus is not None
    assert gpus.size.tolist() == [2.0]


def test_shards_of_gpus_are_told_and_not_counted(write: Write) -> None:
    log = read(write(with_tres(row("1", tres="cpu=8,mem=1G,gres/shard:a100=2"))))
    assert shares_of(log).gpus is None
    assert any("gres/shard" in note for note in log.notes)


def test_json_tells_what_jobs_hold_too(write: Write) -> None:
    tres = [
        {"type": "cpu", "name": "", "count": 8},
        {"type": "mem", "name": "", "count": 2048},
        {"type": "gres", "name": "gpu", "count": 4},
        {"type": "gres", "name": "gpu:a100", "count": 4},
    ]
    time = {"submission": int(hour(0)), "start": int(hour(1)), "end": int(hour(2))}
    job = {"job_id": 1, "nodes": "c1", "allocation_nodes": 1, "time": time, "tres": {"allocated": tres}}
    shares = shares_of(read(write(json.dumps({"jobs": [job]}))))
    assert shares.memory_bytes is not None
    assert shares.gpus is not None
    assert (shares.cpus.size[0], shares.memory_bytes.size[0], shares.gpus.size[0]) == (8, 2**31, 4)
    assert shares.gpu_types == ("a100",)


def test_a_gpu_serves_whole_or_in_parts_never_both(write: Write) -> None:
    """Each hundred of gres/mps is a GPU, which none of those is that other jobs have as whole ones."""
    rows = (row("1", tres="cpu=4,mem=1G,gres/mps=150"), row("2", tres="cpu=4,mem=1G,gres/gpu=2"))
    log = read(write(with_tres(*rows)))
    gpus = shares_of(log).gpus
    assert gpus is not None
    assert gpus.size.tolist() == [4.0]
    assert any("gres/mps" in note for note in log.notes)


GPU_TASK = Amount(4, 16 * 1024, (("gpu", 1),))


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
    by_group = {
        f"{share_row.what} {share_row.name}": share_row.outcome.partly_fitting_task_hours
        for share_row in share_rows(log)
    }
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
