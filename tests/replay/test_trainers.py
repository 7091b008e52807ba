from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from freetrain.core.trainer import KindChoice, Trainer
from freetrain.errors import InputError
from freetrain.replay.trainers import CURVES, PRESETS, find_trainers, read_trainers, with_other_kinds


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
