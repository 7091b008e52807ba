from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from freetrain.config import Config
from freetrain.daemon.background import do_beside
from freetrain.daemon.reports.notices import Notices, run_hook
from freetrain.daemon.reports.status import LookStatus, TrainerStatus
from freetrain.lending.memory import Memory
from freetrain.store.store import Store
from tests.daemon.fake_slurm import FakeSlurm

QUIET = LookStatus(time_s=1.0, took_s=0.1)
STOPPED = LookStatus(time_s=1.0, took_s=0.1, stopped_by="stopped by STOP")
TELLS = """#!/bin/sh
{ echo "$FREETRAIN_KIND $FREETRAIN_PARTITION $1"; cat; } >> "$0.said"
"""


started: list[threading.Event] = []
"""The commands of this test, by when they ended."""


@pytest.fixture(autouse=True)
def started_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    started.clear()

    def do_and_note(work: Callable[[], object]) -> threading.Event:
        started.append(do_beside(work))
        return started[-1]

    monkeypatch.setattr("freetrain.daemon.reports.notices.do_beside", do_and_note)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "it's mine"
    path.write_text(TELLS)
    path.chmod(0o755)
    return path


def config(command: str) -> Config:
    return Config.model_validate({"notify": {"command": command, "every": "10m"}})


def notices_of(directory: Path, config: Config, clock: Callable[[], float]) -> Notices:
    """Those of a new daemon on the same database."""
    store = Store.open(directory / "notices.db")
    return Notices(config, store.notice_book(), store.ledger(), FakeSlurm(), clock)


def said(script: Path) -> list[str]:
    """What it was told so far, all of it."""
    for running in started:
        assert running.wait(60)
    path = script.with_name(f"{script.name}.said")
    return path.read_text().splitlines() if path.exists() else []


