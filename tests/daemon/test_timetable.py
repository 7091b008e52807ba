from __future__ import annotations

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from freetrain.daemon import timetable as timetable_module
from freetrain.daemon.controls.nudge import WAKE_NAME, Senders, send_nudge
from freetrain.daemon.timetable import Timetable

NEVER_S = 3600.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timetable_module, "_BETWEEN_LOOKS_S", 0.01)


def waited_s(timetable: Timetable, look_s: float = 0.0) -> float:
    began_s = time.monotonic()
    timetable.wait(look_s)
    return time.monotonic() - began_s


def test_polls_come_by_themselves(tmp_path: Path) -> None:
    with Timetable(tmp_path, 0.1, 0.1, Senders()).running() as timetable:
        timetable.wait(0.0)
        assert waited_s(timetable) < 60


def test_polls_come_whatever_year_the_machine_takes_it_to_be(tmp_path: Path) -> None:
    with Timetable(tmp_path, 0.1, 0.1, Senders(), clock_s=lambda: 0.0).running() as timetable:
        for _ in range(2):
            timetable.plan_poll(None, 0.0)
            assert waited_s(timetable) < 60


def test_what_is_done_again_and_again_goes_on_after_an_error_and_keeps_nothing_from_ending(tmp_path: Path) -> None:
    done, hangs = threading.Semaphore(0), threading.Event()
    errors = itertools.cycle([OSError, MemoryError, ValueError])

    def fails() -> None:
        done.release()
        raise next(errors)

    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.every(0.01, fails)
        timetable.every(0.01, hangs.wait)
        assert all(done.acquire(timeout=60) for _ in range(4))
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "again")
    hangs.set()


def test_what_is_due_by_the_machines_clock_is_done_at_once_where_that_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.every(NEVER_S, done.set)
        timetable.ask()
        timetable.wait(0.0)
        assert not done.is_set()
        monkeypatch.setattr(timetable_module, "_clock_lead_s", lambda: -1e9)
        timetable.ask()
        timetable.wait(0.0)
        assert done.wait(60)


def test_no_thread_is_started_when_something_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Semaphore(0)
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.every(0.01, done.release)
        monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread without memory hangs"))
        assert all(done.acquire(timeout=60) for _ in range(3))


def test_what_was_missed_is_made_up_for_once(tmp_path: Path) -> None:
    in_1970, now = datetime.fromtimestamp(0, UTC), datetime.now(UTC)
    assert timetable_module._PeriodFromNow(5.0).get_next_fire_time(in_1970, now) == now + timedelta(seconds=5)


def test_a_nudge_is_a_look_and_a_moment_later_another(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        send_nudge(tmp_path)
        timetable.wait(0.0)
        assert 0.8 * timetable_module._ECHO_S < waited_s(timetable) < 60


def test_a_byte_in_the_wake_file_is_a_look_and_a_moment_later_another(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        with (tmp_path / WAKE_NAME).open("a") as file:
            file.write(".")
        assert waited_s(timetable) < 60
        assert 0.8 * timetable_module._ECHO_S < waited_s(timetable) < 60


def test_who_asks_for_a_look_takes_no_lock_that_the_interrupted_may_hold(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        handler = threading.Thread(target=timetable.ask, daemon=True)
        with timetable._wake._cond:  # type: ignore[attr-defined]
            handler.start()
            handler.join(60)
        assert not handler.is_alive()
        assert waited_s(timetable) < 60


def test_what_wakes_it_needs_no_second_look(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.wake()
        timetable.wait(0.0)
        timetable.every(2.0, timetable.wake)
        assert waited_s(timetable) > 2 * timetable_module._ECHO_S


def test_looks_take_a_third_of_the_time_at_most(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.wake()
        assert waited_s(timetable, look_s=0.1) >= 0.2


def test_the_next_poll_falls_right_before_slurms_next_plan(tmp_path: Path) -> None:
    """Here in a second, where the usual time would be a minute away."""
    with Timetable(tmp_path, 60.0, 60.0, Senders()).running() as timetable:
        timetable.plan_poll(time.time() - 58.0, 0.0)
        assert 0.1 < waited_s(timetable) < 30


def test_nobody_listens_afterwards(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running():
        assert (tmp_path / "nudge").exists()
    assert not (tmp_path / "nudge").exists()


def test_while_slurm_does_not_answer_nudges_wait_for_the_usual_time_and_polls_still_longer(tmp_path: Path) -> None:
    poll_s = 1.0
    with Timetable(tmp_path, poll_s, NEVER_S, Senders()).running() as timetable:
        timetable.plan_retry(failures=3)
        for _ in range(2):
            send_nudge(tmp_path)
        with (tmp_path / WAKE_NAME).open("a") as file:
            file.write(".")
        assert poll_s * 0.8 < waited_s(timetable) < 2 * poll_s, "a nudge says that Slurm may be there again"
        timetable.plan_retry(failures=2)
        assert waited_s(timetable) > 1.8 * poll_s, "without one it is left alone for longer, and no echo follows"


def test_it_can_be_stopped_at_once_while_slurm_does_not_answer(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.plan_retry(failures=1)
        timetable.wake()
        assert waited_s(timetable) < 60


def test_when_slurm_answers_again_nudges_count_at_once(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.plan_retry(failures=1)
        timetable.plan_poll(None, 0.0)
        send_nudge(tmp_path)
        assert waited_s(timetable) < 60


def test_a_signal_ends_the_rest_after_a_long_look(tmp_path: Path) -> None:
    with Timetable(tmp_path, NEVER_S, NEVER_S, Senders()).running() as timetable:
        timetable.ask()
        assert waited_s(timetable, look_s=NEVER_S) < 60
