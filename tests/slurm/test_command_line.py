"""What Slurm's commands print with status 0 is not always an answer; from what is not, nothing is concluded."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.errors import ExitCode
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import SlurmUnclearError, SlurmUnreachableError
from freetrain.slurm.queries import JOB_FIELDS, NEED_FIELDS, SEPARATOR
from tests.cli.fake_slurm import FakeSlurm

NODES = "NodeName=n1 State=IDLE Partitions=freetrain\nNodeName=n2 State=ALLOCATED Partitions=freetrain\n"
PARTITION = (
    "PartitionName=freetrain Nodes=n[1-2] State=UP PriorityTier=1 PreemptMode=REQUEUE "
    "GraceTime=0 MaxTime=UNLIMITED\n"
)
NONE_RESERVED = "No reservations in the system\n"
ANSWERS = {"show nodes": NODES, "show partition": PARTITION, "show reservation": NONE_RESERVED}
RECORDED = Path(__file__).parent / "recorded"
ERROR = "slurm_load_jobs error: Zero Bytes were transmitted or received\n"


def record(**changes: str) -> str:
    fields = dict.fromkeys(JOB_FIELDS, "") | {"%i": "7", "%F": "7", "%u": "news", "%P": "main", "%T": "RUNNING"}
    fields |= {"%V": "1", "%S": "1", "%l": "1:00:00", "%D": "1", "%Q": "1", "%N": "n2"}
    fields |= {f"%{letter}": value for letter, value in changes.items()}
    return SEPARATOR.join(("MARK", *fields.values())) + "\n"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm of two nodes, one partition and one job."""
    fake = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "squeue", "scontrol", "sacct")
    fake.answers("squeue", record())
    for question, answer in ANSWERS.items():
        fake.answers("scontrol", answer, when=question)
    return fake


def test_a_whole_answer_is_understood(slurm: FakeSlurm) -> None:
    found = CommandLine().snapshot()
    assert [node.name for node in found.nodes] == ["n1", "n2"]
    assert found.job["7"].nodes == {"n2"}
    assert found.partitions["freetrain"].nodes == {"n1", "n2"}
    assert (found.reservations, found.rejected) == ((), ())