def is_alive(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    return False


def test_the_command_is_told_once_in_a_while_and_of_all_that_happened_meanwhile(
    script: Path, tmp_path: Path
) -> None:
    clock = Clock()
    notices = notices_of(tmp_path, config(f'"{script}" "to root; rm -rf /"'), clock)
    for look in (QUIET, STOPPED, STOPPED):
        notices.looked(look, Memory())
    first = ["pause freetrain to root; rm -rf /", "nothing is lent: stopped by STOP"]
    assert said(script) == first, "words, and no shell"
    for look in (QUIET, STOPPED) * 30:
        notices.looked(look, Memory())
    assert said(script) == first
    clock.now_s = 600.0
    notices.looked(QUIET, Memory())
    later = said(script)[2:]
    assert later[0] == first[0]
    assert (later[1:-1], later[-1]) == (first[1:] * 20, "and 10 more")


def test_each_kind_has_its_own_pace_and_an_outage_is_told_once(script: Path, tmp_path: Path) -> None:
    notices = notices_of(tmp_path, config(f"'{script}'".replace("it's", "it'\"'\"'s")), Clock())
    notices.looked(QUIET, Memory())
    notices.looked(STOPPED, Memory())
    for lasts_s in (0.0, 299.0, 300.0, 310.0):
        notices.silent(lasts_s, "slurmctld is away.")
    lines = said(script)
    assert "failure freetrain " in lines
    assert "no look has succeeded for 300 s: slurmctld is away." in lines
    assert len(lines) == 4


def test_one_that_still_runs_is_not_run_a_second_time(script: Path, tmp_path: Path) -> None:
    waits = f"while [ ! -e '{tmp_path}/go' ]; do sleep 0.01; done\n"
    script.write_text(TELLS.replace("{ echo", f"{waits}{{ echo"))
    settings = Config.model_validate({"notify": {"command": f'"{script}"', "every": 0}})
    notices = notices_of(tmp_path, settings, Clock())
    for look in (QUIET, STOPPED, QUIET, STOPPED):
        notices.looked(look, Memory())
    (tmp_path / "go").touch()
    assert len(said(script)) == 2
    notices.looked(QUIET, Memory())
    assert len(said(script)) == 4


def test_the_pace_goes_on_over_a_restart(script: Path, tmp_path: Path) -> None:
    clock = Clock()
    for look in (QUIET, STOPPED):
        notices_of(tmp_path, config(f'"{script}"'), clock).looked(look, Memory())
        said(script)
    for look in (QUIET, STOPPED):
        notices_of(tmp_path, config(f'"{script}"'), clock).looked(look, Memory())
    assert len(said(script)) == 2
    later = notices_of(tmp_path, config(f'"{script}"'), clock)
    clock.now_s = 601.0
    later.looked(STOPPED, Memory())
    assert len(said(script)) == 4


def test_what_was_so_when_the_first_daemon_began_is_told_to_nobody(script: Path, tmp_path: Path) -> None:
    notices = notices_of(tmp_path, config(f'"{script}"'), Clock())
    notices.looked(STOPPED, Memory())
    notices.looked(STOPPED, Memory())
    assert said(script) == []


def look_with(*owners: str, state: str = "active") -> LookStatus:
    trainers = tuple(TrainerStatus(str(number), owner, state) for number, owner in enumerate(owners))
    return LookStatus(time_s=1.0, took_s=0.1, trainers=trainers)


def owners_config(command: str, **more: object) -> Config:
    return Config.model_validate({"notify": {"owners_command": command, "every": "10m", **more}})


def test_each_owner_gets_a_mail_of_his_own_trainings(script: Path, tmp_path: Path) -> None:
    script.write_text('#!/bin/sh\n{ echo "$FREETRAIN_OWNER"; cat; } > "$0.$FREETRAIN_OWNER"\n')
    notices = notices_of(tmp_path, owners_config(f'"{script}"'), Clock())
    notices.looked(QUIET, Memory())
    notices.looked(look_with("news", "games", "news"), Memory())
    assert said(script) == []
    news, games = (script.with_name(f"{script.name}.{owner}").read_text() for owner in ("news", "games"))
    assert news.startswith("news\nTo: news\nSubject: freetrain: registered")
    assert ("training 0 is" in news, "training 2 is" in news, "training 1 is" in news) == (True, True, False)
    assert "training 1 is" in games


def test_owners_are_told_of_nothing_unless_the_site_wants_it(script: Path, tmp_path: Path) -> None:
    notices = notices_of(tmp_path, config(f'"{script}"'), Clock())
    for look in (QUIET, look_with("news"), look_with("news", state="complete")):
        notices.looked(look, Memory())
    assert said(script) == []


def test_a_name_that_could_steer_a_mail_gets_none(script: Path, tmp_path: Path) -> None:
    notices = notices_of(tmp_path, owners_config(f'"{script}"'), Clock())
    notices.looked(QUIET, Memory())
    notices.looked(look_with("-f root", "a\nBcc: b", "", "x" * 65), Memory())
    assert said(script) == []


def test_many_owners_are_told_a_few_at_a_time_and_none_is_left_out(script: Path, tmp_path: Path) -> None:
    script.write_text(f"#!/bin/sh\nwhile [ ! -e '{tmp_path}/go' ]; do sleep 0.01; done; echo >> \"$0.said\"\n")
    notices = notices_of(tmp_path, owners_config(f'"{script}"'), Clock())
    look = look_with(*(f"user{number}" for number in range(10)))
    for each in (QUIET, look, look):
        notices.looked(each, Memory())
    assert len(started) == 4
    (tmp_path / "go").touch()
    assert len(said(script)) == 4
    for _ in range(2):
        notices.looked(look, Memory())
        said(script)
    assert len(said(script)) == 10


def test_a_command_that_fails_is_said_once_and_again_after_it_has_worked(
    script: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script.write_text(f"#!/bin/sh\ntest -e '{tmp_path}/works'\n")
    settings = Config.model_validate({"notify": {"command": f'"{script}"', "every": 0}})
    notices = notices_of(tmp_path, settings, Clock())

    def tell() -> int:
        for look in (QUIET, STOPPED):
            notices.looked(look, Memory())
        said(script)
        return len(caplog.messages)

    assert (tell(), tell()) == (1, 1)
    (tmp_path / "works").touch()
    assert tell() == 1
    (tmp_path / "works").unlink()
    assert tell() == 2


def test_where_no_thread_can_be_had_the_look_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    notices = notices_of(tmp_path, config("true"), Clock())
    for look in (QUIET, STOPPED):
        notices.looked(look, Memory())
    assert caplog.messages == ["notify.command did not tell of pause: can't start new thread"]


def test_a_template_that_cannot_be_used_is_said_and_freetrains_is_used(
    script: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "for_admins.j2").write_text("{{ lnies }}")
    settings = {"command": f'"{script}"', "templates": str(tmp_path)}
    notices = notices_of(tmp_path, Config.model_validate({"notify": settings}), Clock())
    for look in (QUIET, STOPPED):
        notices.looked(look, Memory())
    assert said(script)[1:] == ["nothing is lent: stopped by STOP"]
    ((message),) = caplog.messages
    assert message.startswith(f"notify.templates: {tmp_path}/for_admins.j2 cannot be used")
    assert message.endswith("freetrain's own is used")


def test_that_nobody_could_be_told_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notices = notices_of(tmp_path, config(str(tmp_path / "none")), Clock())
    for look in (QUIET, STOPPED):
        notices.looked(look, Memory())
    said(tmp_path)
    assert caplog.messages == [
        f"notify.command did not tell of pause: {tmp_path}/none cannot be run: No such file or directory"
    ]


def test_a_command_that_fails_says_why_and_one_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    failed = run_hook(["sh", "-c", "echo 'no  such\nuser' >&2; exit 3"], "text", {}, 60.0)
    assert failed == "it ended with status 3: no such user"
    hangs = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    for limit_s in (1.0, 10.0, 60.0):
        assert run_hook(["sh", "-c", hangs], "text", {}, limit_s) == f"it was ended after {limit_s:.0f} s"
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text():
            break  # a busy machine may not come so far within a second
    child = int((tmp_path / "child").read_text())
    deadline_s = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
