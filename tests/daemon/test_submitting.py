from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.errors import StateError
from freetrain.lending.facts import SiteOrders
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from freetrain.slurm.submissions import Submission
from freetrain.slurm.submitting import Pattern, Submitting, fragment_script
from freetrain.store.ledger import Ledger
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm, waiting
from tests.facts import node

SCRIPT = """#!/bin/bash
#SBATCH --gpus-per-node=4
#SBATCH --nodes=2-16
#SBATCH -N 3
#SBATCH --array=0-3
#SBATCH --output=it's-%j.log
echo "$0 $PWD $FREETRAIN_FRAGMENT_OF"
"""
FRAGMENT = Fragment("", "7", "n1", FragmentState.ASKED, 0.0, 600.0)


def submitting(me: str = "news") -> Submitting:
    return Submitting("freetrain", lambda _: Pattern(SCRIPT, "/tmp"), lambda user: () if user == me else None)


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    return start_daemon(launcher=submitting())


def fragments_in(slurm: FakeSlurm) -> list[str]:
    return sorted(
        min(job.nodes)
        for job in slurm.jobs.values()
        if job.comment.startswith("freetrain-fragment:") and job.state is JobState.RUNNING
    )


def test_a_held_job_is_the_pattern_of_as_many_fragments_as_it_wants(slurm: FakeSlurm, daemon: Daemon) -> None:
    pattern = slurm.submit_array("freetrain:min=1,max=5", tasks=1)
    daemon.cycle()
    daemon.cycle()
    assert len(fragments_in(slurm)) == 5
    assert slurm.jobs[f"{pattern}_0"].is_held
    assert all(fragment.job.isdigit() and fragment.trainer == pattern for fragment in daemon.cluster.books.open)


def test_fragments_run_where_and_on_whose_account_the_pattern_was_submitted() -> None:
    pattern = Pattern(SCRIPT, "/home/me", account="ml", qos="")
    launcher = Submitting("freetrain", lambda _: pattern, lambda _: ())
    order = launcher.place(Submission("7", "news", "", 0.0, ()), FRAGMENT, [node("n1")])
    assert {"--chdir=/home/me", "--account=ml"} <= set(order.command)
    assert not any(word.startswith("--qos") for word in order.command)


def test_a_fragment_holds_its_whole_node_whatever_the_pattern_says_of_parts() -> None:
    script = "#!/bin/bash\n#SBATCH --mem-per-cpu=2G\n#SBATCH --oversubscribe\n#SBATCH --gpus-per-node=4\ntrue\n"
    launcher = Submitting("freetrain", lambda _: Pattern(script, "/tmp"), lambda _: ())
    submission = Submission("7", "news", "", 0.0, (), Needs(memory_mb=4096, is_whole=False))
    order = launcher.place(submission, FRAGMENT, [node("n1", "IDLE", cpus=16)])
    assert {"--exclusive", "--mem=4096"} <= set(order.command)
    directives = order.stdin.partition("exec")[0]
    assert "--gpus-per-node=4" in directives
    assert "--mem-per-cpu" not in directives
    assert "--oversubscribe" not in directives


def test_who_is_somebody_else_is_told_so(slurm: FakeSlurm, daemon: Daemon) -> None:
    slurm.submit_array("freetrain:min=1", tasks=1, user="games")
    daemon.cycle()
    assert fragments_in(slurm) == []
    assert "own account" in slurm.jobs["101_0"].comment


