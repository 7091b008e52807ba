from __future__ import annotations

import os
import pwd
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from freetrain.daemon.controls import nudge
from freetrain.daemon.controls.nudge import NudgeListener, Senders, send_nudge
from freetrain.errors import ExitCode, FreetrainError
from tests.needed import several_people
from tests.slurm_lab import eventually, short_directory

SOMEBODY = "games"
CONNECT = """
import os, socket, sys
os.setgid({gid}); os.setuid({uid})
with socket.socket(socket.AF_UNIX) as out:
    out.connect({path!r})
    sys.stdout.write(out.recv(64).decode())
"""


@dataclass
class Heard:
    """A listener, and when it was nudged.

    Attributes:
        directory: where it listens.
        at_s: when.
    """

    directory: Path
    senders: Senders
    at_s: list[float] = field(default_factory=list)

    def note(self) -> None:
        self.at_s.append(time.monotonic())

    @property
    def path(self) -> str:
        return str(self.directory / "nudge")

    def connect(self) -> socket.socket:
        out = socket.socket(socket.AF_UNIX)
        out.connect(self.path)
        out.settimeout(60)
        return out

    def still_hears(self) -> bool:
        """A nudge of somebody who may works, now; a busy machine may need a second one."""
        before = len(self.at_s)

        def nudged() -> bool:
            with suppress(FreetrainError):
                send_nudge(self.directory)
            return len(self.at_s) > before

        return eventually(nudged)


@pytest.fixture
def heard() -> Iterator[Heard]:
    with short_directory() as directory:
        heard = Heard(directory, Senders())
        listener = NudgeListener(directory, heard.note, heard.senders)
        yield heard
        listener.close()


def says_to(user: str, heard: Heard) -> str:
    """What the daemon says to another user who connects."""
    known = pwd.getpwnam(user)
    program = CONNECT.format(gid=known.pw_gid, uid=known.pw_uid, path=heard.path)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/", timeout=30)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_nobody_to_nudge_is_said(tmp_path: Path) -> None:
    with pytest.raises(FreetrainError, match="no daemon listens") as refused:
        send_nudge(tmp_path)
    assert refused.value.exit_code is ExitCode.UNREACHABLE


def send_nothing(heard: Heard) -> None:
    heard.connect().close()


def send_empty_datagram(heard: Heard) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, suppress(OSError):
        out.sendto(b"", heard.path)


def send_garbage(heard: Heard) -> None:
    with heard.connect() as out, suppress(OSError):
        out.sendall(b"\0\xff{" * 100_000)


def send_a_hundred_thousand_messages(heard: Heard) -> None:
    with heard.connect() as out:
        for _ in range(100_000):
            with suppress(OSError):
                out.send(b"nudge")


def try_to_connect_again_and_again(heard: Heard) -> None:
    for _ in range(20_000):
        with socket.socket(socket.AF_UNIX) as out, suppress(OSError):
            out.setblocking(False)
            out.connect(heard.path)


@pytest.mark.parametrize(
    "hostile",
    [
        send_nothing,
        send_empty_datagram,
        send_garbage,
        send_a_hundred_thousand_messages,
        try_to_connect_again_and_again,
    ],
)
def test_whatever_is_sent_a_nudge_works_afterwards(heard: Heard, hostile: Callable[[Heard], None]) -> None:
    hostile(heard)
    assert heard.still_hears()


