from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.config import Config, ConfigError, Loaded
from freetrain.core.decision import Allocation, Decision, Status
from freetrain.core.problem import Problem
from freetrain.daemon import lender, service, timetable
from freetrain.daemon.controls.nudge import send_nudge
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.service import LOOK_S, Service, wants_more_time
from freetrain.daemon.state_directory import LOCK_NAME, claim, file_system_of
from freetrain.errors import ExitCode, FreetrainError, StateError
from freetrain.lending.stays import Stays
from freetrain.policies.freetrain import FreeTrain
from freetrain.slurm.errors import SlurmUnfitError
from freetrain.store.schema import SCHEMA
from freetrain.store.store import DAEMONS_STORE, Store
from tests.daemon.fake_slurm import CONFIG, FakeSlurm
from tests.store.samples import begin_store_of_first_release

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
    """Run the service here, where signals arrive, and something else beside it; then stop the service.

    Whichever of the two fails first: no signal ends pytest.
    """
    ended = threading.Event()

    def play() -> None:
        try:
            during()
        finally:
            while not ended.wait(0.1):
                os.kill(os.getpid(), signal.SIGTERM)

    before = {number: signal.signal(number, _heed_nothing) for number in (signal.SIGTERM, signal.SIGHUP)}
    player = threading.Thread(target=play)
    player.start()
    try:
        service.run()
    finally:
        ended.set()
        player.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def _heed_nothing(_number: int, _frame: object) -> None:
    """For signals that come before or after the service."""


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
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    *starting, ready, stopping = systemd()
    extended = f"EXTEND_TIMEOUT_USEC={LOOK_S:.0f}000000\nSTATUS="
    asking, looking = "asking Slurm for its settings", "looking at Slurm for the first time"
    assert starting == [f"{extended}{asking}", f"{extended}{looking}"]
    assert "READY=1" in ready
    assert "WATCHDOG=1" in ready
    assert "0 of 8 nodes lent to 0 trainers, 4 asked for" in ready
    assert "STOPPING=1" in stopping


def test_a_first_look_may_take_as_long_as_any_other() -> None:
    unit = (Path(__file__).parents[2] / "systemd/freetrain.service").read_text()
    assert f"\nWatchdogSec={LOOK_S / 60:.0f}min\n" in unit


def test_it_is_waited_for_while_it_changes_an_old_database(
    config: Config, systemd: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = Path(config.state.directory) / DAEMONS_STORE
    path.parent.mkdir()
    begin_store_of_first_release(path)
    Service(Loaded(config), FakeSlurm(), lambda: Loaded(config)).run(cycles=1)
    doing = f"bringing the database from schema 0008 to {SCHEMA}"
    _asking, migration, _looking, ready, _stopping = systemd()
    assert re.fullmatch(rf"EXTEND_TIMEOUT_USEC=\d{{10}}\nSTATUS={doing}", migration)
    assert "READY=1" in ready
    assert any(message.startswith(doing) for message in caplog.messages)
    assert list(path.parent.glob(f"{DAEMONS_STORE}.schema-0008.backup"))


def test_every_cycle_is_a_decision_that_can_be_asked_for(config: Config) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    store = Store.open_existing(Path(config.state.directory) / DAEMONS_STORE)
    problem, decision = store.decision(1, 1)
    assert len(problem.nodes) == len(decision.placement["101"]) == 4
    *orders, _ = (row.decision for row in store.ledger().commands()[1:])  # first and last its mark
    assert set(orders) == {"1:1"}


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

    run_beside(Service(Loaded(config), slurm, lambda: Loaded(config)), nudge)
    assert seen == [True]
    assert len(slurm.running("101")) == 4
    assert not (directory / "nudge").exists()


@pytest.mark.usefixtures("quick")
def test_a_reload_takes_all_of_the_new_settings_or_none(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1")
    careful = config.model_copy(
        update={
            "lend": config.lend.model_copy(update={"reserve_nodes": 6}),
            "slurm": config.slurm.model_copy(update={"timeout": 7.0}),
            "log": config.log.model_copy(update={"levels": {"nobody": "error"}}),
        }
    )
    files: list[Config | ConfigError] = [ConfigError("there is no setting lend.nodes.")]

    def reload() -> Loaded:
        if isinstance(files[-1], ConfigError):
            raise files[-1]
        return Loaded(files[-1])

    def hang_up() -> None:
        eventually(lambda: len(slurm.running(array)) == 4)
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: "the settings stay as they are" in caplog.text)
        files.append(careful)
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: len(slurm.running(array)) == 2)

    with caplog.at_level("INFO"):
        run_beside(Service(Loaded(config), slurm, reload), hang_up)
    assert "the settings stay as they are: there is no setting lend.nodes." in caplog.text
    assert (
        'settings read: slurm.timeout needs a restart, lend.reserve_nodes = 6, log.levels = {nobody = "error"}'
    ) in caplog.text
    assert logging.getLogger("nobody").level == logging.ERROR
    assert len(slurm.running(array)) == 2