def test_a_pattern_that_slurm_does_not_show_is_its_owners_matter_alone(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    def read(submission: str) -> Pattern:
        if submission == "101":
            raise SlurmRefusedError("Slurm does not say where job 101 was submitted.")
        return Pattern(SCRIPT, "/tmp")

    for _ in range(2):
        slurm.submit_array("freetrain:min=1,max=4", tasks=1)
    daemon = start_daemon(launcher=Submitting("freetrain", read, lambda _: ()))
    daemon.cycle()
    daemon.cycle()
    assert {fragment.trainer for fragment in daemon.cluster.books.open} == {"102"}
    assert len(fragments_in(slurm)) == 4
    assert slurm.jobs["101_0"].comment.endswith(" | Slurm does not say where job 101 was submitted.")


def test_taking_back_cancels_and_completion_ends_pattern_and_fragments(slurm: FakeSlurm, daemon: Daemon) -> None:
    pattern = slurm.submit_array("freetrain:min=1,max=2", tasks=1)
    daemon.cycle()
    daemon.cycle()
    daemon.cycle(orders=SiteOrders(stopped="the stop file is there"))
    assert fragments_in(slurm) == []
    daemon.cycle()
    daemon.cycle()
    assert len(fragments_in(slurm)) == 2
    daemon.cycle({pattern: Report(True, 10.0, (), 5)})
    assert fragments_in(slurm) == []
    assert slurm.jobs[f"{pattern}_0"].state is JobState.CANCELLED


def test_a_fragment_that_slurm_requeues_when_its_node_crashes_does_not_run_a_second_time(
    slurm: FakeSlurm, daemon: Daemon
) -> None:
    """It does so in spite of --no-requeue where the node crashes while the job starts there."""
    slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon.cycle()
    daemon.cycle()
    (fragment,) = daemon.cluster.books.open
    slurm.finish(fragment.job, JobState.NODE_FAIL)
    daemon.cycle()
    slurm.jobs[fragment.job] = waiting(
        slurm.jobs[fragment.job], "BeginTime", state=JobState.PENDING, nodes=frozenset(), start_s=None, end_s=None
    )
    daemon.cycle()
    assert ("scancel", fragment.job) in slurm.told
    assert slurm.jobs[fragment.job].state is JobState.CANCELLED


@contextmanager
def sbatch_unanswered(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, has_effect: bool) -> Iterator[None]:
    """A Slurm that does not answer to sbatch, whether it has submitted the job or not."""
    perform = slurm.perform

    def answer(command: tuple[str, ...], stdin: str = "") -> str:
        if command[0] != "sbatch":
            return perform(command, stdin)
        if has_effect:
            perform(command, stdin)
        raise SlurmUnreachableError("Socket timed out on send/recv operation")

    with monkeypatch.context() as patch:
        patch.setattr(slurm, "perform", answer)
        yield


def test_a_submission_without_an_answer_is_looked_up_and_not_repeated(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon = start_daemon(launcher=submitting())
    with sbatch_unanswered(slurm, monkeypatch, has_effect=True), pytest.raises(SlurmUnreachableError):
        daemon.cycle()
    again = start_daemon(launcher=submitting())
    again.cycle()
    again.cycle()
    assert fragments_in(slurm) == ["n1"]
    assert [command[0] for command in slurm.told].count("sbatch") == 1
    assert [fragment.job for fragment in again.cluster.books.open] == ["102"]


def test_an_order_that_did_not_reach_slurm_costs_its_node_a_minute(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit_array("freetrain:min=1,max=1", tasks=1)
    daemon = start_daemon(launcher=submitting())
    with sbatch_unanswered(slurm, monkeypatch, has_effect=False), pytest.raises(SlurmUnreachableError):
        daemon.cycle()
    daemon.cycle()
    slurm.now_s += 50.0
    daemon.cycle()
    lost = [fragment.node for fragment in daemon.cluster.books.open if fragment.state is FragmentState.LOST]
    slurm.now_s += 20.0
    daemon.cycle()
    assert lost == ["n1"]
    assert [fragment.node for fragment in daemon.cluster.books.open] == fragments_in(slurm)


def test_fragments_that_were_never_ordered_cost_their_nodes_nothing(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit_array("freetrain:min=1,max=3", tasks=1)
    record_command = Ledger.record_command
    writes = iter([True, False])

    def disk_is_full(ledger: Ledger, *args: Any, **kwargs: Any) -> int:
        if next(writes):
            return record_command(ledger, *args, **kwargs)
        raise StateError("The disk is full.", passes=True)

    with monkeypatch.context() as full:
        full.setattr(Ledger, "record_command", disk_is_full)
        with pytest.raises(StateError):
            start_daemon(launcher=submitting()).cycle()
    assert len(fragments_in(slurm)) == 1
    again = start_daemon(launcher=submitting())
    again.cycle()
    assert FragmentState.LOST not in {fragment.state for fragment in again.cluster.books.open}
    again.cycle()
    assert len(fragments_in(slurm)) == 3


def test_a_lost_database_is_rebuilt_from_the_fragments_comments(
    slurm: FakeSlurm, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    slurm.submit_array("freetrain:min=1,max=3", tasks=1)
    daemon = start_daemon(launcher=submitting())
    daemon.cycle()
    for file in tmp_path.glob("freetrain.db*"):
        file.unlink()
    again = start_daemon(launcher=submitting())
    again.cycle()
    assert len(again.cluster.books.open) == len(fragments_in(slurm)) == 3


def test_fragments_whose_pattern_is_gone_are_ended(slurm: FakeSlurm, daemon: Daemon, tmp_path: Path) -> None:
    pattern = slurm.submit_array("freetrain:min=1,max=3", tasks=1)
    daemon.cycle()
    daemon.cycle()
    slurm.forget(f"{pattern}_0")
    daemon.cycle()
    assert fragments_in(slurm) == []


def test_the_script_keeps_what_the_owner_asks_of_a_node_and_drops_what_freetrain_decides() -> None:
    script = fragment_script(FRAGMENT, Pattern(SCRIPT, "/tmp"))
    directives = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    kept, copied = directives[:2], directives[2:]
    assert kept == ["#SBATCH --gpus-per-node=4", "#SBATCH --output=it's-%j.log"]
    assert len(copied) == 5  # the owner's script follows as it is, where sbatch reads no directives any more


def test_the_script_runs_as_its_owner_wrote_it(tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME"
    folder.mkdir()
    text = '#!/bin/bash\necho "$PWD|$FREETRAIN_FRAGMENT_OF|$(cat)"\nFREETRAIN_END_OF_SCRIPT() { :; }\nexit 3\n'
    script = fragment_script(FRAGMENT, Pattern(text, str(folder)))
    ran = subprocess.run(["bash", "-c", script], input="in", capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == (f"{folder}|7|in\n", 3), ran.stderr


@pytest.mark.parametrize("told", [True, False])
def test_a_fragment_knows_when_it_ends_whether_or_not_slurm_says_so(told: bool) -> None:
    script = fragment_script(FRAGMENT, Pattern("#!/bin/bash\necho $SLURM_JOB_END_TIME\n", "/tmp"))
    environment = os.environ | ({"SLURM_JOB_END_TIME": "5"} if told else {})
    before_s = time.time()
    said = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True).stdout
    ends_s = 5 if told else before_s + FRAGMENT.limit_s
    assert int(said) == pytest.approx(ends_s, abs=30)


def test_fragments_on_parts_of_a_node_ask_for_their_parts_and_are_told_apart() -> None:
    needs = Needs(cpus=4, memory_mb=300, gres=(("gpu:a100", 2),), is_whole=False).lent_in_part()
    pattern = Job("7", "7", "news", "freetrain", JobState.PENDING)
    submission = Submission("7", "news", "", 0.0, (pattern,), needs)
    fragments = submitting().lend(submission, ["n1", "n2", "n1"], [600.0] * 3, 1000.0)
    assert len({fragment.job for fragment in fragments}) == 3, (
        "Slurm knows them by their comments until they have a number"
    )
    order = submitting().place(submission, fragments[0], [node("n1", cpus=64)])
    assert {"--mincpus=4", "--mem=300", "--gres=gpu:a100:2"} < set(order.command)
    assert "--exclusive" not in order.command
    assert "gpus-per-node" not in order.stdin.partition("FREETRAIN_END_OF_SCRIPT")[0]


@pytest.mark.parametrize(("processes", "cpus"), [(1, 9), (4, 4)])
def test_a_fragment_of_one_process_can_have_more_cpus_than_its_pattern_asks_for_and_all_can_have_more_memory(
    processes: int, cpus: int
) -> None:
    needs = Needs(cpus=4, memory_mb=300, gres=(("gpu:a100", 2),), is_whole=False, processes=processes)
    pattern = Job("7", "7", "news", "freetrain", JobState.PENDING)
    submission = Submission("7", "news", "", 0.0, (pattern,), needs.lent_in_part())
    gres = (("gpu:a100", 2),)
    given = submitting().gives(submission, Amount(9, 700, gres), Amount(4, 300, gres))
    assert given == Amount(cpus, 700, gres)
    order = submitting().place(submission, FRAGMENT, [node("n1", cpus=64)], given)
    assert {f"--mincpus={cpus}", "--mem=700", "--gres=gpu:a100:2"} < set(order.command)
    assert ("--cpus-per-task=9" in order.command) is (processes == 1)
