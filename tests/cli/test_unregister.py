from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from tests.cli.fake_slurm import FakeSlurm
from tests.cli.test_register import record, told

TAG = "freetrain:min=2,max=4"
BACK = ["update", "JobId=7", "Comment=", "Partition=main"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A queue with a trainer of four tasks that was never lent a node."""
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "squeue", "scontrol")
    fake.answers("squeue", record(P="freetrain", k=TAG, r="JobHeldUser"))
    monkeypatch.delenv("FREETRAIN_CONFIG", raising=False)
    return fake


def unregister(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["unregister", *arguments])


def test_a_trainer_becomes_an_ordinary_job_again_and_is_released(slurm: FakeSlurm) -> None:
    result = unregister("7", "--to", "main")
    assert (result.exit_code, "is an ordinary job again" in result.stderr) == (0, True), result.stderr
    assert told(slurm) == [BACK, ["release", "7"]]


def test_a_dry_run_only_looks(slurm: FakeSlurm) -> None:
    assert unregister("7", "--to", "main", "--dry-run").stdout == (
        "scontrol update JobId=7 Comment= Partition=main\nscontrol release 7\n"
    )
    assert told(slurm) == []


def test_where_fragments_have_a_qos_it_gets_its_owners_again(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.toml").write_text('[slurm]\npartition = "main"\nqos = "spare"\n')
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "site.toml"))
    slurm.answers("squeue", record(q="spare", k=TAG))
    assert unregister("7").exit_code == 0
    assert told(slurm)[0] == [*BACK, "QOS="]


@pytest.mark.parametrize("options", [(), ("--to", "freetrain")])
def test_where_it_shall_wait_is_asked(slurm: FakeSlurm, options: tuple[str, ...]) -> None:
    result = unregister("7", *options)
    assert (result.exit_code, "Say --to with one of the site's" in result.stderr) == (ExitCode.USAGE, True)
    assert told(slurm) == []


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("", "Slurm knows no job 7."),
        (record(u="somebody", P="freetrain", k=TAG), "job 7 is somebody's; only its owner can take it back."),
        (record(), "job 7 is no trainer: there is nothing to take back."),
        (record(k=TAG), "job 7 is no trainer"),
        (record(P="freetrain", k=TAG, i="7_2", T="RUNNING"), "job 7_2 has been lent a node"),
        (record(P="freetrain", k=TAG, n="c3"), "has been lent a node"),
    ],
)
def test_what_cannot_be_taken_back_is_refused(slurm: FakeSlurm, queue: str, why: str) -> None:
    slurm.answers("squeue", queue)
    result = unregister("7", "--to", "main")
    assert (result.exit_code, why in result.stderr) == (ExitCode.USAGE, True), result.stderr
    assert told(slurm) == []


def test_one_that_slurm_leaves_as_it_was_is_not_released(slurm: FakeSlurm) -> None:
    slurm.fails("scontrol", "Invalid partition name specified", when="update")
    assert unregister("7", "--to", "mian").exit_code == ExitCode.FAILED
    assert told(slurm) == [["update", "JobId=7", "Comment=", "Partition=mian"]]
