from __future__ import annotations

import os
import pwd

import pytest

from freetrain.daemon.executor import Mode
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.slurm.commands import Command
from freetrain.slurm.comments import ask_to_resume
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

ME = pwd.getpwuid(os.getuid()).pw_name


def others_deeds(daemon: Daemon) -> list[tuple[str, str]]:
    """What the audit says that was not done by the daemon."""
    return [(row.actor, row.why) for row in daemon.ledger.commands() if row.actor != "daemon"]


def test_who_cancelled_a_training_is_what_accounting_says(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    array = slurm.submit_array("freetrain:min=1")
    daemon.cycle()
    slurm.perform(("scancel", array))
    slurm.cancelled_by = {array: (os.getuid(), 4_000_000_000)}
    for _ in range(3):
        daemon.cycle()
    assert others_deeds(daemon) == [(f"{ME}, uid 4000000000", "training 101 of news was cancelled")]


def test_accounting_that_hears_of_it_later_is_asked_again(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    array = slurm.submit_array("freetrain:min=1")
    daemon.cycle()
    slurm.perform(("scancel", array))
    daemon.cycle()
    assert others_deeds(daemon) == []
    slurm.cancelled_by = {array: (os.getuid(),)}
    daemon.cycle()
    assert others_deeds(daemon) == [(ME, "training 101 of news was cancelled")]


@pytest.mark.parametrize(
    ("error", "looks"), [(SlurmRefusedError("no accounting"), 1), (SlurmUnreachableError("slurmdbd is away"), 3)]
)
def test_where_accounting_does_not_say_it_only_who_may_is_named(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch, error: Exception, looks: int
) -> None:
    perform = slurm.perform

    def without_accounting(command: Command, stdin: str = "") -> str:
        if command[0] == "sacct":
            raise error
        return perform(command, stdin)

    daemon = start_daemon()
    array = slurm.submit_array("freetrain:min=1")
    daemon.cycle()
    slurm.perform(("scancel", array))
    monkeypatch.setattr(slurm, "perform", without_accounting)
    for _ in range(looks):
        assert others_deeds(daemon) == []
        daemon.cycle()
    assert others_deeds(daemon) == [("news or an operator", "training 101 of news was cancelled")]


def test_a_training_that_the_daemon_ended_was_cancelled_by_nobody_else(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon()
    array = slurm.submit_array("freetrain:min=1,target=10")
    slurm.cancelled_by = {array: (os.getuid(),)}
    for _ in range(3):
        daemon.cycle({array: Report(True, 10.0, (), 9)})
    assert ("scancel", array) in slurm.told
    assert others_deeds(daemon) == []


@pytest.mark.parametrize("mode", [Mode.ACT, Mode.OBSERVE])  # who only observes leaves the request in the comment
def test_who_asks_that_a_training_go_on_is_written_down_once(
    slurm: FakeSlurm, start_daemon: StartDaemon, mode: Mode
) -> None:
    daemon = start_daemon(mode)
    array = slurm.submit_array("freetrain:min=1")
    daemon.cycle()
    comment = slurm.jobs[f"{array}_3"].comment
    slurm.perform(("scontrol", "update", f"JobId={array}", f"Comment={ask_to_resume(comment, 5.0)}"))
    for _ in range(3):
        daemon.cycle()
    assert others_deeds(daemon) == [("news or an operator", f"freetrain resume {array}")]
