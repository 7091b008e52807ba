from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.guest.channel import QuestionEnd
from freetrain.guest.guest import Guest
from tests.guest import planted
from tests.guest.asking import LONG_S, is_gone, is_over, named, pid_of, wait_until
from tests.guest.slowness import IMPORT_S


def test_it_answers_what_the_function_returns(guest: Guest) -> None:
    report = guest.ask(named(planted.echo), {"any": [1, 2.5]}, time_s=LONG_S)
    assert (report.ending, report.answer, report.message) == (QuestionEnd.ANSWERED, {"any": [1, 2.5]}, "")


def test_long_questions_and_answers_pass(guest: Guest) -> None:
    much = os.urandom(5_000_000)
    assert guest.ask(named(planted.echo), much, time_s=LONG_S).answer == much


def test_it_is_one_process_that_lives_on_between_questions(guest: Guest) -> None:
    first = pid_of(guest)
    assert first != os.getpid()
    assert pid_of(guest) == first


def test_a_function_knows_how_much_time_is_left_without_the_patience(guest: Guest) -> None:
    left_s = guest.ask(named(planted.time_left), time_s=LONG_S).answer
    assert 0 < left_s <= LONG_S


def test_endless_time_is_a_day(guest: Guest) -> None:
    assert guest.ask(named(planted.time_left), time_s=float("inf")).answer <= 86_400.0


@pytest.mark.parametrize("function", [planted.sleep_for_ever, planted.keep_the_interpreter, planted.stop])
def test_what_hangs_is_killed_at_its_deadline_and_the_next_question_answered(
    guest: Guest, function: Callable[..., object]
) -> None:
    before = pid_of(guest)
    report = guest.ask(named(function), time_s=0.1)
    assert report.ending is QuestionEnd.TOO_LATE
    assert report.took_s >= 0.15
    assert report.message == f"had not answered after {report.took_s:.3g} s and was ended"
    assert is_gone(before)
    assert pid_of(guest) != before


def test_a_question_that_nobody_reads_ends_at_its_deadline(guest: Guest) -> None:
    os.kill(pid_of(guest), signal.SIGSTOP)
    report = guest.ask(named(planted.echo), bytes(5_000_000), time_s=0.1)
    assert report.ending is QuestionEnd.TOO_LATE


def test_a_deadline_is_kept_to_a_second(guest: Guest) -> None:
    """A machine may be too busy once, but not each time."""

    def late_s() -> float:
        pid_of(guest)
        began_s = time.monotonic()
        guest.ask(named(planted.sleep_for_ever), time_s=0.1)
        return time.monotonic() - began_s - 0.1

    assert any(late_s() < 1.0 for _ in range(10))


@pytest.mark.parametrize(
    ("function", "argument", "how"),
    [
        (planted.exit_with, 0, "exit code 0"),
        (planted.exit_with, 3, "exit code 3"),
        (planted.kill, signal.SIGKILL, "signal 9, SIGKILL"),
        (planted.kill, signal.SIGSEGV, "signal 11, SIGSEGV"),
        (planted.kill, 40, "signal 40"),
    ],
)
def test_what_dies_is_told_with_its_cause_and_the_next_question_answered(
    guest: Guest, function: Callable[..., object], argument: int, how: str
) -> None:
    before = pid_of(guest)
    report = guest.ask(named(function), int(argument), time_s=LONG_S)
    assert (report.ending, report.message) == (QuestionEnd.DIED, f"died ({how})")
    assert is_gone(before)
    assert pid_of(guest) != before


def test_what_dies_is_quoted(guest: Guest) -> None:
    report = guest.ask(named(planted.complain_and_exit), time_s=LONG_S)
    assert report.message == "died (exit code 1): out of licences"


def test_what_hangs_up_and_lives_on_is_ended(guest: Guest) -> None:
    before = pid_of(guest)
    report = guest.ask(named(planted.hang_up), time_s=LONG_S)
    assert report.ending is QuestionEnd.DIED
    assert "hung up" in report.message
    assert is_gone(before)


def test_an_error_is_told_and_the_process_lives_on(guest: Guest) -> None:
    before = pid_of(guest)
    report = guest.ask(named(planted.fail), time_s=LONG_S)
    assert (report.ending, report.message) == (
        QuestionEnd.RAISED,
        "failed: RuntimeError: licence of the moon expired",
    )
    assert pid_of(guest) == before


