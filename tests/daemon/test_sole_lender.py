from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.daemon.admission.sole_lender import FRESH_S, RENEW_EVERY_S, Holder, SoleLender, find_marks
from freetrain.daemon.executor import AuditedOrders
from freetrain.errors import ExitCode, FreetrainError
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.settings import parse_settings
from freetrain.store.store import Store
from tests.daemon.fake_slurm import CONFIG, FakeSlurm

Begin = Callable[..., SoleLender]


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture
def begin(slurm: FakeSlurm, tmp_path: Path) -> Begin:
    """A daemon with a state directory of this name."""

    def lender(name: str) -> SoleLender:
        settings = parse_settings(CONFIG)
        ledger = Store.open(tmp_path / "orders.db").ledger()
        orders = AuditedOrders(slurm, ledger, lambda: slurm.now_s, lambda _: None)
        return SoleLender(
            slurm, orders, settings, FragmentQueue("freetrain"), tmp_path / name, lambda: slurm.now_s
        )

    return lender


def marks(slurm: FakeSlurm) -> list[str]:
    return [
        Path(mark.holder.directory).name for mark in find_marks(slurm.jobs.values(), FragmentQueue("freetrain"))
    ]


def test_a_second_daemon_is_told_where_the_first_one_is(slurm: FakeSlurm, begin: Begin, tmp_path: Path) -> None:
    begin("first").claim(slurm.snapshot())
    with pytest.raises(FreetrainError, match=f"state in {tmp_path}/first") as refused:
        begin("second").claim(slurm.snapshot())
    assert refused.value.exit_code is ExitCode.TRY_AGAIN
    assert marks(slurm) == ["first"]


def test_a_daemon_that_ends_takes_its_mark_with_it(slurm: FakeSlurm, begin: Begin, tmp_path: Path) -> None:
    first = begin("first")
    first.claim(slurm.snapshot())
    first.close()
    rows = Store.open(tmp_path / "orders.db").ledger().commands()
    assert [(row.argv[0], row.result) for row in rows] == [("sbatch", "done"), ("scancel", "done")]
    begin("second").claim(slurm.snapshot())
    assert marks(slurm) == ["second"]


def test_a_mark_is_renewed_once_a_minute_and_one_of_a_killed_daemon_goes_stale(
    slurm: FakeSlurm, begin: Begin
) -> None:
    first = begin("first")
    first.claim(slurm.snapshot())
    told = len(slurm.told)
    for _ in range(10):
        slurm.advance(RENEW_EVERY_S / 2)
        first.renew()
    assert len(slurm.told) - told == 5
    with pytest.raises(FreetrainError, match="Another daemon"):
        begin("second").claim(slurm.snapshot())
    slurm.advance(FRESH_S + 1)
    begin("second").claim(slurm.snapshot())
    assert marks(slurm) == ["second"]


def test_started_again_in_its_own_directory_it_takes_over_at_once(slurm: FakeSlurm, begin: Begin) -> None:
    begin("first").claim(slurm.snapshot())
    begin("first").claim(slurm.snapshot())
    assert marks(slurm) == ["first"]


def test_a_daemon_that_slept_while_another_took_over_does_nothing_more(slurm: FakeSlurm, begin: Begin) -> None:
    first = begin("first")
    first.claim(slurm.snapshot())
    slurm.advance(FRESH_S + 1)
    begin("second").claim(slurm.snapshot())
    with pytest.raises(FreetrainError, match="Another daemon lends"):
        first.renew()
    assert marks(slurm) == ["second"]


def test_a_mark_that_somebody_cancelled_is_left_anew(slurm: FakeSlurm, begin: Begin) -> None:
    first = begin("first")
    first.claim(slurm.snapshot())
    slurm.perform(("scancel", *slurm.jobs))
    slurm.advance(RENEW_EVERY_S)
    first.renew()
    assert marks(slurm) == ["first"]


def test_of_two_that_begin_at_once_the_later_one_gives_way(slurm: FakeSlurm, begin: Begin) -> None:
    before = slurm.snapshot()
    begin("first").claim(before)
    with pytest.raises(FreetrainError, match="Another daemon lends"):
        begin("second").claim(before)
    assert marks(slurm) == ["first"]


def forged(slurm: FakeSlurm, user: str, at_s: float) -> None:
    comment = Holder("elsewhere", 1, "/tmp/evil, really").comment(at_s)
    slurm.jobs["66"] = Job("66", "66", user, "freetrain", JobState.PENDING, comment=comment, priority=0)


def test_the_marks_of_those_who_could_not_lend_count_for_nothing(slurm: FakeSlurm, begin: Begin) -> None:
    forged(slurm, "mallory", slurm.now_s)
    lender = begin("first")
    lender.claim(slurm.snapshot())
    lender.close()
    assert not slurm.jobs["66"].state.is_final
    slurm.operators.add("mallory")
    with pytest.raises(FreetrainError, match="process 1 on elsewhere, with its state in /tmp/evil, really"):
        begin("second").claim(slurm.snapshot())


def test_a_mark_from_the_future_keeps_nobody_out(slurm: FakeSlurm, begin: Begin) -> None:
    forged(slurm, "root", slurm.now_s + 1e6)
    begin("first").claim(slurm.snapshot())
    assert marks(slurm) == ["first"]


def test_where_no_mark_can_be_left_the_daemon_lends_all_the_same(
    slurm: FakeSlurm, begin: Begin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: tuple[str, ...], stdin: str = "") -> str:
        raise SlurmRefusedError("Invalid account")

    monkeypatch.setattr(slurm, "perform", refuse)
    lender = begin("first")
    lender.claim(slurm.snapshot())
    lender.renew()
    assert "no mark can be left in Slurm" in caplog.text


def test_a_comment_that_is_no_mark_is_none(slurm: FakeSlurm) -> None:
    good = Job("1", "1", "root", "freetrain", JobState.PENDING, comment=Holder("h", 1, "/d").comment(5.0))
    assert [mark.renewed_s for mark in find_marks([good], FragmentQueue("freetrain"))] == [5.0]
    assert find_marks([good], FragmentQueue("other")) == []
    for other in (
        replace(good, comment=good.comment.replace("pid=1", "pid=x")),
        replace(good, comment="freetrain:min=1"),
        replace(good, state=JobState.CANCELLED),
    ):
        assert find_marks([other], FragmentQueue("freetrain")) == []