def test_a_thousand_connections_that_stay_open_hold_up_nobody(heard: Heard) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    try:
        for _ in range(min(1000, most // 2)):
            opened.append(heard.connect())
        assert heard.still_hears()
        assert opened[0].recv(64) == b"taken"
        assert opened[0].recv(64) == b"", "the daemon keeps no connection open"
    finally:
        for connection in opened:
            connection.close()


def test_a_listener_that_runs_out_of_files_comes_back(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> float:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(heard.senders, "apart_s", fail)
    heard.connect().close()
    monkeypatch.undo()
    assert heard.still_hears()


def test_nudges_of_one_sender_are_taken_together_and_none_is_lost(heard: Heard) -> None:
    begun_s = last_s = time.monotonic()
    while (now_s := time.monotonic()) < begun_s + 1.2 or last_s == begun_s:
        with suppress(FreetrainError):
            send_nudge(heard.directory)
            last_s = now_s
    assert eventually(lambda: max(heard.at_s, default=0.0) >= last_s), "the last one was not forgotten"
    time.sleep(2 * nudge._SITE_APART_S)
    # Each is noted a little after it was due: the first and the last say how many there can have been.
    assert len(heard.at_s) <= 1 + (heard.at_s[-1] - begun_s) / nudge._SITE_APART_S


@several_people
def test_owners_of_trainers_may_nudge_and_other_users_are_refused(heard: Heard) -> None:
    assert says_to(SOMEBODY, heard) == "refused"
    assert heard.at_s == []
    heard.senders.admit([SOMEBODY, "nobody-of-this-name"])
    assert says_to(SOMEBODY, heard) == "taken"
    assert eventually(lambda: len(heard.at_s) == 1)
    assert says_to(SOMEBODY, heard) == "taken"
    assert heard.still_hears(), "who is early holds up nobody else"
    heard.senders.admit([])
    assert says_to(SOMEBODY, heard) == "refused"


@several_people
def test_slurm_user_may_nudge() -> None:
    uid = pwd.getpwnam(SOMEBODY).pw_uid
    assert Senders(SOMEBODY).apart_s(uid) is not None
    assert Senders().apart_s(uid) is None
    assert Senders().apart_s(os.geteuid()) is not None


@several_people
def test_a_refused_nudge_is_a_sentence_and_a_status(heard: Heard) -> None:
    known = pwd.getpwnam(SOMEBODY)
    config = heard.directory / "freetrain.toml"
    config.write_text(f'[state]\ndirectory = "{heard.directory}"\n')
    ran = subprocess.run(
        [sys.executable, "-m", "freetrain.cli.main", "nudge", "--config", str(config)],
        user=known.pw_uid, group=known.pw_gid, extra_groups=[],
        cwd="/", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, heard.at_s) == (ExitCode.NOT_ALLOWED, []), ran.stderr
    assert "takes no nudge from this account" in ran.stderr


def test_a_daemon_that_does_not_answer_costs_a_second(tmp_path: Path) -> None:

    def cost_s() -> float:
        began_s = time.monotonic()
        with pytest.raises(FreetrainError, match="does not answer") as refused:
            send_nudge(tmp_path)
        assert refused.value.exit_code is ExitCode.TRY_AGAIN
        return time.monotonic() - began_s

    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "nudge"))
        deaf.listen(0)
        for queue in ("empty", "full"):
            # A machine may be too busy once, but not each time.
            assert any(cost_s() < 2.0 for _ in range(10)), queue
            with socket.socket(socket.AF_UNIX) as filler, suppress(BlockingIOError):
                filler.setblocking(False)
                filler.connect(str(tmp_path / "nudge"))


def test_a_flood_leaves_the_processor_to_the_daemon(heard: Heard) -> None:
    """A hot loop of connections beside it: nudges get through, and its thread hardly works."""
    flood = f"import socket\nwhile True:\n with socket.socket(1) as s:\n  s.connect({heard.path!r})"
    flooder = subprocess.Popen([sys.executable, "-c", flood])
    try:
        time.sleep(0.5)
        before_s, begun_s = time.process_time(), time.monotonic()
        time.sleep(1.0)
        assert time.process_time() - before_s < 0.5 * (time.monotonic() - begun_s)
        assert heard.still_hears()
    finally:
        flooder.send_signal(signal.SIGKILL)
        flooder.wait()
    assert threading.active_count() < 20
