"""The rights of the daemon's account, proved with a job that never runs."""

from __future__ import annotations

import pytest

from freetrain.config import Config
from freetrain.core.job import JobState
from freetrain.daemon.admission.inspection import prove_rights
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from tests.daemon.fake_slurm import FakeSlurm

CONFIG = Config()


class PickySlurm(FakeSlurm):
    """Refuses commands that contain one of these words, or falls silent at them."""

    refused: tuple[str, ...] = ()
    silent: str = ""

    def perform(self, command: Command, stdin: str = "") -> str:
        if any(word in part for word in self.refused for part in command):
            raise SlurmRefusedError("Access/permission denied")
        if self.silent and any(self.silent in part for part in command):
            raise SlurmUnreachableError("nobody is there.")
        return super().perform(command, stdin)


@pytest.fixture
def picky() -> PickySlurm:
    return PickySlurm()


def words(slurm: FakeSlurm) -> list[str]:
    return [command[0] if command[0] != "scontrol" else command[-1].partition("=")[0] for command in slurm.told]


def test_a_held_job_is_submitted_changed_as_fragments_are_and_cancelled(picky: PickySlurm) -> None:
    proof = prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=True)
    assert proof.findings == []
    assert words(picky) == ["sbatch", "MinMemoryNode", "TimeLimit", "Comment", "Nice", "scancel"]
    assert "--hold" in picky.told[0]
    assert {f"ReqNodeList={node.name}" for node in picky.snapshot().nodes} & set(picky.told[1])
    (job,) = picky.jobs.values()
    assert job.state is JobState.CANCELLED
    assert "".join(proof.notes) == (
        f"As freetrain, job {job.id} was submitted to partition freetrain, held, changed as fragments are, and "
        "cancelled."
    )


def test_what_only_an_operator_may_shows_who_is_none(picky: PickySlurm) -> None:
    picky.refused = ("Nice",)
    (found,) = prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=True).findings
    assert found.is_unsafe
    assert "only an operator may" in found.what
    assert "Access/permission denied" in found.what
    assert found.mend == "sacctmgr -i modify user freetrain set AdminLevel=Operator"
    assert prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=False).findings == []
    assert words(picky).count("scancel") == 2


def test_whatever_is_refused_the_job_is_gone_afterwards(picky: PickySlurm) -> None:
    picky.refused = ("TimeLimit", "Comment=")
    found = prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=True).findings
    assert [finding.what.partition(":")[0] for finding in found] == [
        "Slurm does not let freetrain pin a job to a node",
        "Slurm does not let freetrain change a job's time limit",
        "Slurm does not let freetrain change a job's comment",
    ]
    picky.refused, picky.silent = (), "Comment="
    with pytest.raises(SlurmUnreachableError):
        prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=True)
    assert {job.state for job in picky.jobs.values()} == {JobState.CANCELLED}


def test_a_job_that_cannot_be_cancelled_is_named(picky: PickySlurm) -> None:
    picky.refused = ("scancel",)
    (found,) = prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=True).findings
    (job,) = picky.jobs
    assert found.mend == f"scancel {job}"


def test_who_may_submit_nothing_is_told_what_that_costs(picky: PickySlurm) -> None:
    picky.refused = ("sbatch",)
    proof = prove_rights(CONFIG, picky, picky.snapshot(), "freetrain", as_operator=True)
    (found,) = proof.findings
    assert not found.is_unsafe
    assert "no daemon leaves a mark there" in found.what
    assert proof.notes == ()