@pytest.mark.usefixtures("quick")
def test_the_sites_command_is_told_that_nothing_is_lent_any_more(
    config: Config, tmp_path: Path, systemd: Callable[[], list[str]]
) -> None:
    script, told = tmp_path / "tell", tmp_path / "told"
    script.write_text(
        f'#!/bin/sh\nread -r said; echo "$FREETRAIN_KIND: $said" > {told}.new; mv {told}.new {told}\n'
    )
    script.chmod(0o755)
    notifying = with_settings(config, "notify", command=str(script))

    def stop_lending() -> None:
        eventually(lambda: any("READY" in message for message in systemd()))
        Path(config.state.stop_file).touch()
        send_nudge(Path(config.state.directory))
        eventually(told.exists)

    run_beside(Service(Loaded(notifying), FakeSlurm(), lambda: Loaded(notifying)), stop_lending)
    assert told.read_text() == f"pause: nothing is lent: stopped by {config.state.stop_file}\n"


@pytest.mark.usefixtures("quick")
def test_a_silent_slurm_is_survived(config: Config, systemd: Callable[[], list[str]]) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    directory = Path(config.state.directory)

    def fall_silent() -> None:
        eventually(lambda: any("READY" in message for message in systemd()))
        slurm.deaf_after = 0
        send_nudge(directory)
        eventually(lambda: "READY" not in systemd()[-1])

    run_beside(Service(Loaded(config), slurm, lambda: Loaded(config)), fall_silent)
    *looks, stopping = [message for message in systemd() if "EXTEND_TIMEOUT" not in message]
    assert "READY=1" in looks[0]
    assert "READY" not in looks[-1]
    assert all("WATCHDOG=1" in look for look in looks)
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

        def decide(self, problem: Problem) -> Allocation:
            limits_s.append(self.time_limit_s)
            time.sleep(min(self.time_limit_s, 0.5))
            status = Status.FEASIBLE if self.time_limit_s < 1 else Status.OPTIMAL
            return replace(super().decide(problem), status=status)

    monkeypatch.setattr(lender, "find_policy", lambda name, solver, time_limit_s: Unsure(time_limit_s))
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    patient = config.model_copy(update={"pace": config.pace.model_copy(update={"poll": 120.0})})
    began_s = time.monotonic()
    Service(Loaded(patient), slurm, lambda: Loaded(patient)).run(cycles=2)
    assert limits_s == [0.5, 10.0]
    assert time.monotonic() - began_s < 120, "no poll in between"


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_the_settings_choose_the_solver(config: Config, monkeypatch: pytest.MonkeyPatch, solver: str) -> None:
    chosen: list[str] = []

    def find(name: str, solver: str, time_limit_s: float) -> FreeTrain:
        chosen.append(solver)
        return FreeTrain()

    monkeypatch.setattr(lender, "find_policy", find)
    settings = with_settings(config, "decide", solver=solver)
    Service(Loaded(settings), FakeSlurm(), lambda: Loaded(settings)).run(cycles=1)
    assert chosen == [solver]