@pytest.mark.parametrize("function", [planted.answer_what_cannot_be_sent, planted.answer_what_cannot_be_read])
def test_an_answer_that_cannot_be_had_is_an_error(guest: Guest, function: Callable[..., object]) -> None:
    assert guest.ask(named(function), time_s=LONG_S).ending is QuestionEnd.RAISED
    assert pid_of(guest)


@pytest.mark.parametrize("name", ["tests.guest.planted:nothing", "tests.guest.nowhere:echo", "planted"])
def test_a_function_that_is_not_there_is_an_error(guest: Guest, name: str) -> None:
    assert guest.ask(name, time_s=LONG_S).ending is QuestionEnd.RAISED


def test_one_that_died_between_questions_is_started_anew(guest: Guest) -> None:
    before = pid_of(guest)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: is_over(before))
    assert pid_of(guest) != before
    assert is_gone(before)


def test_its_start_is_not_counted_as_time_of_the_first_question() -> None:
    guest = Guest(imports=("tests.guest.slow_to_import",))
    began_s = time.monotonic()
    report = guest.ask(named(planted.echo), 1, time_s=LONG_S)
    asking_s = time.monotonic() - began_s
    guest.close()
    assert report.ending is QuestionEnd.ANSWERED
    assert report.took_s <= asking_s - IMPORT_S


def test_an_import_that_fails_is_told() -> None:
    guest = Guest(imports=("tests.guest.nowhere",))
    report = guest.ask(named(planted.echo), 1, time_s=LONG_S)
    assert report.ending is QuestionEnd.NOT_STARTED
    assert "could not be started: it failed: ModuleNotFoundError" in report.message


def test_a_start_that_hangs_ends_too() -> None:
    guest = Guest(imports=("tests.guest.never_imported",), start_s=0.3)
    report = guest.ask(named(planted.echo), 1, time_s=LONG_S)
    assert report.ending is QuestionEnd.NOT_STARTED
    assert "had not answered after" in report.message


@pytest.mark.parametrize(("rest_s", "is_same"), [(600.0, True), (0.0, False)])
def test_after_a_start_that_failed_none_is_tried_for_a_while(rest_s: float, is_same: bool) -> None:
    guest = Guest(imports=("tests.guest.never_imported",), start_s=0.1, rest_s=rest_s)
    first, second = (guest.ask(named(planted.echo), 1, time_s=LONG_S) for _ in range(2))
    assert second.ending is QuestionEnd.NOT_STARTED
    assert (second is first) is is_same


def test_without_an_interpreter_it_says_so(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    report = guest.ask(named(planted.echo), 1, time_s=LONG_S)
    assert report.ending is QuestionEnd.NOT_STARTED
    assert "No such file" in report.message


def test_what_it_prints_or_reads_disturbs_no_answer(guest: Guest) -> None:
    assert guest.ask(named(planted.print_rubbish), time_s=LONG_S).answer == "standard input says ''"


def test_it_has_no_file_of_its_hosts(guest: Guest, tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w") as journal:
        os.set_inheritable(journal.fileno(), True)
        open_files = guest.ask(named(planted.open_files), time_s=LONG_S).answer
    assert open_files
    assert not any("journal" in name for name in open_files)


def test_it_may_have_only_so_much_memory() -> None:
    guest = Guest(memory_bytes=1 << 30)
    small = guest.ask(named(planted.take_memory), 1 << 20, time_s=LONG_S)
    large = guest.ask(named(planted.take_memory), 1 << 31, time_s=LONG_S)
    guest.close()
    assert small.answer == 1 << 20
    assert (large.ending, large.message) == (QuestionEnd.RAISED, "failed: MemoryError: ")


def test_it_may_give_way_to_everything_else() -> None:
    guest = Guest(niceness=3)
    assert os.getpriority(os.PRIO_PROCESS, pid_of(guest)) == min(os.getpriority(os.PRIO_PROCESS, 0) + 3, 19)
    guest.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_are_meant_for_the_host_do_not_end_it(guest: Guest, number: signal.Signals) -> None:
    assert guest.ask(named(planted.send_itself), int(number), time_s=LONG_S).answer == "goes on"


def test_an_interrupt_from_the_terminal_does_not_reach_it(guest: Guest) -> None:
    assert os.getsid(pid_of(guest)) != os.getsid(0)


def test_sets_have_the_same_order_in_each_process(guest: Guest) -> None:
    first = guest.ask(named(planted.order_of_a_set), time_s=LONG_S).answer
    guest.close()
    assert guest.ask(named(planted.order_of_a_set), time_s=LONG_S).answer == first
