"""A Slurm that answers "Rate limit exceeded": the texts are those of its commands, 24.05 and later."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.config import Config, Loaded
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.service import Service
from freetrain.daemon.timetable import Timetable
from freetrain.slurm import commands
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import SlurmRateLimitError
from freetrain.slurm.launcher import Order
from freetrain.store.store import Store
from tests.cli.fake_slurm import FakeSlurm
from tests.slurm.test_command_line import ANSWERS

RECORDED = Path(__file__).parents[1] / "slurm" / "recorded"
SAID = "slurm_load_jobs error: Rate limit exceeded, please retry later"
UPDATE_SAID = "Rate limit exceeded, please retry later for job 1_0"
SITES = "PartitionName=main Nodes=n[1-2] State=UP PriorityTier=10 PreemptMode=OFF GraceTime=0 MaxTime=UNLIMITED\n"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm of two nodes, on which no job is."""
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "squeue", "scontrol", "sacct", "sacctmgr", "sdiag")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    fake.answers("squeue", "")
    for question, answer in ANSWERS.items():
        fake.answers("scontrol", answer, when=question)
    fake.answers("scontrol", ANSWERS["show partition"] + SITES, when="show partition")
    fake.answers("scontrol", (RECORDED / "config_22.05.txt").read_text(), when="show config")
    fake.answers("scontrol", "Slurmctld(primary) at vm is UP\n", when="ping ")
    return fake


def test_the_daemon_slows_down_says_it_once_and_goes_on(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config.model_validate(
        {
            "state": {"directory": str(tmp_path / "state"), "stop_file": str(tmp_path / "STOP")},
            "pace": {"poll": 10.0},
        }
    )
    rests_s: list[float] = []
    looks = 0

    def rest(timetable: Timetable, look_s: float) -> None:
        """In place of waiting: the first look is answered, three are not, and those after them are again."""
        nonlocal looks
        looks += 1
        if looks == 1:
            slurm.fails("squeue", SAID)
        if looks == 4:
            slurm.succeeds("squeue")

    monkeypatch.setattr(Timetable, "wait", rest)
    monkeypatch.setattr(Timetable, "_poll_in", lambda _, seconds: rests_s.append(seconds))
    with caplog.at_level("INFO"):
        Service(Loaded(config), CommandLine(), lambda: Loaded(config)).run(cycles=5)
    assert rests_s[1:4] == pytest.approx([10.0, 20.0, 40.0], abs=4.0), "a busy machine takes part of them"
    assert rests_s[4] <= 10.5
    refused, answered = [text for text in caplog.messages if "Slurm limits" in text or "succeed again" in text]
    assert refused == (
        f"Slurm limits how often it is asked, and refuses squeue -a -t for now: {SAID}. "
        "Nothing is concluded from that, and nothing done."
    )
    assert answered.startswith("looks succeed again after")


def test_between_its_questions_it_asks_first_what_costs_slurm_least(slurm: FakeSlurm) -> None:
    door = CommandLine()
    slurm.fails("squeue", SAID)
    for _ in range(2):
        with pytest.raises(SlurmRateLimitError):
            door.snapshot()
    assert [call[:2] for call in slurm.calls] == [["squeue", "-a"], ["scontrol", "ping"], ["squeue", "-a"]]


def test_an_order_is_not_repeated_and_the_look_ends(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.fails("scontrol", UPDATE_SAID, when="release")
    ledger = Store.open(tmp_path / "freetrain.db").ledger()
    with pytest.raises(SlurmRateLimitError):
        Executor(CommandLine(), ledger, Mode.ACT).carry_out(Order(commands.release("1_0"), "start 1_0"))
    assert len(slurm.calls) == 1
    (row,) = ledger.commands()
    assert UPDATE_SAID in row.result
    assert row.return_code == 1


def test_who_was_preempted_is_unknown_rather_than_nobody(slurm: FakeSlurm) -> None:
    slurm.fails("squeue", SAID)
    with pytest.raises(SlurmRateLimitError):
        CommandLine().preempted_at(["1_0"])
