from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.config import Config, ConfigError
from freetrain.core.decision import Decision, Status
from freetrain.core.problem import Problem
from freetrain.daemon import lender, timetable
from freetrain.daemon.nudge import NudgeListener, send_nudge
from freetrain.daemon.service import Service
from freetrain.daemon.state_directory import claim, file_system_of
from freetrain.errors import ExitCode, FreetrainError, StateError
from freetrain.policies import FreeTrain
from freetrain.store.store import DAEMONS_STORE, Store
from tests.daemon.fake_slurm import CONFIG, FakeSlurm

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:40 / /home rw,relatime shared:2 - nfs4 server:/home rw
41 40 8:2 / /home/my\\040local rw,relatime shared:3 - xfs /dev/sdb1 rw
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    state = {"directory": str(tmp_path / "state"), "stop_file": str(tmp_path / "STOP")}
    return Config.model_validate(
        {"lend": {"mode": "act", "launcher": "steer"}, "state": state, "pace": {"poll": 5.0}}
    )


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Listens like systemd; gives what it was told so far."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        told: list[str] = []

        def messages() -> list[str]:
            while True:
                try:
                    told.append(listener.recv(4096).decode())
                except BlockingIOError:
                    return told

        yield messages


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles may follow each other at once."""
    monkeypatch.setattr(timetable, "_BETWEEN_LOOKS_S", 0.01)


def run_beside(service: Service, during: Callable[[], None]) -> None:
    """Run the service here, where signals arrive, and something else beside it; then stop the service."""

    def play() -> None:
        try:
            during()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    player = threading.Thread(target=play)
    player.start()
    service.run()
    player.join()


def eventually(fine: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + 60
    while not fine() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return fine()


def test_it_says_ready_after_the_first_good_look_and_alive_after_each(
    config: Config, systemd: Callable[[], list[str]]
) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    Service(config, slurm, lambda: config).run(cycles=1)
    (ready, stopping) = systemd()
    assert "READY=1" in ready
    assert "WATCHDOG=1" in ready
    assert "4 of 8 nodes lent to 1 trainers" in ready
    assert "STOPPING=1" in stopping


def test_every_cycle_is_a_decision_that_can_be_asked_for(config: Config) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    Service(config, slurm, lambda: config).run(cycles=1)
    store = Store.open_existing(Path(config.state.directory) / DAEMONS_STORE)
    problem, decision = store.decision(1, 1)
    assert len(problem.nodes) == 8
    assert len(decision.placement["101"]) == 4
    assert {row.decision for row in store.ledger().commands()} == {"1:1"}


@pytest.mark.usefixtures("quick")
def test_a_nudge_makes_it_look_and_a_signal_ends_it_with_everything_lent(config: Config) -> None:
    slurm = FakeSlurm()
    directory = Path(config.state.directory)
    seen: list[bool] = []

    def nudge() -> None:
        eventually(lambda: (directory / "nudge").exists())
        time.sleep(0.1)
        array = slurm.submit_array("freetrain:min=1")
        send_nudge(directory)
        seen.append(eventually(lambda: len(slurm.running(array)) == 4))

    run_beside(Service(config, slurm, lambda: config), nudge)
    assert seen == [True]
    assert len(slurm.running("101")) == 4
    assert not (directory / "nudge").exists()


@pytest.mark.usefixtures("quick")
def test_a_reload_takes_all_of_the_new_settings_or_none(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1")
    careful = config.model_copy(update={"lend": config.lend.model_copy(update={"reserve_nodes": 6})})
    answers: list[Config | ConfigError] = [ConfigError("there is no setting lend.nodes."), careful]

    def reload() -> Config:
        answer = answers.pop(0)
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    def hang_up() -> None:
        eventually(lambda: len(slurm.running(array)) == 4)
        for _ in range(2):
            left = len(answers)
            os.kill(os.getpid(), signal.SIGHUP)
            eventually(lambda left=left: len(answers) < left)  # type: ignore[misc]
        eventually(lambda: len(slurm.running(array)) == 2)

    with caplog.at_level("INFO"):
        run_beside(Service(config, slurm, reload), hang_up)
    assert "the settings stay as they are: there is no setting lend.nodes." in caplog.text
    assert len(slurm.running(array)) == 2


@pytest.mark.usefixtures("quick")
def test_a_silent_slurm_is_survived(config: Config, systemd: Callable[[], list[str]]) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    directory = Path(config.state.directory)

    def fall_silent() -> None:
        eventually(lambda: any("READY" in message for message in systemd()))
        slurm.deaf_after = 0
        send_nudge(directory)
        eventually(lambda: any("READY" not in message for message in systemd()))

    run_beside(Service(config, slurm, lambda: config), fall_silent)
    ready, *silent, stopping = systemd()
    assert "READY=1" in ready
    assert silent
    assert all("WATCHDOG=1" in message and "READY" not in message for message in silent)
    assert "STOPPING=1" in stopping
    assert len(slurm.running("101")) == 4


def test_a_first_placement_is_fast_and_a_proven_one_follows_at_once(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits_s: list[float] = []

    class Unsure(FreeTrain):
        def __init__(self, time_limit_s: float) -> None:
            super().__init__()
            self.time_limit_s = time_limit_s

        def decide(self, problem: Problem) -> Decision:
            limits_s.append(self.time_limit_s)
            status = Status.FEASIBLE if self.time_limit_s < 1 else Status.OPTIMAL
            return replace(super().decide(problem), status=status)

    monkeypatch.setattr(lender, "find_policy", lambda name, time_limit_s: Unsure(time_limit_s))
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    began_s = time.monotonic()
    Service(config, slurm, lambda: config).run(cycles=2)
    assert limits_s == [0.5, 10.0]
    assert time.monotonic() - began_s < config.pace.poll


@pytest.mark.parametrize(
    ("settings", "partition", "says"),
    [
        ("PreemptMode = OFF\nPreemptType = preempt/none\n", {}, "Slurm does not preempt"),
        ("PreemptMode = OFF\nPreemptType = preempt/partition_prio\n", {}, "Slurm does not preempt"),
        (CONFIG, {"preempt_mode": "OFF"}, "never preempted"),
        (CONFIG, {"priority_tier": 10}, "higher PriorityTier"),
    ],
)
def test_a_slurm_that_would_not_preempt_is_refused(
    config: Config, settings: str, partition: dict[str, object], says: str
) -> None:
    slurm = FakeSlurm()
    slurm.config = settings
    slurm.partitions["freetrain"] = replace(slurm.partitions["freetrain"], **partition)  # type: ignore[arg-type]
    slurm.submit_array("freetrain:min=1")
    with pytest.raises(ConfigError, match=says) as refused:
        Service(config, slurm, lambda: config).run(cycles=1)
    assert refused.value.exit_code is ExitCode.CONFIGURATION
    assert refused.value.hint
    assert slurm.told == []


def test_a_directory_has_one_daemon_only(tmp_path: Path) -> None:
    with claim(tmp_path / "state"), pytest.raises(FreetrainError, match=f"process {os.getpid()}") as refused:
        claim(tmp_path / "state")
    assert refused.value.exit_code is ExitCode.TRY_AGAIN
    claim(tmp_path / "state").close()


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    assert file_system_of(Path("/home/news/freetrain"), MOUNTS) == "nfs4"
    assert file_system_of(Path("/home/my local/freetrain"), MOUNTS) == "xfs"
    assert file_system_of(Path("/var/lib/freetrain"), MOUNTS) == "ext4"
    everywhere = MOUNTS.splitlines()[0].replace("ext4", "lustre")
    with pytest.raises(StateError, match="network file system"):
        claim(tmp_path / "state", everywhere)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="file/state"):
        claim(tmp_path / "file" / "state")


def test_nobody_to_nudge_is_said(tmp_path: Path) -> None:
    with pytest.raises(FreetrainError, match="no daemon listens") as refused:
        send_nudge(tmp_path)
    assert refused.value.exit_code is ExitCode.UNREACHABLE


def test_a_storm_of_nudges_hurts_nobody(tmp_path: Path) -> None:
    heard = threading.Event()
    listener = NudgeListener(tmp_path, heard.set)
    for _ in range(2000):
        send_nudge(tmp_path)
    assert heard.wait(60)
    listener.close()
