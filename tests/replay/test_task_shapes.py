"""Trainers whose tasks differ in what they ask for of the nodes that a replay lends in parts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core.amounts import Amount
from freetrain.core.fragment import node_of
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.share_outcome import lent_of
from freetrain.replay.study import Costs, Study, study_shapes
from freetrain.replay.trainers import TaskShapes, read_task, read_trainers, with_own_tasks
from tests.replay.as_daemon.test_shared_nodes import WOKEN, in_parts
from tests.replay.as_daemon.test_shared_nodes import play as play_as_daemon
from tests.replay.logs.build import Write, hour, read, row
from tests.replay.logs.conftest import write as write
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import fitting_by_second
from tests.replay.logs.test_shares import machine, with_tres
from tests.replay.test_lent_shares import ALL_OF_IT, GPU_TASK, HOURS, TASK

SMALL = replace(ALL_OF_IT, id="small", task="gres/gpu=1,cpu=4,mem=16G")
LARGE = replace(ALL_OF_IT, id="large", task="gres/gpu=2,cpu=4,mem=8G")
CPUS = replace(ALL_OF_IT, id="cpus", task="cpu=3,mem=4G")
OF = {
    "small": {"cpu": 4, "memory": 16 * 1024, "gpu": 1},
    "large": {"cpu": 4, "memory": 8 * 1024, "gpu": 2},
    "cpus": {"cpu": 3, "memory": 4 * 1024, "gpu": 0},
}


def play(log: SiteLog, *trainers: Trainer) -> Study:
    goal = Goal.of(find_policy("greedy"), "throughput")
    return study_shapes(log, trainers, Costs(), in_parts(), goal, time.perf_counter)


def gpu_log(write: Write, text: str) -> SiteLog:
    return read(write(text), until_s=hour(HOURS), task=TaskRequest(GPU_TASK))


def lent_by_second(record: ReplayRecord, node: str, trainer: str) -> np.ndarray:
    count = np.zeros(HOURS * 3600, int)
    for one in record.leases:
        if node_of(one.place) == node and one.trainer == trainer:
            begin, end = (round(at_s - hour(0)) for at_s in (one.from_s, one.until_s))
            count[begin:end] += 1
    return count


def left_by_second(text: str, record: ReplayRecord, names: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """Node → kind → what neither jobs nor trainers have of it."""
    units = {"cpu": 1.0, "memory": 2.0**20, "gpu": 1.0}
    left: dict[str, dict[str, np.ndarray]] = {}
    for kind, unit in units.items():
        for node, free in fitting_by_second(text, int(hour(0)), int(hour(HOURS)), {kind: unit}).items():
            lent = sum(OF[name][kind] * lent_by_second(record, node, name) for name in names)
            left.setdefault(node, {})[kind] = free - lent
    return left


@pytest.mark.parametrize("seed", [1, 2])
def test_who_takes_all_that_there_is_has_what_is_counted_second_by_second(write: Write, seed: int) -> None:
    text = make_gpu_log(seed, tries=250)
    done = play(gpu_log(write, text), SMALL)
    fits = fitting_by_second(text, int(hour(0)), int(hour(HOURS)), TASK)
    for node, count in fits.items():
        assert (lent_by_second(done.record, node, "small") == count).all(), node
    assert done.outcome.lent_node_hours == pytest.approx(done.outcome.idle_node_hours)


@pytest.mark.parametrize("seed", [1, 2])
def test_tasks_of_several_shapes_leave_no_room_for_any_and_take_no_more_than_there_is(
    write: Write, seed: int
) -> None:
    text = make_gpu_log(seed, tries=250)
    done = play(gpu_log(write, text), SMALL, LARGE, CPUS)
    for node, kinds in left_by_second(text, done.record, list(OF)).items():
        assert all((left >= 0).all() for left in kinds.values()), node
        for name, each in OF.items():
            fits = np.all([kinds[kind] >= amount for kind, amount in each.items()], axis=0)
            assert not fits.any(), f"{name} on {node}"
    assert {one.trainer for one in done.record.leases} == set(OF), "each gets its share"


def test_as_the_daemon_they_never_have_more_than_there_is(write: Write) -> None:
    text = make_gpu_log(3, tries=250)
    log = gpu_log(write, text)
    record = play_as_daemon(log, [SMALL, LARGE, CPUS], WOKEN)
    for node, kinds in left_by_second(text, record, list(OF)).items():
        for kind, left in kinds.items():
            assert (left >= 0).mean() > 0.999, f"{kind} on {node}: but for the second in which Slurm takes it back"
    assert {one.trainer for one in record.leases} == set(OF)


def test_all_is_counted_in_tasks_of_the_usual_shape(write: Write, tmp_path: Path) -> None:
    """Of 16 CPUs 8 are free beside a job: one task of eight CPUs, which counts as two of four."""
    text = with_tres(row("1", start="00", end="23", cores="8", list="c1", tres="cpu=8"))
    log = read(write(text), machine=machine(tmp_path), task=TaskRequest(Amount(4)), until_s=hour(2))
    done = play(log, replace(ALL_OF_IT, task="cpu=8"))
    assert len(done.record.leases) == 1 + 2, "one beside the job, two on the node without any"
    lent = lent_of(done, log)
    assert lent is not None
    assert lent.beside_jobs_s.sum() == pytest.approx(2 * 2 * 3600)
    assert lent.cpus_beside_jobs_s.sum() == pytest.approx(8 * 2 * 3600)
    assert (
        done.outcome.lent_node_hours == pytest.approx(2 * (2 + 4)) == pytest.approx(done.outcome.idle_node_hours)
    )


def test_a_task_counts_by_its_gpus_where_the_usual_one_has_some_else_by_its_cpus() -> None:
    with_gpu, without = (TaskShapes(Amount(4, 1000, gres), True) for gres in ((("gpu", 1),), ()))
    tasks = ("", "gres/gpu=2,cpu=4", "cpu=8,mem=9G")
    counted = [
        [shapes.counts_as(replace(ALL_OF_IT, task=task)) for task in tasks] for shapes in (with_gpu, without)
    ]
    assert counted == [[1.0, 2.0, 0.0], [1.0, 1.0, 2.0]]
    assert TaskShapes(Amount(4, 1000), says_memory=False).of(ALL_OF_IT) == Amount(4)


def test_a_file_of_trainers_says_what_their_tasks_ask_for(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    text = 'format = "freetrain-trainers/1"\n[[trainers]]\nid = "a"\nthroughput = [[1, 1.0]]\ntask = "{}"\n'
    path.write_text(text.format("cpu=4,mem=16G,gres/gpu=2"))
    trainers = read_trainers(path)
    assert with_own_tasks(trainers) == trainers
    assert read_task(trainers[0].task) == Amount(4, 16384, (("gpu", 2),))
    for wrong, said in (("four", "'four' is no amount"), ("gres/gpu:a100=1", "a log tells of GPUs alone")):
        path.write_text(text.format(wrong))
        with pytest.raises(InputError, match=said):
            read_trainers(path)