@pytest.mark.parametrize(
    ("settings", "partition", "says"),
    [
        ("PreemptMode = OFF\nPreemptType = preempt/none\n", {}, "Slurm does not preempt"),
        ("PreemptMode = OFF\nPreemptType = preempt/partition_prio\n", {}, "Slurm does not preempt"),
        (CONFIG, {"preempt_mode": "OFF"}, "never preempted"),
        (CONFIG, {"priority_tier": 10}, "main shares 8 nodes with freetrain and has PriorityTier=10"),
    ],
)
def test_a_slurm_that_would_not_preempt_is_refused(
    config: Config, settings: str, partition: dict[str, object], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    slurm = FakeSlurm()
    slurm.config = settings
    slurm.partitions["freetrain"] = replace(slurm.partitions["freetrain"], **partition)  # type: ignore[arg-type]
    slurm.submit_array("freetrain:min=1")
    with pytest.raises(SlurmUnfitError, match=says) as refused:
        Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    assert refused.value.exit_code is ExitCode.UNREACHABLE, "systemd tries again: it may be mended in Slurm"
    assert refused.value.hint
    assert slurm.told == []
    observing = with_settings(config, "lend", mode="observe")
    with caplog.at_level("INFO"):
        Service(Loaded(observing), slurm, lambda: Loaded(observing)).run(cycles=1)
    assert re.search(says, caplog.text), "to observe is safe, and the same is only said"
    assert slurm.told == []


WRONG = [
    ("decide", {"policy": "fretrain"}, "decide.policy: There is no policy 'fretrain'"),
    ("decide", {"objective": "sped"}, "decide.objective: There is no objective 'sped'"),
    ("decide", {"objective": "no_such_module:worth"}, "decide.objective: .*cannot be imported"),
    ("decide", {"objective": "math:exp"}, "decide.objective: .*failed for trainer 'trial'"),
]


def with_settings(config: Config, section: str, **values: object) -> Config:
    return config.model_copy(update={section: getattr(config, section).model_copy(update=values)})


@pytest.mark.parametrize(("section", "values", "says"), WRONG)
def test_settings_that_name_what_is_not_there_are_refused_at_the_start(
    config: Config, section: str, values: dict[str, object], says: str
) -> None:
    slurm = FakeSlurm()
    wrong = with_settings(config, section, **values)
    with pytest.raises(ConfigError, match=says) as refused:
        Service(Loaded(wrong), slurm, lambda: Loaded(wrong)).run(cycles=1)
    assert refused.value.exit_code is ExitCode.CONFIGURATION
    assert slurm.told == []


@pytest.mark.usefixtures("quick")
def test_a_reload_that_cannot_be_followed_leaves_everything_as_it_was(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1")
    wrong = [with_settings(config, section, **{**values, "horizon": 60.0}) for section, values, _ in WRONG]
    files: list[Loaded] = []

    def hang_up() -> None:
        eventually(lambda: len(slurm.running(array)) == 4)
        for count, settings in enumerate(wrong, 1):
            files.append(Loaded(settings, texts={Path("freetrain.toml"): str(count)}))
            os.kill(os.getpid(), signal.SIGHUP)
            assert eventually(lambda count=count: caplog.text.count("the settings stay as they are") == count)  # type: ignore[misc]
        send_nudge(Path(config.state.directory))
        time.sleep(0.2)

    with caplog.at_level("INFO"):
        run_beside(Service(Loaded(config), slurm, lambda: files[-1]), hang_up)
    for _, _, says in WRONG:
        assert re.search(says, caplog.text)
    assert len(slurm.running(array)) == 4


ACT = '[lend]\nmode = "act"\n[pace]\npoll = 5\n'
HALF = "[lend]\nreserve_nodes = 1\n"
FILE = Path("freetrain.toml")


def settings_of(config: Config, text: str, *origins: str) -> Loaded:
    return Loaded(config, (FILE,), dict.fromkeys(origins, FILE), {FILE: text})


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "freetrain.toml is empty: of 4 lines 0 are left."),
        (ACT[:20], "freetrain.toml has lost its end: of 4 lines 2 are left."),
        (HALF, "no file names lend.mode any more, which was act"),
    ],
)
def test_settings_of_which_a_part_has_vanished_are_refused_and_what_is_lent_is_looked_after(
    config: Config, caplog: pytest.LogCaptureFixture, text: str, says: str
) -> None:
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1")
    files = [settings_of(config, ACT, "lend.mode")]
    seen: list[str] = []

    def lose_them() -> None:
        eventually(lambda: len(slurm.running(array)) == 4)
        files.append(settings_of(with_settings(config, "lend", mode="observe", reserve_nodes=1), text))
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: "the settings stay as they are" in caplog.text)
        seen.extend(find_standing(config).lines())
        Path(config.state.stop_file).touch()
        send_nudge(Path(config.state.directory))
        seen.append(f"{eventually(lambda: not slurm.running(array))}")

    with caplog.at_level("INFO"):
        run_beside(Service(files[0], slurm, lambda: files[-1]), lose_them)
    assert says in caplog.text
    assert "The last reload was refused: " + says[:30] in "\n".join(seen)
    assert seen[-1] == "True", "the daemon still gives back what it lent"


