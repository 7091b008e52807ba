"""How long guests live: no longer than their hosts, and no shorter than asked for."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from freetrain.guest.guest import Guest, GuestProcess
from tests.guest import planted
from tests.guest.asking import LONG_S, is_gone, is_over, named, pid_of, wait_until


def test_closing_leaves_nothing_behind(guest: Guest) -> None:
    before = pid_of(guest)
    guest.close()
    guest.close()
    assert is_gone(before)


def test_forgetting_it_leaves_nothing_behind() -> None:
    guest = Guest()
    before = pid_of(guest)
    del guest
    gc.collect()
    assert is_gone(before)


def test_an_interrupted_question_leaves_no_answer_for_the_next(guest: Guest, tmp_path: Path) -> None:
    before, pid_file, asking = pid_of(guest), tmp_path / "pid", threading.main_thread().ident
    assert asking is not None

    def interrupt() -> None:
        wait_until(pid_file.exists)
        signal.pthread_kill(asking, signal.SIGALRM)

    previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            guest.ask(named(planted.say_pid_and_hang), str(pid_file), time_s=LONG_S)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert is_gone(before)
    assert guest.ask(named(planted.echo), "mine", time_s=LONG_S).answer == "mine"


def test_threads_get_their_own_answers(guest: Guest) -> None:
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        answers[number] = guest.ask(named(planted.echo), number, time_s=LONG_S).answer

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: number for number in range(20)}


def test_it_outlives_the_thread_that_started_it(guest: Guest) -> None:
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.append(pid_of(guest)))
    thread.start()
    thread.join()
    assert [pid_of(guest) for _ in range(50)] == pids * 50


def test_a_fork_of_the_host_gets_one_of_its_own(guest: Guest) -> None:
    before = pid_of(guest)
    reading, writing = os.pipe()
    fork = os.fork()
    if fork == 0:
        os.write(writing, str(pid_of(guest)).encode())
        guest.close()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pid_file:
        assert pid_file.read() not in ("", str(before))
    os.waitpid(fork, 0)
    assert pid_of(guest) == before


ROOT = Path(__file__).parents[2]
HOST = """
import sys
from freetrain.guest.guest import Guest
guest = Guest()
guest.ask("tests.guest.planted:say_pid_and_hang", sys.argv[1], time_s=3600.0)
"""


def test_it_ends_with_a_host_that_is_killed_even_where_it_hangs(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(pid_file)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
    pid = int(pid_file.read_text())
    assert not is_over(pid)
    host.kill()
    host.wait()
    wait_until(lambda: is_over(pid))


IDLE_HOST = """
import os
from freetrain.guest.guest import Guest
guest = Guest()
print(guest.ask("tests.guest.planted:pid", time_s=3600.0).answer, flush=True)
if os.environ["ENDS"] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("ends", ["killed", "by itself"])
def test_it_ends_with_its_host_while_nothing_is_asked(ends: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ENDS": ends}
    command = [sys.executable, "-W", "error", "-c", IDLE_HOST]
    host = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert host.stderr == ""
    wait_until(lambda: is_over(int(host.stdout)))


def test_a_question_that_waits_while_the_host_ends_learns_that_the_guest_was_ended() -> None:
    guest_process = GuestProcess((), None, 0)
    guest_process.end()
    assert guest_process.obituary() == "was ended"
