"""The list of what there is to choose from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.policies import FINISHERS, PLACERS, POLICIES
from tests.installing import install_policy


def listed() -> dict[str, dict[str, str]]:
    result = CliRunner().invoke(cli, ["policies", "--json"])
    return {about["name"]: about for about in json.loads(result.stdout)["policies"]}


def test_every_policy_placer_and_finisher_has_a_line_of_its_own() -> None:
    text = CliRunner().invoke(cli, ["policies"]).stdout
    for name in (*POLICIES, *PLACERS, *FINISHERS):
        assert sum(line.split()[1:2] == [name] for line in text.splitlines()) == 1


def test_what_a_placer_needs_to_know_is_said() -> None:
    assert "scontrol show topology" in listed()["ring"]["needs"]
    assert listed()["greedy"]["needs"] == "nothing"


def test_what_of_the_objective_each_policy_heeds_is_said() -> None:
    heeds = {name: about["heeds"] for name, about in listed().items() if about["stage"] == "policy"}
    expected = dict.fromkeys(("freetrain", "greedy"), "all of it")
    expected |= dict.fromkeys(("equal-share", "gadget", "smd"), "deadlines, energy")
    assert expected.items() <= heeds.items()
    assert listed()["ring"]["heeds"] == ""


def test_what_packages_bring_is_listed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "class Still:\n    def __init__(self, topology):\n        ...\n    def place(self, problem, counts): ...\n"
    )
    install_policy(tmp_path, monkeypatch, "faraway", "faraway_placer", code, "freetrain.placers")
    assert listed()["faraway"]["stage"] == "placer"
