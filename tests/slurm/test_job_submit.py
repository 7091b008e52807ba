"""job_submit.lua, freetrain submit and freetrain register, on a real Slurm."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.core.job import Job, JobState
from freetrain.lab.lab import Lab
from freetrain.lab.options import LabOptions
from freetrain.slurm import commands
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.tags import TAG_PREFIX, WrongTag, parse_tag
from tests.slurm.lua import JOB_SUBMIT
from tests.slurm_lab import eventually, started_lab

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

HOSTILE = ["name=`id`$(id)'\"", "name=%s%n%d", "\x1b[2Jx=1", "na\nme=1", "name=é😀", "x" * 900]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A Slurm with the plug-in, in a directory that all users can reach."""
    with started_lab(LabOptions(nodes=2, job_submit=JOB_SUBMIT)) as lab:
        yield lab


@pytest.fixture(autouse=True)
def slurm(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """The daemon's way to the lab; there are no jobs before and after."""
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FREETRAIN_CONFIG", "")
    monkeypatch.chdir("/")
    yield CommandLine()
    subprocess.run(["scancel", "--partition=freetrain"], check=True)
    subprocess.run(["scancel", "--partition=main"], check=True)


def as_alice(lab: Lab, *command: str) -> subprocess.CompletedProcess[str]:
    """Let an ordinary user run this; without root there is only one user."""
    alice = pwd.getpwnam(lab.users["alice"])
    who: dict[str, Any] = {"user": alice.pw_uid, "group": alice.pw_gid, "extra_groups": []}
    return subprocess.run(command, capture_output=True, text=True, check=False, **who if os.geteuid() == 0 else {})


def sbatch(lab: Lab, *options: str) -> subprocess.CompletedProcess[str]:
    return as_alice(lab, "sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 60")


def tasks(slurm: CommandLine, job: str) -> list[Job]:
    return [each for each in slurm.snapshot().jobs if each.array == job.strip()]


def freetrain(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_tagged_job_becomes_a_held_array_that_can_be_steered(lab: Lab, slurm: CommandLine) -> None:
    said = sbatch(lab, "--nodes=2-3", "--comment=freetrain:name=bert")
    assert said.stderr == (
        "sbatch: freetrain: array 0-2 of one-node tasks in partition freetrain, held until nodes are idle\n"
    )
    found = tasks(slurm, said.stdout)
    assert [each.id.partition("_")[2] for each in found] == ["0", "1", "2"]
    assert {(each.state, each.reason, each.partition, each.node_count, each.user) for each in found} == {
        (JobState.PENDING, "JobHeldUser", "freetrain", 1, lab.users["alice"])
    }
    assert {each.comment for each in found} == {"freetrain:name=bert,min=2"}
    assert "Requeue=1" in as_alice(lab, "scontrol", "show", "job", said.stdout.strip()).stdout

    slurm.perform(commands.pin(found[1].id, (lab.node_names[1],), 600))
    slurm.perform(commands.release(found[1].id))
    wait_for(slurm, found[1].id, JobState.RUNNING)
    (running,) = (each for each in tasks(slurm, said.stdout) if each.id == found[1].id)
    assert running.nodes == {lab.node_names[1]}


def wait_for(slurm: CommandLine, job: str, state: JobState) -> None:
    assert eventually(lambda: any(each.id == job and each.state is state for each in slurm.snapshot().jobs))


@pytest.mark.parametrize("tag", ["mim=2", "min=0", "min=8,max=4", "dir=tmp/x", "curve=2:1/1:5", *HOSTILE])
def test_a_wrong_tag_is_refused_with_the_sentence(lab: Lab, slurm: CommandLine, tag: str) -> None:
    wrong = parse_tag(f"{TAG_PREFIX}{tag}")
    assert isinstance(wrong, WrongTag)
    before = {each.id for each in slurm.snapshot().jobs}
    said = sbatch(lab, "--nodes=2", f"--comment={TAG_PREFIX}{tag}")
    assert said.returncode != 0
    first, second = said.stderr.splitlines()
    expected = "".join(letter if letter.isascii() or letter == "…" else "?" for letter in wrong.why)
    assert first == f"sbatch: error: freetrain: {expected}"
    assert "submission failed" in second
    assert {each.id for each in slurm.snapshot().jobs} == before


def test_an_untagged_job_is_not_touched(lab: Lab, slurm: CommandLine) -> None:
    said = sbatch(lab, "--nodes=2", "--hold", "--no-requeue", "--comment=%s about freetrain:zz")
    assert said.stderr == ""
    (job,) = tasks(slurm, said.stdout)
    assert (job.partition, job.node_count, job.id) == ("main", 2, job.array)
    assert "Requeue=0" in as_alice(lab, "scontrol", "show", "job", job.id).stdout


def test_a_tag_cannot_be_changed_into_a_wrong_one(lab: Lab, slurm: CommandLine) -> None:
    job = sbatch(lab, "--array=0-1", "--comment=freetrain:min=1").stdout.strip()
    update = ("scontrol", "update", f"JobId={job}")
    assert as_alice(lab, *update, "Comment=freetrain:mim=2").returncode != 0
    assert {each.comment for each in tasks(slurm, job)} == {"freetrain:min=1"}
    assert as_alice(lab, *update, "Comment=freetrain:min=2").returncode == 0
    assert {each.comment for each in tasks(slurm, job)} == {"freetrain:min=2"}


def test_what_freetrain_submits_is_a_trainer(lab: Lab, slurm: CommandLine) -> None:
    script = lab.directory.parent / "train.sh"
    script.write_text("#!/bin/sh\n#SBATCH --nodes=7\n#SBATCH --array=0-99\n#SBATCH --output=/dev/null\nsleep 60\n")
    result = freetrain("submit", "--nodes", "2-3", "--name", "bert", str(script), "a b")
    assert result.exit_code == 0, result.output
    found = tasks(slurm, result.stdout)
    assert {(each.partition, each.reason, each.node_count) for each in found} == {("freetrain", "JobHeldUser", 1)}
    assert [each.comment for each in found] == ["freetrain:min=2,max=3,name=bert"] * 3


def test_a_waiting_array_is_registered_and_then_found(lab: Lab, slurm: CommandLine) -> None:
    options = ("--array=0-3", "--begin=now+1hour", "--no-requeue", "--output=/dev/null", "--wrap=sleep 60")
    job = subprocess.run(
        ["sbatch", "--parsable", *options], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert freetrain("register", job, "--nodes", "2-5").exit_code == 2
    for nodes in ("2-4", "1-3"):
        result = freetrain("register", job, "--nodes", nodes)
        assert result.exit_code == 0, result.output
    found = tasks(slurm, job)
    assert {(each.partition, each.reason) for each in found} == {("freetrain", "JobHeldUser")}
    assert [each.comment for each in found] == ["freetrain:min=1,max=3"] * 4
    assert "Requeue=1" in as_alice(lab, "scontrol", "show", "job", job).stdout
    assert freetrain("unregister", job, "--to", "nowhere").exit_code == 1
    assert freetrain("unregister", job, "--to", "main").exit_code == 0
    found = tasks(slurm, job)
    assert {(each.partition, each.comment) for each in found} == {("main", "")}
    assert "JobHeldUser" not in {each.reason for each in found}
