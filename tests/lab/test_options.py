from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from freetrain.errors import InputError
from freetrain.lab import LabOptions


def test_ports_of_a_lab_do_not_overlap() -> None:
    options = LabOptions(nodes=3, accounting=True, base_port=21_000)
    assert options.ports == (21_000, 21_001, 21_010, 21_011, 21_012)
    assert LabOptions(nodes=1, base_port=21_000).ports == (21_000, 21_010)


@pytest.mark.parametrize(
    ("nodes", "first", "last"), [(1, "n001", "n001"), (16, "n001", "n016"), (1000, "n0001", "n1000")]
)
def test_node_names_are_of_one_width(nodes: int, first: str, last: str) -> None:
    names = LabOptions(nodes=nodes).node_names
    assert (names[0], names[-1], len(names)) == (first, last, nodes)


def test_options_survive_their_document() -> None:
    options = LabOptions(
        nodes=2, settings={"KillWait": "5"}, job_submit=Path("/tmp/x.lua"), job_comp=Path("/tmp/y.lua")
    )
    assert LabOptions.from_json(json.loads(json.dumps(options.to_json()))) == options
    assert LabOptions.from_json(LabOptions().to_json()) == LabOptions()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"nodes": 0}, "between 1 and"),
        ({"fake": -1}, "imaginary"),
        ({"cpus": 0}, "at least one CPU"),
        ({"grace_s": -1}, "negative"),
        ({"nodes_per_leaf": -1}, "A leaf has no -1 nodes"),
        ({"base_port": 80}, "Ports 80 to 93"),
        ({"base_port": 65_530}, "are not all within"),
        ({"preempt_mode": "PAUSE"}, "REQUEUE, CANCEL, SUSPEND, OFF"),
        ({"settings": {"StateSaveLocation": "/x"}}, "chooses StateSaveLocation itself"),
        ({"settings": {"nodename": "x"}}, "chooses nodename itself"),
        ({"settings": {"KillWait": "1\nNodeName=x"}}, "no setting of one line"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        LabOptions(**wrong)
