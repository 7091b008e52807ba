from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest
from click.testing import CliRunner

import freetrain
from freetrain import Client
from freetrain.cli.main import cli
from freetrain.client import TagValues
from freetrain.client.trainings import state_word
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.errors import InputError
from freetrain.slurm.tags import KEYS
from tests.cli.fake_slurm import FakeSlurm
from tests.cli.test_listings import LOOK, Site, site, task

__all__ = ["site"]


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An sbatch that takes everything, and a script in the working directory."""
    fake = FakeSlurm.on_path(tmp_path / "programs", monkeypatch, "sbatch")
    fake.answers("sbatch", "4711\n")
    monkeypatch.chdir(tmp_path)
    Path("train.sh").write_text("#!/bin/bash\n")
    return fake


def completed(site: Site) -> None:
    site.published(replace(LOOK, trainers=(TrainerStatus("1", "news", "complete"), *LOOK.trainers[1:])))


def test_what_is_submitted_is_what_the_command_would_submit(site: Site, sbatch: FakeSlurm) -> None:
    options = "--nodes 2-8 --name bert --dir runs --save 300 --notice yes --weight 2 --sbatch=--gpus-per-node=4"
    printed = CliRunner().invoke(cli, ["submit", "--dry-run", *options.split(), "train.sh", "a b"]).stdout
    job = Client().submit(
        "train.sh", "a b",
        nodes="2-8", name="bert", dir=Path("runs"), save=300, notice=True, weight=2, sbatch=["--gpus-per-node=4"],
    )  # fmt: skip
    assert job == "4711"
    assert [shlex.split(printed)] == sbatch.calls


def test_an_array_is_a_filler(site: Site, sbatch: FakeSlurm) -> None:
    Client().submit(Path("train.sh"), array="0-9", save=30.5, notice=False)
    assert {"--array=0-9", "--comment=freetrain:save=30.5,notice=no,kind=tasks"} < set(sbatch.calls[0])


def test_what_cannot_be_is_an_error_with_a_hint(site: Site, sbatch: FakeSlurm) -> None:
    with pytest.raises(InputError, match="min is for kind=training only") as error:
        Client().submit("train.sh", array="0-9", nodes="2-4")
    assert error.value.hint
    assert sbatch.calls == []


def test_every_key_of_a_tag_can_be_given_with_its_type() -> None:
    keys = {"task_nodes" if name == "nodes" else name for name in KEYS} - {"min", "max"}
    assert get_type_hints(TagValues).keys() == keys


def test_jobs_are_those_that_the_command_lists(site: Site) -> None:
    site.published()
    trainings = Client().jobs()
    printed = json.loads(CliRunner().invoke(cli, ["jobs", "--json"]).stdout)["jobs"]
    assert [(each.id, each.state, list(each.nodes)) for each in trainings] == [
        (row["id"], row["state"], row["nodes"]) for row in printed
    ]
    assert {each.id: each.word for each in trainings} == {
        "1": "running", "2": "waiting", "3": "resting", "4": "waiting", "5": "refused",
    }  # fmt: skip


def test_what_is_explained_is_what_the_command_says(site: Site) -> None:
    site.published()
    said = CliRunner().invoke(cli, ["explain", "n4"]).stdout
    assert all(sentence in said for sentence in Client().explain("n4"))


def test_waiting_ends_when_it_is_complete_or_gone(site: Site) -> None:
    completed(site)
    site.slurm.answers("squeue", task("1_0", "COMPLETED"))
    assert Client().wait("1", "77", timeout_s=60, poll_s=0.01) == []


def test_waiting_ends_where_only_the_owner_can_do_something(site: Site) -> None:
    site.published()
    assert [each.id for each in Client().wait("5", timeout_s=60, poll_s=0.01)] == ["5"]


def test_what_a_daemon_may_take_up_again_is_not_over(site: Site) -> None:
    site.published()
    site.slurm.answers("squeue", task("1_0", "TIMEOUT"))
    with pytest.raises(TimeoutError, match="not over within"):
        Client().wait("1", timeout_s=0.02, poll_s=0.01)


def test_without_a_daemon_what_has_ended_is_over(site: Site) -> None:
    site.slurm.answers("squeue", task("1_0", "COMPLETED") + task("6_0"))
    assert Client().wait("1", timeout_s=60, poll_s=0.01) == []


def test_the_package_has_nothing_else_that_is_imported_late() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Klient'"):
        _ = freetrain.Klient


def test_what_a_training_does_is_a_word() -> None:
    assert state_word("active", {"n1"}, ()) == "running"
    assert state_word("resting", {"n1"}, ()) == "running", "it keeps its nodes"
    assert state_word("active", (), {"n1"}) == "starting"
    assert state_word("active", (), ()) == "waiting"
    assert state_word("paused", (), ()) == "paused"
