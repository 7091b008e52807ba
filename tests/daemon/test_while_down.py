"""What happened while no daemon was there: the next one notices it once, and tells of it like of anything else."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pwd
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.config import Config, Loaded
from freetrain.core.job import JobState
from freetrain.daemon.reports import notices
from freetrain.daemon.reports.status import LookStatus
from freetrain.daemon.service import Service
from freetrain.lending.memory import Memory
from freetrain.slurm.errors import SlurmUnreachableError
from freetrain.slurm.states import facts_of_state
from freetrain.store.ledger import Ledger
from freetrain.store.store import DAEMONS_STORE, Store
from tests.daemon.fake_slurm import FakeSlurm
from tests.daemon.reports.test_notices import TELLS

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "tell"
    path.write_text(TELLS)
    path.chmod(0o755)
    return path


@pytest.fixture
def config(tmp_path: Path, script: Path) -> Config:
    return Config.model_validate(
        {
            "lend": {"mode": "act"},
            "state": {"directory": str(tmp_path / "state"), "stop_file": str(tmp_path / "STOP")},
            "notify": {"command": str(script), "owners_command": str(script), "every": 0},
        }
    )


def live(config: Config, slurm: FakeSlurm) -> None:
    """A daemon begins, looks once and ends."""
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    slurm.advance(5.0)


def ledger_of(config: Config) -> Ledger:
    return Store.open(Path(config.state.directory) / DAEMONS_STORE).ledger()


def said(script: Path) -> Counter[str]:
    """The sentences that were told, with how often each was."""
    path = script.with_name(f"{script.name}.said")
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(line.rstrip(".") for line in lines if line.startswith(("training", "node", "nothing", "job")))


def end_unseen(slurm: FakeSlurm, array: str, state: JobState) -> None:
    """All of an array ends in this way, and Slurm forgets it."""
    for job in [job for job in slurm.jobs.values() if job.array == array]:
        slurm.finish(job.id, state)
        slurm.forget(job.id)


def test_all_that_happened_is_told_and_written_down_once(
    config: Config, script: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slurm = FakeSlurm()
    done, failed, gone, goes_on = (slurm.submit_array("freetrain:min=1", tasks=1) for _ in range(4))
    live(config, slurm)
    live(config, slurm)
    assert said(script) == {}, "it was so when the first daemon began"
    ((lost,),) = [slurm.running(failed)]
    for array, state in ((done, JobState.COMPLETED), (failed, JobState.FAILED), (gone, JobState.CANCELLED)):
        end_unseen(slurm, array, state)
    slurm.cancelled_by = {gone: (os.getuid(),)}
    slurm.nodes[lost] = replace(slurm.nodes[lost], **facts_of_state("IDLE+DRAIN", "Kill task failed"))
    new = slurm.submit_array("freetrain:min=1", tasks=1, user="games")
    Path(config.state.stop_file).touch()
    slurm.advance(600.0)

    caplog.set_level(logging.INFO)
    live(config, slurm)
    left = "has left Slurm while no daemon looked; its last fragment"
    expected = {
        f"training {done} {left}: completed",
        f"training {failed} {left}: failed",
        f"training {new} is registered: it may be lent idle nodes from now on",
        f"nothing is lent: stopped by {config.state.stop_file}",
        f"node {lost} is out of service (IDLE+DRAIN) since fragment {failed}_0 could not be ended or cleared up "
        "after",
    }
    assert said(script) == dict.fromkeys(expected, 1)
    logged = [f"trainer {id_} of news {left}: {end}" for id_, end in
              ((done, "completed"), (failed, "failed"), (gone, "cancelled"))]  # fmt: skip
    assert [message for message in caplog.messages if left in message] == logged
    for _ in range(2):
        live(config, slurm)
    assert said(script) == dict.fromkeys(expected, 1)
    assert [message for message in caplog.messages if left in message] == logged
    ledger = ledger_of(config)
    cancelled = [(row.actor, row.why) for row in ledger.commands() if row.actor != "daemon"]
    assert cancelled == [(ME, f"training {gone} of news was cancelled")]
    states = {id_: str(known.state) for id_, known in ledger.trainers().items()}
    assert (states[done], states[goes_on]) == ("complete", "active")


def test_what_accounting_does_not_tell_yet_is_settled_later(
    config: Config, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm()
    gone = slurm.submit_array("freetrain:min=1", tasks=1)
    live(config, slurm)
    end_unseen(slurm, gone, JobState.CANCELLED)
    slurm.cancelled_by = {gone: (os.getuid(),)}
    perform = slurm.perform

    def without_accounting(command: tuple[str, ...], stdin: str = "") -> str:
        if command[0] == "sacct":
            raise SlurmUnreachableError("slurmdbd is away")
        return perform(command, stdin)

    monkeypatch.setattr(slurm, "perform", without_accounting)
    live(config, slurm)
    assert [row for row in ledger_of(config).commands() if row.actor != "daemon"] == []
    monkeypatch.setattr(slurm, "perform", perform)
    for _ in range(2):
        live(config, slurm)
    assert [row.actor for row in ledger_of(config).commands() if row.actor != "daemon"] == [ME]


def test_a_lost_node_counts_after_a_restart_and_is_not_told_again(config: Config, script: Path) -> None:
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1", tasks=1)
    live(config, slurm)
    (node,) = slurm.running(array)
    slurm.nodes[node] = replace(slurm.nodes[node], **facts_of_state("IDLE+DRAIN", "Kill task failed"))
    for _ in range(3):
        live(config, slurm)
    assert [lost[0] for lost in ledger_of(config).lost_nodes()] == [node]
    assert sum(said(script).values()) == 1
    slurm.nodes[node] = replace(slurm.nodes[node], **facts_of_state("IDLE"))
    slurm.advance(1e6)
    live(config, slurm)
    assert ledger_of(config).lost_nodes() == []


def look_and_tell(tmp_path: Path, script: Path, stopped_by: str, dies_before: str) -> None:
    def die(*_args: object, **_kwargs: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    store = Store.open(tmp_path / "notices.db")
    book = store.notice_book()
    if dies_before:
        setattr(notices if dies_before == "run_hook" else book, dies_before, die)
    settings = Config.model_validate({"notify": {"command": str(script), "every": 0}})
    tells = notices.Notices(settings, book, store.ledger(), FakeSlurm())
    tells.looked(LookStatus(time_s=1.0, took_s=0.1, stopped_by=stopped_by), Memory())
    for running in tells._running.values():
        running.has_ended.wait(60)


def daemon(tmp_path: Path, script: Path, stopped_by: str, dies_before: str = "") -> None:
    """A process of its own looks, and is killed before it does this."""
    arguments = (tmp_path, script, stopped_by, dies_before)
    process = multiprocessing.get_context("fork").Process(target=look_and_tell, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == (-signal.SIGKILL if dies_before else 0)


@pytest.mark.parametrize(
    ("dies_before", "times"), [("note", 1), ("begin", 1), ("run_hook", 1), ("mark_delivered", 2)]
)
def test_wherever_the_daemon_is_killed_it_is_told_and_twice_only_if_that_was_not_written_down(
    tmp_path: Path, script: Path, dies_before: str, times: int
) -> None:
    daemon(tmp_path, script, "")
    daemon(tmp_path, script, "a STOP file", dies_before)
    for _ in range(2):
        daemon(tmp_path, script, "a STOP file")
    assert said(script) == {"nothing is lent: a STOP file": times}


def test_a_command_in_which_the_daemon_is_killed_each_time_is_not_run_for_ever(
    tmp_path: Path, script: Path
) -> None:
    daemon(tmp_path, script, "")
    for _ in range(3):
        daemon(tmp_path, script, "a STOP file", "mark_delivered")
    daemon(tmp_path, script, "a STOP file")
    assert said(script) == {"nothing is lent: a STOP file": 3}
