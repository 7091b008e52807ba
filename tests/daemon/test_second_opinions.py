"""Second opinions in the daemon: a wrong optimum is found, told and kept, and no look waits for that."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.core.decision import Decision, Status
from freetrain.core.problem import Problem, problem_from_json
from freetrain.daemon import second_opinions
from freetrain.daemon.second_opinions import SecondOpinions
from freetrain.guest.guest import Guest
from freetrain.loop.cycle import NullJournal
from freetrain.policies.solver.guests import Agreement, SecondOpinion
from tests.policies.solver.test_second_opinion import GOOD, GREEDY, PROBLEM

WRONG = replace(GREEDY, status=Status.OPTIMAL, gap=0.0)


class Journal(NullJournal):
    """Counts what it is given."""

    def __init__(self) -> None:
        self.recorded = 0

    def next_decision(self) -> str:
        return f"3:{self.recorded + 1}"

    def record(self, problem: Problem, decision: Decision) -> None:
        self.recorded += 1


def eventually(fine: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + 120
    while not fine() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return fine()


def opinions_of(tmp_path: Path, function: str = "freetrain.policies.solver.highs:solve_again") -> SecondOpinions:
    """At this process's own priority: under load the lowest one gets no time for minutes."""
    opinions = SecondOpinions(Journal(), tmp_path / "second-opinions", function, Guest())
    opinions.one_in = 2
    return opinions


def planted_differs(problem: Problem, decision: Decision, *, left_s: Callable[[], float]) -> SecondOpinion:
    return SecondOpinion(Agreement.DIFFERS, "planted")


def planted_crash(problem: Problem, decision: Decision, *, left_s: Callable[[], float]) -> SecondOpinion:
    raise SystemExit(3)


def test_a_wrong_optimum_is_told_counted_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opinions = opinions_of(tmp_path)
    opinions.record(PROBLEM, GOOD)
    opinions.record(PROBLEM, WRONG)
    assert eventually(lambda: "two solvers differ on decision 3:2" in caplog.text)
    assert opinions.counts == {Agreement.DIFFERS: 1}
    (case,) = (tmp_path / "second-opinions").iterdir()
    assert str(case) in caplog.text
    assert problem_from_json(case.read_bytes()).trainers == PROBLEM.trainers


def test_a_process_that_dies_leaves_the_question_open(tmp_path: Path) -> None:
    opinions = opinions_of(tmp_path, f"{__name__}:planted_crash")
    for _ in range(2):
        opinions.record(PROBLEM, GOOD)
    assert eventually(lambda: opinions.counts[Agreement.OPEN] == 1)


def test_an_error_is_told_and_the_next_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opinions = opinions_of(tmp_path, f"{__name__}:planted_differs")
    opinions.one_in = 1
    with monkeypatch.context() as broken:
        broken.setattr(opinions._guest, "ask", None)
        opinions.record(PROBLEM, WRONG)
        assert eventually(lambda: "there is no second opinion on decision 3:1" in caplog.text)
    opinions.record(PROBLEM, WRONG)
    assert eventually(lambda: "two solvers differ on decision 3:2" in caplog.text)


def test_no_look_waits_for_a_guest_that_is_busy(tmp_path: Path) -> None:
    opinions = opinions_of(tmp_path, "time:sleep")
    opinions._guest.ask = lambda *_, **__: time.sleep(3600.0)  # type: ignore[method-assign]
    for _ in range(1000):
        opinions.record(PROBLEM, GOOD)
    assert opinions._journal.recorded == 1000  # type: ignore[attr-defined]


def test_none_is_asked_for_where_the_site_wants_none(tmp_path: Path) -> None:
    opinions = opinions_of(tmp_path, f"{__name__}:planted_differs")
    opinions.one_in = 0
    opinions.record(PROBLEM, WRONG)
    assert not opinions._is_working


def test_what_is_kept_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(second_opinions, "MOST_CASES", 0)
    opinions = opinions_of(tmp_path, f"{__name__}:planted_differs")
    opinions.one_in = 1
    opinions.record(PROBLEM, WRONG)
    assert eventually(lambda: "holds 0 such problems, so this one is not kept" in caplog.text)
    assert list((tmp_path / "second-opinions").iterdir()) == []
