from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from freetrain.config import Config, Loaded
from freetrain.core.cluster import Snapshot
from freetrain.core.job import JobState
from freetrain.daemon.reports import look_status
from freetrain.daemon.reports.look_status import status_of
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.reports.status import (
    STATUS_NAME,
    LookStatus,
    NodeGroup,
    StatusFile,
    StatusUnknownError,
    read_status,
)
from freetrain.daemon.service import Service
from freetrain.lending.facts import SiteOrders
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import CONFIG, FakeSlurm
from tests.facts import node


def last_look(daemon: Daemon) -> LookStatus:
    cluster = daemon.cluster
    entries, verdicts = cluster.registered.trainings, daemon.verdicts
    return status_of(daemon.judgement, entries, verdicts, cluster.books.open, 0.25)


def states(look: LookStatus) -> dict[str, str]:
    return {group.nodes: f"{group.state} {group.trainer}".strip() for group in look.nodes}


def test_what_was_asked_for_is_lent_once_slurm_has_started_it(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1,max=2")
    daemon = start_daemon()
    slurm.stuck = True
    daemon.cycle()
    look = last_look(daemon)
    assert states(look) == {"n[1-2]": f"asked for {array}", "n[3-8]": "free"}
    assert (look.trainers[0].lent, look.trainers[0].asked) == ("", "n[1-2]")
    slurm.stuck = False
    slurm.start_what_can()
    daemon.cycle()
    look = last_look(daemon)
    assert states(look) == {"n[1-2]": f"lent {array}", "n[3-8]": "free"}
    assert (look.trainers[0].lent, look.trainers[0].asked) == ("n[1-2]", "")


def test_a_training_is_published_with_its_owner_and_account(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit_array("freetrain:min=1")
    snapshot = slurm.snapshot

    def charged() -> Snapshot:
        found = snapshot()
        return replace(found, jobs=tuple(replace(job, account="press") for job in found.jobs))

    monkeypatch.setattr(slurm, "snapshot", charged)
    daemon = start_daemon()
    daemon.cycle()
    (one,) = last_look(daemon).trainers
    assert (one.owner, one.account) == ("news", "press")


def test_what_slurm_refuses_is_neither_lent_nor_asked_for(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit_array("freetrain:min=1,max=2")

    answer = slurm.perform

    def refuse(command: Command, stdin: str = "") -> str:
        if command[0] == "squeue":
            return answer(command, stdin)
        raise SlurmRefusedError("Invalid qos specification")

    monkeypatch.setattr(slurm, "perform", refuse)
    daemon = start_daemon()
    daemon.cycle()
    look = last_look(daemon)
    assert states(look) == {"n[1-8]": "free"}
    assert look.trainers[0].asked == ""
    assert look.trainers[0].ends == {"never started": 2}


def test_a_stop_is_the_reason_of_every_node(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    slurm.submit_array("freetrain:min=1,max=2")
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle(orders=SiteOrders(stopped="stopped by /run/freetrain/STOP"))
    look = last_look(daemon)
    assert look.stopped_by == "stopped by /run/freetrain/STOP"
    assert states(look) == {"n[1-2]": "due back 101", "n[3-8]": "not lent"}
    assert {group.why for group in look.nodes} == {"stopped by /run/freetrain/STOP"}


def test_ends_are_counted_since_the_beginning_and_after_a_restart(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1,max=8", tasks=8)
    daemon = start_daemon()
    for _ in range(2):
        daemon.cycle()
        daemon.cycle()
        slurm.finish(slurm.submit(nodes=3))
    daemon.cycle()
    assert last_look(daemon).trainers[0].ends == {"preempted": 6}
    restarted = start_daemon()
    restarted.cycle()
    slurm.finish(f"{array}_0", JobState.NODE_FAIL)
    restarted.cycle()
    assert last_look(restarted).trainers[0].ends == {"preempted": 6, "node failed": 1}


def test_a_fragment_whose_line_is_not_understood_is_not_gone(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1", tasks=2)
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    before, told = slurm.jobs.pop(f"{array}_1"), len(slurm.told)
    slurm.nodes["n2"] = node("n2", "ALLOCATED")
    slurm.rejected = (f"job '{array}_1': 2 fields instead of 18",)
    daemon.cycle()
    look = last_look(daemon)
    assert (look.rejected, look.rejected_examples) == (1, slurm.rejected)
    assert states(look)["n2"] == "not lent"
    assert len(slurm.told) == told
    slurm.jobs[before.id], slurm.rejected = before, ()
    daemon.cycle()
    assert states(last_look(daemon))["n[1-2]"] == f"lent {array}"
    assert len(slurm.told) == told
    assert daemon.ledger.ends_by_trainer([array]).get(array, {}) == {}


def test_what_users_and_slurm_say_is_published_within_bounds(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_status, "_MAX_TRAINERS", 2)
    for _ in range(3):
        slurm.submit_array("freetrain:" + "x" * 900)
    slurm.rejected = tuple(f"{number} {'x' * 1000}" for number in range(100))
    daemon = start_daemon()
    daemon.cycle()
    look = last_look(daemon)
    assert (len(look.trainers), look.trainers_left_out, look.rejected) == (2, 1, 100)
    assert len(look.rejected_examples) == 5
    assert len(json.dumps(asdict(look))) < 5_000


def test_everybody_may_read_the_status_and_few_the_database(tmp_path: Path) -> None:
    config = Config.model_validate({"state": {"directory": str(tmp_path / "state")}})
    before = os.umask(0o077)
    try:
        Service(Loaded(config), FakeSlurm(), lambda: Loaded(config)).run(cycles=1)
    finally:
        os.umask(before)
    state = tmp_path / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o755
    assert stat.S_IMODE((state / STATUS_NAME).stat().st_mode) == 0o644
    assert {stat.S_IMODE(path.stat().st_mode) & 0o007 for path in state.glob("freetrain.db*")} == {0}
    assert not list(state.glob("*.new"))


def test_a_site_that_hides_jobs_has_its_status_hidden(tmp_path: Path) -> None:
    config = Config.model_validate({"state": {"directory": str(tmp_path / "state")}})
    slurm = FakeSlurm()
    slurm.config = f"{CONFIG}PrivateData = accounts,jobs\n"
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    assert stat.S_IMODE((tmp_path / "state" / STATUS_NAME).stat().st_mode) == 0o640


def test_what_was_published_is_read_as_it_was(tmp_path: Path) -> None:
    file = StatusFile(tmp_path, 30.0, False, lambda: 1000.0)
    file.looked(
        Config(), LookStatus(990.0, 0.5, "a pause", 1, ("hm",), (NodeGroup("n1", "free", until_s=2000.0),))
    )
    found = read_status(tmp_path)
    assert (found.phase, found.daemon.pid, found.daemon.mode) == ("running", os.getpid(), "observe")
    assert found.look == LookStatus(990.0, 0.5, "a pause", 1, ("hm",), (NodeGroup("n1", "free", until_s=2000.0),))
    assert json.loads((tmp_path / STATUS_NAME).read_text())["format"] == "freetrain-status/1"
    file.stopped()
    assert read_status(tmp_path).phase == "stopped"


def test_silence_is_published_with_its_beginning_and_the_last_look_is_kept(tmp_path: Path) -> None:
    now_s = [1000.0]
    file = StatusFile(tmp_path, 30.0, False, lambda: now_s[0])
    file.looked(Config(), LookStatus(1000.0, 0.5))
    for now_s[0] in (1030.0, 1060.0):
        file.silent("nobody is there.")
    found = read_status(tmp_path)
    assert (found.silent_since_s, found.silent_why, found.written_s) == (1030.0, "nobody is there.", 1060.0)
    assert found.look == LookStatus(1000.0, 0.5)
    file.looked(Config(), LookStatus(1090.0, 0.5))
    assert read_status(tmp_path).silent_since_s is None


def test_a_daemon_that_asks_a_silent_slurm_less_often_is_no_daemon_that_hangs(tmp_path: Path) -> None:
    config = Config.model_validate({"state": {"directory": str(tmp_path)}})
    now_s = [time.time() - 100.0]
    file = StatusFile(tmp_path, 10.0, False, lambda: now_s[0])
    file.looked(config, LookStatus(now_s[0], 0.5))
    assert "was heard of 100 s ago" in find_standing(config).why_not
    file.silent("nobody is there.")
    assert find_standing(config).is_at_work
    now_s[0] -= 60.0
    file.silent("nobody is there.")
    assert not find_standing(config).is_at_work


def test_the_status_of_a_service_says_how_it_ended(tmp_path: Path) -> None:
    config = Config.model_validate({"lend": {"mode": "act"}, "state": {"directory": str(tmp_path)}})
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    found = read_status(tmp_path)
    assert found.phase == "stopped"
    assert found.look is not None
    assert states(found.look) == {"n[1-4]": "asked for 101", "n[5-8]": "free"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "freetrain-status/9"}', "\xff"])
def test_a_file_that_is_no_status_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / STATUS_NAME).write_text(text)
    with pytest.raises(StatusUnknownError, match="is not a status"):
        read_status(tmp_path)


def test_a_status_that_is_not_there_or_not_for_everybody_is_said(tmp_path: Path) -> None:
    with pytest.raises(StatusUnknownError, match="there is no"):
        read_status(tmp_path)
    (tmp_path / STATUS_NAME).mkdir()
    with pytest.raises(StatusUnknownError, match="cannot be read: Is a directory"):
        read_status(tmp_path)


def test_a_status_that_cannot_be_written_is_said_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = StatusFile(tmp_path / "nowhere", 30.0, False)
    for _ in range(3):
        file.looked(Config(), None)
    assert [record.message.count("cannot write") for record in caplog.records] == [1]