@pytest.mark.usefixtures("quick")
def test_a_reload_that_slurm_did_not_answer_is_tried_again(
    config: Config, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "retry_after_s", lambda poll_s, tries: 0.0)
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1")
    files = [settings_of(config, ACT, "lend.mode")]
    careful = settings_of(with_settings(config, "lend", reserve_nodes=6), ACT + "[lend]\n", "lend.mode")
    directory = Path(config.state.directory)

    def fall_silent() -> None:
        eventually(lambda: len(slurm.running(array)) == 4)
        files.append(careful)
        slurm.deaf_after = 0
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: "the settings stay as they are" in caplog.text)
        slurm.deaf_after, slurm.away = None, False

        def is_taken() -> bool:
            send_nudge(directory)
            return "settings read: lend.reserve_nodes = 6" in caplog.text

        eventually(is_taken)

    with caplog.at_level("INFO"):
        run_beside(Service(files[0], slurm, lambda: files[-1]), fall_silent)
    assert "settings read: lend.reserve_nodes = 6" in caplog.text
    assert caplog.text.count("the settings stay as they are") == 1, "it is said once"


@pytest.mark.usefixtures("quick")
def test_a_refused_reload_is_not_tried_again_once_the_files_have_changed(
    config: Config, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "retry_after_s", lambda poll_s, tries: 0.0)
    observing = with_settings(config, "lend", mode="observe")
    slurm, files = FakeSlurm(), [settings_of(observing, "1"), settings_of(config, "2")]
    slurm.partitions["freetrain"] = replace(slurm.partitions["freetrain"], priority_tier=10)

    def change_them() -> None:
        eventually(lambda: "mode observe" in caplog.text)
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: "the settings stay as they are" in caplog.text)
        files.append(settings_of(with_settings(observing, "lend", reserve_nodes=3), "3"))

        def is_said() -> bool:
            send_nudge(Path(config.state.directory))
            return "reload to have them read" in caplog.text

        eventually(is_said)

    with caplog.at_level("INFO"):
        run_beside(Service(files[0], slurm, lambda: files[-1]), change_them)
    assert "have changed since: reload to have them read" in caplog.text
    assert "settings read" not in caplog.text


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_once_it_has_said_what_it_does_it_heeds_signals(
    config: Config, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    heeded: list[bool] = []
    default = signal.getsignal(number)
    monkeypatch.setattr(Service, "_say_hello", lambda _: heeded.append(signal.getsignal(number) != default))
    Service(Loaded(config), FakeSlurm(), lambda: Loaded(config)).run(cycles=1)
    assert heeded == [True]


@pytest.mark.usefixtures("quick")
def test_a_reload_into_an_unsafe_layout_is_refused(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    slurm = FakeSlurm()
    observing = with_settings(config, "lend", mode="observe")
    slurm.partitions["freetrain"] = replace(slurm.partitions["freetrain"], priority_tier=10)

    def hang_up() -> None:
        eventually(lambda: "mode observe" in caplog.text)
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: "the settings stay as they are" in caplog.text)

    with caplog.at_level("INFO"):
        run_beside(Service(Loaded(observing), slurm, lambda: Loaded(config)), hang_up)
    assert 'lend.mode = "act" is refused' in caplog.text
    assert "PriorityTier=9" in caplog.text
    assert slurm.told == []


def test_nodes_that_slurm_does_not_have_are_named(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    slurm = FakeSlurm()
    odd = with_settings(config, "lend", exclude_nodes="n[1,98-99]")
    Service(Loaded(odd), slurm, lambda: Loaded(odd)).run(cycles=1)
    assert "lend.exclude_nodes names n[98-99], which Slurm does not have" in caplog.text


def test_a_range_without_brackets_is_refused_as_its_nodes_would_be_lent(config: Config) -> None:
    slurm = FakeSlurm()
    odd = with_settings(config, "lend", exclude_nodes="n1-3")
    with pytest.raises(ConfigError, match=r"names n1-3, which Slurm does not have; it has n\[1-3\]"):
        Service(Loaded(odd), slurm, lambda: Loaded(odd)).run(cycles=1)
    assert slurm.told == []


@pytest.mark.usefixtures("quick")
def test_in_a_layout_that_becomes_unsafe_all_is_given_back_and_lent_again_when_it_is_mended(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    slurm = FakeSlurm()
    array = slurm.submit_array("freetrain:min=1")
    safe = slurm.partitions["main"]
    directory = Path(config.state.directory)
    seen: list[bool] = []

    def change_it() -> None:
        seen.append(eventually(lambda: len(slurm.running(array)) == 4))
        for partition, lent in ((replace(safe, priority_tier=1), 0), (safe, 4)):
            slurm.partitions["main"] = partition
            send_nudge(directory)
            seen.append(eventually(lambda lent=lent: len(slurm.running(array)) == lent))  # type: ignore[misc]
            send_nudge(directory)
            time.sleep(0.1)

    with caplog.at_level("INFO"):
        run_beside(Service(Loaded(config), slurm, lambda: Loaded(config)), change_it)
    assert seen == [True, True, True]
    assert caplog.text.count("Mend it with: scontrol update PartitionName=freetrain PriorityTier=0") == 1
    assert "Slurm's layout is safe again" in caplog.text


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


@pytest.mark.parametrize("before", [None, 0o644])
def test_nobody_else_may_open_and_so_lock_its_lock_whatever_the_umask(tmp_path: Path, before: int | None) -> None:
    if before is not None:
        (tmp_path / LOCK_NAME).touch(before)
    umask = os.umask(0)
    try:
        with claim(tmp_path):
            assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(umask)


def test_another_process_that_holds_the_lock_is_named_and_not_a_daemon_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    path.write_text("4194305\n")  # no process has this number
    hold = f"import fcntl, sys; f = open({str(path)!r}); fcntl.flock(f, fcntl.LOCK_SH); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(FreetrainError, match=f"Process {other.pid}, which is not the daemon") as refused:
            claim(tmp_path)
        other.kill()
    assert f"ps -fp {other.pid}" in refused.value.hint
    assert refused.value.exit_code is ExitCode.TRY_AGAIN


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="file/state"):
        claim(tmp_path / "file" / "state")


def test_how_long_nodes_stay_is_remembered_beyond_a_restart(config: Config) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    ledger = Store.open_existing(Path(config.state.directory) / DAEMONS_STORE).ledger()
    assert ledger.stays(config.slurm.partition) == (Stays().idle_node_s, Stays().left)
    ledger.save_stays(config.slurm.partition, 50_000.0, 10.0)
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=1)
    store = Store.open_existing(Path(config.state.directory) / DAEMONS_STORE)
    assert store.decision(2, 1)[0].horizon_s == 5_000.0


@pytest.mark.parametrize(
    ("status", "gap", "solve_s", "expected"),
    [
        (Status.FEASIBLE, 0.02, 0.5, True),
        (Status.FEASIBLE, 0.02, 0.1, False),
        (Status.FEASIBLE, 1e-4, 0.5, False),
        (Status.FALLBACK, None, 0.6, True),
        (Status.OPTIMAL, 0.0, 0.5, False),
        (Status.HEURISTIC, None, 0.5, False),
    ],
)
def test_only_a_solver_that_was_short_of_time_is_asked_again_with_more(
    status: Status, gap: float | None, solve_s: float, expected: bool
) -> None:
    decision = Decision(status, 1.0, {}, "highs", gap, solve_s)
    assert wants_more_time(decision, 0.5) is expected