def test_an_empty_queue_is_an_answer(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", "")
    assert CommandLine().snapshot().jobs == ()
    assert CommandLine().job("7") == []


@pytest.mark.parametrize("text", ["", ERROR, "\n", record()])
def test_a_queue_without_its_header_is_not_an_empty_queue(slurm: FakeSlurm, text: str) -> None:
    slurm.without_header()
    slurm.answers("squeue", text.replace("MARK", "1234"))
    for ask in (CommandLine().snapshot, lambda: CommandLine().job("7")):
        with pytest.raises(SlurmUnclearError, match="Slurm's answer to squeue cannot be understood") as caught:
            ask()
        assert caught.value.exit_code is ExitCode.UNREACHABLE
        assert "Run squeue on this machine" in caught.value.hint


@pytest.mark.parametrize("cut", range(1, 30, 7))
def test_a_queue_that_is_cut_short_is_not_the_queue(slurm: FakeSlurm, cut: int) -> None:
    slurm.answers("squeue", (record() + record(i="8", F="8", k="freetrain:min=1,max=16"))[:-cut])
    with pytest.raises(SlurmUnclearError, match="it is cut short"):
        CommandLine().snapshot()


@pytest.mark.parametrize("question", ANSWERS)
@pytest.mark.parametrize("text", ["", "\n", ERROR, "<html>\n<body>\n", "{}"])
def test_what_is_something_else_is_said_to_be_so(slurm: FakeSlurm, question: str, text: str) -> None:
    slurm.answers("scontrol", text, when=question)
    with pytest.raises(SlurmUnreachableError, match=f"answer to scontrol -a -o {question} cannot be understood"):
        CommandLine().snapshot()


@pytest.mark.parametrize("question", ["show nodes", "show partition"])
def test_lines_that_are_cut_short_are_not_all_the_lines(slurm: FakeSlurm, question: str) -> None:
    slurm.answers("scontrol", ANSWERS[question][:-9], when=question)
    with pytest.raises(SlurmUnclearError, match="it is cut short"):
        CommandLine().snapshot()


@pytest.mark.parametrize(
    ("question", "text"), [("show nodes", "NodeName=n1 Comment=hm\n"), ("show partition", "PartitionName=x\n")]
)
def test_an_answer_of_which_nothing_makes_sense_is_no_empty_machine(
    slurm: FakeSlurm, question: str, text: str
) -> None:
    slurm.answers("scontrol", text, when=question)
    with pytest.raises(SlurmUnclearError, match=f"answer to scontrol {question[:-1]}.* nothing of it makes sense"):
        CommandLine().snapshot()


def test_single_lines_that_make_no_sense_are_named_and_the_rest_is_used(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", record() + record(i="9_[x]", k="freetrain:") + record(i="8", l="soon"))
    slurm.answers("scontrol", NODES + "a second line of a reason\nNodeName=n3\n", when="show nodes")
    reserved = "ReservationName=r StartTime=1 EndTime=2 Nodes=n[1- Flags=\n"
    slurm.answers("scontrol", reserved + reserved.replace("n[1-", "n1"), when="show reservation")
    found = CommandLine().snapshot()
    assert [job.id for job in found.jobs] == ["7"]
    assert [len(reservation.nodes) for reservation in found.reservations] == [1]
    assert len(found.rejected) == 5
    assert [text.split(":")[0] for text in found.rejected[:3]] == [
        "job '9_[x]'", "job '8'", "scontrol -a -o show nodes"
    ]  # fmt: skip


def test_lines_of_accounting_that_make_no_sense_are_told_with_the_next_snapshot(slurm: FakeSlurm) -> None:
    slurm.answers("sacct", "JobID|State|Start|End\n7|COMPLETED|1\nsacct: hm\n7|COMPLETED|1|2\n")
    gateway = CommandLine()
    assert [run.id for run in gateway.runs(["7"])] == ["7"]
    assert len(gateway.snapshot().rejected) == 2
    assert gateway.snapshot().rejected == ()


def test_where_parts_are_lent_it_is_asked_what_new_jobs_want_or_have_and_never_more_than_four_questions(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdiag = FakeSlurm.on_path(tmp_path / "more", monkeypatch, "sdiag")
    sdiag.answers("sdiag", (RECORDED / "sdiag_22.05.txt").read_text())
    asked = dict.fromkeys(NEED_FIELDS, "N/A") | {"ArrayJobID": "8", "State": "PENDING", "sct": "*:*:*"}
    asked |= {"tres-alloc": "cpu=2,mem=100M,node=1", "tres-per-node": "gres:gpu:3"}
    asked |= {"oversubscribe": "OK", "Exclusive": ""}
    has = {
        "ArrayJobID": "7",
        "State": "RUNNING",
        "tres-alloc": "cpu=4,mem=200M,node=1",
        "tres-per-node": "gres:gpu:1",
    }
    answer = "".join(
        "".join(f"{row[name]:<{size}}{SEPARATOR}" for name, size in NEED_FIELDS.items()) + "\n"
        for row in (asked, asked | has)
    )
    (slurm.directory / "squeue.out").unlink()
    slurm.answers("squeue", answer, when="-a --noconvert")
    slurm.answers("squeue", record() + record(i="8", F="8", T="PENDING", N=""), when="all -o")
    slurm.answers("scontrol", NODES, when="-o show")
    gateway = CommandLine(in_parts=True)

    def look() -> Snapshot:
        calls, others = gateway.calls, len(sdiag.calls)
        found = gateway.snapshot()
        gateway.last_plan_s()
        assert gateway.calls - calls <= 4 + (not others), "the first look asks for the partitions, too"
        return found

    found = look()
    assert found.job["8"].asks == Amount(2, 100, (("gpu", 3),))
    assert found.job["7"].asks == Amount(4, 200, (("gpu", 1),)), "so much it has of its node"
    assert len(sdiag.calls) == 0
    look()
    assert len(sdiag.calls) == 1, "what job 8 wants is known now"
    slurm.answers("squeue", record() + record(i="8", F="8", T="RUNNING"), when="all -o")
    assert look().job["8"].asks == Amount(2, 100, (("gpu", 3),)), "as it was seen to wait"
    assert len(sdiag.calls) == 2
    slurm.answers("squeue", record() + record(i="9", F="9", T="PENDING", N=""), when="all -o")
    assert look().job["9"].asks is None, "Slurm does not say, so it is all of a node"
    assert look().job["9"].asks is None
    assert sum("-O" in call for call in slurm.calls) == 2, "nor is it asked again at once"


def test_where_whole_nodes_are_lent_nobody_asks_for_more(slurm: FakeSlurm) -> None:
    slurm.answers("squeue", record() + record(i="8", F="8", T="PENDING", N=""))
    CommandLine().snapshot()
    assert not any("-O" in call or "-d" in call for call in slurm.calls)
