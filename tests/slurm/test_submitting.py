from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.submitting import Pattern, pattern_reader

SHOWN = (
    "JobId=1 JobName=sbatch UserId=news(9) GroupId=news(9) MCS_label=N/A Priority=0 Nice=0 Account=ml QOS={qos} "
    "JobState=PENDING Reason=JobHeldUser Command=(null) WorkDir={directory} {comment}StdErr=/dev/null"
)


class Answering:
    """A Slurm that shows one job, and counts how often it is asked."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.asked = 0

    def perform(self, command: Command, stdin: str = "") -> str:
        self.asked += 1
        return "#!/bin/sh\n" if "batch_script" in command else self.shown


@pytest.mark.parametrize("directory", ["/home/me", "/home/me/my training"])
@pytest.mark.parametrize(
    "comment",
    ["", "Comment=freetrain:min=1 ", "AdminComment=js1 SystemComment=x Comment=freetrain:min=1 ", "Extra=x "],
)
def test_a_pattern_is_read_once_with_where_and_on_whose_account_it_was_submitted(
    directory: str, comment: str
) -> None:
    slurm = Answering(SHOWN.format(qos="normal", directory=directory, comment=comment))
    read = pattern_reader(slurm)  # type: ignore[arg-type]
    assert read("1") == read("1") == Pattern("#!/bin/sh\n", directory, "ml", "normal")
    assert slurm.asked == 2


@pytest.mark.parametrize("version", ["22.05", "25.11"])
def test_a_real_slurms_pattern_is_read(version: str) -> None:
    shown = (Path(__file__).parent / "recorded" / f"job_{version}.txt").read_text()
    read = pattern_reader(Answering(shown))  # type: ignore[arg-type]
    assert read("1") == Pattern("#!/bin/sh\n", "/home/news", "ml", "normal")


def test_without_accounting_there_is_no_qos() -> None:
    read = pattern_reader(Answering(SHOWN.format(qos="N/A", directory="/", comment="")))  # type: ignore[arg-type]
    assert read("1").qos == ""


def test_a_pattern_that_was_submitted_nowhere_is_refused() -> None:
    with pytest.raises(SlurmRefusedError, match="where job 1 was submitted"):
        pattern_reader(Answering("JobId=1"))("1")  # type: ignore[arg-type]
