from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from freetrain.slurm.queries import JOB_FIELDS, SEPARATOR
from tests.cli.fake_slurm import FakeSlurm

ME = pwd.getpwuid(os.geteuid()).pw_name
COMMENT = "Comment=freetrain:min=2,max=4"
CHANGES = [COMMENT, "Partition=freetrain", "Requeue=1", "NumNodes=1"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A queue with an array of four waiting tasks."""
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "squeue", "scontrol")
    fake.answers("squeue", record())
    monkeypatch.delenv("FREETRAIN_CONFIG", raising=False)
    return fake


def record(**changes: str) -> str:
    fields = dict.fromkeys(JOB_FIELDS, "") | {"%i": "7_[0-3]", "%F": "7", "%u": ME, "%P": "main", "%T": "PENDING"}
    fields |= {"%r": "Priority", "%V": "1", "%l": "1:00:00", "%D": "1", "%Q": "1"}
    fields |= {f"%{letter}": value for letter, value in changes.items()}
    return SEPARATOR.join(("MARK", *fields.values())) + "\n"


def register(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["register", *arguments])


def told(slurm: FakeSlurm) -> list[list[str]]:
    return [call[1:] for call in slurm.calls if call[0] == "scontrol"]


def test_a_waiting_array_is_held_and_then_made_a_trainer(slurm: FakeSlurm) -> None:
    result = register("7", "--nodes", "2-4")
    assert result.exit_code == 0
    assert "Job 7 is a trainer now" in result.stderr
    assert told(slurm) == [["uhold", "7"], ["update", "JobId=7", *CHANGES]]


def test_where_fragments_have_a_qos_a_waiting_array_gets_it(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.toml").write_text('[slurm]\npartition = "main"\nqos = "spare"\n')
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "site.toml"))
    slurm.answers("squeue", record(q="normal", k="freetrain:max=3"))
    assert register("7", "--nodes", "2-4").exit_code == 0
    changes = [COMMENT, "Partition=main", "QOS=spare", "Requeue=1", "NumNodes=1"]
    assert told(slurm) == [["uhold", "7"], ["update", "JobId=7", *changes]], "it was a job of the site's"
    slurm.answers("squeue", record(q="spare", k="freetrain:max=3"))
    register("7", "--nodes", "2-4")
    assert told(slurm)[2:] == [["update", "JobId=7", COMMENT]], "now it is a trainer"


def test_a_waiting_array_of_ordinary_tasks_becomes_a_filler(slurm: FakeSlurm) -> None:
    assert register("7", "--kind", "tasks").exit_code == 0
    assert told(slurm)[1][:3] == ["update", "JobId=7", "Comment=freetrain:kind=tasks"]


def test_of_tasks_of_several_nodes_the_most_of_all_may_exceed_their_number(slurm: FakeSlurm) -> None:
    result = register("7", "--kind", "tasks", "--task-nodes", "2-8", "--nodes", "64")
    assert result.exit_code == 0, result.stderr
    assert told(slurm)[1][2] == "Comment=freetrain:max=64,kind=tasks,nodes=2-8"


def test_a_dry_run_only_looks(slurm: FakeSlurm) -> None:
    result = register("7", "--nodes", "2-4", "--dry-run")
    assert result.stdout == f"scontrol uhold 7\nscontrol update JobId=7 {' '.join(CHANGES)}\n"
    assert told(slurm) == []


def test_a_job_of_one_node_is_a_trainer_of_one_node(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", record(i="7"))
    assert register("7", "--nodes", "1").exit_code == 0
    result = register("7", "--nodes", "2")
    assert "job 7 is no array, so it can be a trainer of one node at most, not of 2." in result.stderr


def test_of_a_trainer_only_the_tag_changes(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", record(P="freetrain", k="freetrain:max=3"))
    register("7", "--nodes", "2-4")
    assert told(slurm) == [["update", "JobId=7", COMMENT]]


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("", "Slurm knows no job 7."),
        (record(u="somebody"), "job 7 is somebody's; only its owner can make it a trainer."),
        (record(i="7_2", T="RUNNING") + record(i="7_[3-6]"), "job 7_2 is RUNNING; only a job that still waits"),
        (record(i="7_2", T="COMPLETED"), "job 7_2 is COMPLETED"),
        (record(D="2-4"), "job 7 wants 2 nodes at once"),
        (record(i="7_[0-1]"), "the array 7 has 2 tasks, so it can use 2 nodes at most, not 4."),
        (record(i="7+0"), "job 7 has several components"),
    ],
)
def test_what_cannot_be_a_trainer_is_refused(slurm: FakeSlurm, queue: str, why: str) -> None:
    slurm.answers("squeue", queue)
    result = register("7", "--nodes", "2-4")
    assert result.exit_code == ExitCode.USAGE
    assert why in result.stderr
    assert told(slurm) == []


def test_an_id_that_squeue_refuses_is_unknown(slurm: FakeSlurm) -> None:
    slurm.fails("squeue", "slurm_load_jobs error: Invalid job id specified")
    assert "Slurm knows no job 7." in register("7", "--nodes", "2-4").stderr


@pytest.mark.parametrize("job", ["7_1", "-7", "7;reboot", "٧", ""])
def test_only_a_number_is_an_id(slurm: FakeSlurm, job: str) -> None:
    result = register("--nodes", "2-4", "--", job)
    assert result.exit_code == ExitCode.USAGE
    assert "is no job's id" in result.stderr
    assert slurm.calls == []


@pytest.mark.parametrize(("reason", "is_released"), [("Priority", True), ("JobHeldUser", False)])
def test_a_job_that_slurm_leaves_as_it_was_is_held_only_if_it_was(
    slurm: FakeSlurm, reason: str, is_released: bool
) -> None:
    slurm.answers("squeue", record(r=reason))
    slurm.fails("scontrol", "Invalid partition name specified", when="update")
    result = register("7", "--nodes", "2-4")
    assert result.exit_code == ExitCode.FAILED
    assert (["release", "7"] in told(slurm)) is is_released


def test_a_trainer_whose_tag_slurm_refuses_is_not_released(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", record(P="freetrain", k="freetrain:max=3"))
    slurm.fails("scontrol", "Unspecified error", when="update")
    assert register("7", "--nodes", "2-4").exit_code == ExitCode.FAILED
    assert told(slurm) == [["update", "JobId=7", COMMENT]]


def test_slurm_that_is_away_is_said(slurm: FakeSlurm) -> None:
    slurm.fails("squeue", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    assert register("7", "--nodes", "2-4").exit_code == ExitCode.UNREACHABLE
