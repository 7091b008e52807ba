"""Where trainers come from, what their tasks ask for, and which of them are let in."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from freetrain.core.amounts import Amount
from freetrain.core.place import node_of
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.errors import InputError
from freetrain.lending.facts import Request
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.logs import SiteLog, TaskRequest
from freetrain.replay.outcome import lent_of
from freetrain.replay.study import Study, study_shapes
from freetrain.replay.trainers import (
    CURVES,
    PRESETS,
    TaskShapes,
    TrainerQueue,
    find_trainers,
    read_task,
    read_trainers,
    with_other_kinds,
    with_own_tasks,
)
from tests.replay.as_daemon.test_site import WOKEN, in_parts
from tests.replay.as_daemon.test_site import play as play_as_daemon
from tests.replay.logs.build import Write, hour, read, row
from tests.replay.logs.conftest import write as write
from tests.replay.logs.gpu_log import make_gpu_log
from tests.replay.logs.second_by_second import fitting_by_second
from tests.replay.logs.test_shares import machine, with_tres
from tests.replay.test_share_outcome import ALL_OF_IT, GPU_TASK, HOURS, TASK
from tests.seeds import seeds


def a_file(*trainers: dict[str, Any]) -> str:
    return json.dumps({"format": "freetrain-trainers/1", "trainers": list(trainers)})


A: dict[str, Any] = {"id": "A", "throughput": [[1, 10.0]], "submitted": 200}
B: dict[str, Any] = {"id": "B", "throughput": [[1, 10.0]], "submitted": 100}


def test_trainers_come_in_order_of_submission(tmp_path: Path) -> None:
    path = tmp_path / "trainers.json.gz"
    path.write_bytes(gzip.compress(a_file(A, B).encode()))
    assert [trainer.id for trainer in read_trainers(path)] == ["B", "A"]


def test_trainers_can_be_written_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "trainers.toml"
    path.write_text(
        'format = "freetrain-trainers/1"\n[[trainers]]\nid = "A"\nsubmitted = 2024-06-03T00:00:00Z\n'
        "throughput = [[1, 10.0], [2, 19.0]]\nmin_nodes = 1\n"
    )
    (trainer,) = read_trainers(path)
    assert trainer.submitted_s == 1717372800.0


def test_missing_fields_take_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "trainers.json"
    path.write_text(a_file({"id": "A", "throughput": [[1, 10.0]]}))
    (trainer,) = read_trainers(path)
    assert (trainer.scale_up_s, trainer.scale_down_s, trainer.start_s) == (18.0, 12.0, 0.0)


def test_tasks_whose_size_stays_are_refused_in_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "trainers.json"
    path.write_text(a_file(A, {**B, "moldable": True}))
    with pytest.raises(InputError, match="trainer B is moldable, and a replay does not know how such tasks end"):
        read_trainers(path)


def test_presets_are_endless_and_start_afresh() -> None:
    first = [trainer.id for trainer in islice(find_trainers("preset:mix"), 8)]
    assert first == [trainer.id for trainer in islice(find_trainers("preset:mix"), 8)]
    assert first[0].startswith("AlexNet")
    assert first[7].startswith("AlexNet")
    assert len(set(first)) == 8


def test_a_preset_with_a_seed_takes_all_networks_in_each_turn_in_an_order_of_its_own() -> None:
    def networks(source: str) -> list[str]:
        return [trainer.id.rpartition("-")[0] for trainer in islice(find_trainers(source), 14)]

    assert networks("preset:mix@3") == networks("preset:mix@3") != networks("preset:mix@4")
    assert networks("preset:mix@3")[:7] != networks("preset:mix@3")[7:]
    for turn in (networks("preset:mix@3")[:7], networks("preset:mix@3")[7:]):
        assert sorted(turn) == sorted(networks("preset:mix")[:7])


@pytest.mark.parametrize("seed_text", ["", "x", "-1", "1.5"])
def test_a_seed_that_is_no_whole_number_is_refused(seed_text: str) -> None:
    with pytest.raises(InputError, match="no whole number"):
        find_trainers(f"preset:mix@{seed_text}")


def test_presets_hold_the_seven_measured_networks() -> None:
    assert len(CURVES) == 7
    assert CURVES["ShuffleNet"][0] == (1, 2831.0)
    assert CURVES["VGG-16"][-1] == (64, 70151.7)
    assert {trainer.throughput for trainer in islice(PRESETS["hpo"], 5)} == {CURVES["ShuffleNet"]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (a_file(A | {"min_nodes": 5, "max_nodes": 3}), r"trainers\[0\]: min_nodes 5 is more than max_nodes 3"),
        (a_file(A, A), "2 trainers with the id 'A'"),
        (a_file(), "trainers: "),
        (a_file({"id": "A"}), r"trainers\[0\].throughput: is missing"),
        (a_file(A | {"submitted": "noonish"}), r"trainers\[0\].submitted"),
        ('{"format": "something/1", "trainers": []}', "format: "),
        ("not json", "does not describe trainers"),
        ("[1, 2]", "does not describe trainers"),
    ],
)
def test_a_file_that_describes_no_trainers_is_told_in_a_sentence(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "trainers.json"
    path.write_text(content)
    with pytest.raises(InputError, match=complaint):
        read_trainers(path)


def test_a_missing_file_is_told_with_the_presets_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as refused:
        find_trainers(str(tmp_path / "none.json"))
    assert "preset:hpo" in refused.value.hint


def test_an_unknown_preset_is_told_with_those_there_are() -> None:
    with pytest.raises(InputError, match="no preset 'nas'") as refused:
        find_trainers("preset:nas")
    assert "preset:mix" in refused.value.hint


def test_the_kind_without_a_name_is_every_kind_that_is_not_named() -> None:
    trainer = Trainer("t", ((1, 10.0),), choices=(KindChoice(("a100",), 2.0), KindChoice(("",), 0.5)))
    known = with_other_kinds(trainer, ["a100", "v100", "cpu"])
    assert known.choices == (*(trainer.choices or ()), KindChoice(("cpu",), 0.5), KindChoice(("v100",), 0.5))
    assert with_other_kinds(trainer, ["a100"]) == trainer
    only_named = Trainer("t", ((1, 10.0),), choices=(KindChoice(("a100",)),))
    assert with_other_kinds(only_named, ["v100"]) == only_named


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
    return study_shapes(log, ReplaySetup(trainers, goal, time.perf_counter), in_parts())


def gpu_log(write: Write, text: str) -> SiteLog:
    return read(write(text), until_s=hour(HOURS), task=TaskRequest(GPU_TASK))


def lent_by_second(record: ReplayRecord, node: str, trainer: str) -> np.ndarray:
    count = np.zeros(HOURS * 3600, int)
    for lease in record.leases:
        if node_of(lease.place) == node and lease.trainer == trainer:
            begin, end = (round(at_s - hour(0)) for at_s in (lease.from_s, lease.until_s))
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


@pytest.mark.parametrize("seed", seeds(1, 8, first=1))
def test_tasks_of_several_shapes_leave_no_room_for_any_and_take_no_more_than_there_is(
    write: Write, seed: int
) -> None:
    text = make_gpu_log(seed, tries=120)
    done = play(gpu_log(write, text), SMALL, LARGE, CPUS)
    for node, kinds in left_by_second(text, done.record, list(OF)).items():
        assert all((left >= 0).all() for left in kinds.values()), node
        for name, each in OF.items():
            fits = np.all([kinds[kind] >= amount for kind, amount in each.items()], axis=0)
            assert not fits.any(), f"{name} on {node}"
    assert {lease.trainer for lease in done.record.leases} == set(OF), "each gets its share"


def test_as_the_daemon_they_never_have_more_than_there_is(write: Write) -> None:
    text = make_gpu_log(3, tries=120)
    log = gpu_log(write, text)
    record = play_as_daemon(log, [SMALL, LARGE, CPUS], WOKEN)
    for node, kinds in left_by_second(text, record, list(OF)).items():
        for kind, left in kinds.items():
            assert (left >= 0).mean() > 0.999, f"{kind} on {node}: but for the second in which Slurm takes it back"
    assert {lease.trainer for lease in record.leases} == set(OF)


def test_all_is_counted_in_tasks_of_the_usual_shape(write: Write, tmp_path: Path) -> None:
    """Of 16 CPUs 8 are free beside a job: one task of eight CPUs, which counts as two of four."""
    text = with_tres(row("1", start="00", end="23", cores="8", list="c1", tres="cpu=8"))
    log = read(write(text), machine=machine(tmp_path), task=TaskRequest(Amount(4)), until_s=hour(2))
    done = play(log, replace(ALL_OF_IT, task="cpu=8"))
    assert len(done.record.leases) == 1 + 2, "one beside the job, two on the node without any"
    lent = lent_of(done.record, log)
    assert lent is not None
    assert lent["partly_lent_task_hours"].sum() == pytest.approx(2 * 2 * 3600)
    assert lent["partly_lent_cpu_hours"].sum() == pytest.approx(8 * 2 * 3600)
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


def trainer(name: str, fewest: int = 1, submitted_s: float | None = None) -> Trainer:
    return Trainer(name, ((1, 10.0), (8, 80.0)), min_nodes=fewest, submitted_s=submitted_s)


def ids(trainers: list[Trainer]) -> list[str]:
    return [trainer.id for trainer in trainers]


def test_so_many_are_let_in_as_may_compete_in_order_of_submission() -> None:
    admission = TrainerQueue([trainer(name) for name in "ABC"], 2)
    assert ids(admission.let_in([], 4, 0.0)) == ["A", "B"]
    assert admission.next_arrival_s([1, 1], 4, 0.0) == inf
    assert admission.next_arrival_s([1], 4, 5.0) == 5.0
    assert ids(admission.let_in([1], 4, 5.0)) == ["C"]
    assert admission.is_empty


def test_who_has_not_been_submitted_yet_is_expected() -> None:
    admission = TrainerQueue([trainer("A", submitted_s=30.0)], 2)
    assert admission.let_in([], 4, 0.0) == []
    assert admission.next_arrival_s([], 4, 0.0) == 30.0
    assert ids(admission.let_in([], 4, 30.0)) == ["A"]


def test_who_needs_more_nodes_than_there_are_takes_nobodys_place() -> None:
    admission = TrainerQueue([trainer("A", fewest=5), trainer("B"), trainer("C")], 1)
    assert ids(admission.let_in([], 4, 0.0)) == ["A", "B"]
    assert admission.next_arrival_s([5, 1], 4, 0.0) == inf


def test_without_any_node_an_endless_queue_is_not_let_in() -> None:
    admission = TrainerQueue(PRESETS["hpo"], 3)
    assert len(admission.let_in([], 0, 0.0)) == 3


def test_an_endless_queue_of_trainers_that_cannot_run_is_not_let_in_either() -> None:
    admission = TrainerQueue((trainer(str(number), fewest=5) for number in range(10**6)), 3)
    assert len(admission.let_in([], 4, 0.0)) == 1000


def test_those_compete_that_could_run_whoever_came_first_first() -> None:
    admission = TrainerQueue([], 2)
    needs = (("A", 5), ("B", 1), ("C", 2), ("D", 1))
    here = tuple(Request(trainer(name, fewest), "everybody") for name, fewest in needs)
    assert [request.id for request in admission.competing(here, 4)] == ["B", "C"]
    assert [request.id for request in admission.competing(here, 5)] == ["A", "B"]


def test_where_all_compete_they_are_the_same_ones() -> None:
    here = Request(trainer("A"), "everybody"), Request(trainer("B", fewest=3), "everybody")
    assert TrainerQueue([], 2).competing(here, 3) is here
    assert [request.id for request in TrainerQueue([], 2).competing(here, 2)] == ["A"]
    assert [request.id for request in TrainerQueue([], 1).competing(here, 3)] == ["A"]
