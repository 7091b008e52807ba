from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from freetrain.daemon.admission.admission import site_age_s
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from freetrain.slurm.site.reader import SiteReader
from tests.slurm.site.rows import association_row, qos_row

RECORDED = Path(__file__).parents[1] / "recorded"
BY_QOS = (RECORDED / "preemption_22.05.txt").read_text().replace("preempt/partition_prio", "preempt/qos")


class Slurm:
    """Answers questions about its layout, and counts them."""

    def __init__(self, config: str = BY_QOS) -> None:
        self.now_s = 1000.0
        self.config = config
        self.partitions = (RECORDED / "layout_22.05.txt").read_text()
        self.qos = "|".join(qos_row("normal", Preempt="scavenger").values()) + "\n"
        self.associations = "|".join(association_row("ml").values()) + "\n"
        self.asked: list[str] = []
        self.accounting: Exception | None = None

    def ask(self, command: Command) -> str:
        what = command[-1] if command[0] == "scontrol" else command[0]
        self.asked.append(what)
        if what == "sacctmgr":
            if self.accounting is not None:
                raise self.accounting
            return self.qos if command[4] == "qos" else self.associations
        return self.config if what == "config" else self.partitions

    def reader(self) -> SiteReader:
        return SiteReader(self.ask, lambda: self.now_s)


def test_all_of_it_is_three_questions_and_then_one_at_a_time_the_oldest_first() -> None:
    slurm = Slurm()
    reader = slurm.reader()
    found = reader.site(0.0, 4)
    assert slurm.asked == ["config", "partition", "sacctmgr", "sacctmgr"]
    assert found.settings.preempt_type == "preempt/qos"
    assert set(found.partitions) == {"main", "freetrain", "debug"}
    assert found.qos_rows is not None
    for _ in range(5):
        slurm.now_s += 40
        assert reader.site(180.0, 1) == found
    assert slurm.asked[4:] == ["config"]
    for _ in range(2):
        slurm.now_s += 1
        reader.site(180.0, 1)
    assert slurm.asked[5:] == ["partition", "sacctmgr"]
    assert reader.site(inf, 0) == found
    assert len(slurm.asked) == 7


def test_where_preemption_is_by_partition_accounting_is_asked_only_when_all_is_asked_anew() -> None:
    slurm = Slurm(BY_QOS.replace("preempt/qos", "preempt/partition_prio"))
    reader = slurm.reader()
    assert reader.site(0.0, 4).qos_rows is not None
    slurm.now_s += 1000
    slurm.asked.clear()
    assert reader.site(180.0, 4).qos_rows is not None
    assert slurm.asked == ["config", "partition"]


def test_where_preemption_is_by_partition_accounting_may_be_away() -> None:
    slurm = Slurm(BY_QOS.replace("preempt/qos", "preempt/partition_prio"))
    slurm.accounting = SlurmUnreachableError("slurmdbd is away.")
    found = slurm.reader().site(0.0, 4)
    assert (found.qos_rows, found.problem) == (None, "slurmdbd is away.")


def test_without_accounting_there_are_no_qos_to_be_asked_for() -> None:
    slurm = Slurm("PreemptType = preempt/partition_prio\n")
    assert slurm.reader().site(0.0, 4).qos_rows is None
    assert "sacctmgr" not in slurm.asked


def test_where_accounting_falls_silent_what_it_said_before_counts_and_that_is_said() -> None:
    slurm = Slurm()
    reader = slurm.reader()
    before = reader.site(0.0, 4)
    slurm.accounting = SlurmUnreachableError("slurmdbd is away.")
    found = reader.site(0.0, 4)
    assert (found.qos, found.problem) == (before.qos, "slurmdbd is away.")


def test_accounting_that_has_never_answered_is_no_answer() -> None:
    slurm = Slurm()
    slurm.accounting = SlurmUnreachableError("slurmdbd is away.")
    with pytest.raises(SlurmUnreachableError):
        slurm.reader().site(0.0, 4)
    slurm.accounting = SlurmRefusedError("no.")
    found = slurm.reader().site(0.0, 4)
    assert (found.qos_rows, found.problem) == (None, "no.")


def test_an_answer_that_makes_no_sense_is_no_answer_and_changes_nothing() -> None:
    slurm = Slurm()
    reader = slurm.reader()
    before = reader.site(0.0, 4)
    good = slurm.config
    for nonsense in ("", "slurm_load_ctl_conf error: garbage"):
        slurm.config = nonsense
        with pytest.raises(SlurmUnreachableError, match="it names no PreemptType"):
            reader.site(0.0, 1)
    slurm.config = good
    slurm.partitions = ""
    with pytest.raises(SlurmUnreachableError, match="no line begins with PartitionName"):
        reader.site(0.0, 4)
    slurm.partitions = (RECORDED / "layout_22.05.txt").read_text().replace("PriorityTier=1 ", "PriorityTier=? ")
    slurm.qos = ""
    found = reader.site(0.0, 4)
    assert (found.partitions, found.qos) == (before.partitions, before.qos)
    assert (len(reader.rejected), found.problem) == (1, "it shows none")


class Counting(CommandLine):
    """Slurm's commands, answered from the records."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        super().__init__(clock_s=lambda: slurm.now_s)

    def _ask(self, command: Command, stdin: str = "") -> str:
        if command[-1] in ("config", "partition") or command[0] == "sacctmgr":
            return self._slurm.ask(command)
        self._slurm.asked.append(command[0])
        match command:
            case ("squeue", *_, columns):
                return f"{columns}\n"
            case (*_, "nodes"):
                return (RECORDED / "nodes_22.05.txt").read_text()
            case (*_, "reservation"):
                return "No reservations in the system\n"
        return ""


@pytest.mark.parametrize("poll_s", [5, 30, 60, 300])
def test_no_look_asks_slurm_more_than_four_questions(poll_s: float) -> None:
    slurm = Slurm()
    gateway = Counting(slurm)
    gateway.site(0.0, 4)
    counts = []
    for _ in range(40):
        slurm.now_s += poll_s
        before = len(slurm.asked)
        gateway.site(site_age_s(poll_s), 1)
        gateway.snapshot()
        gateway.last_plan_s()
        counts.append(len(slurm.asked) - before)
    assert max(counts) == 4
    assert slurm.asked.count("sdiag") >= 18, "about every second look at least learns when Slurm plans"
    assert slurm.asked.count("partition") >= 40 * poll_s // (2 * site_age_s(poll_s))
