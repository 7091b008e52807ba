from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from freetrain.cli.main import cli
from freetrain.daemon.controls import site_orders
from freetrain.daemon.executor import Executor, Mode
from freetrain.store import Store
from freetrain.store.ledger import Ledger
from tests.daemon.fake_slurm import FakeSlurm


class KilledError(BaseException):
    """The command ends here: nothing catches it."""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """That of a daemon's directory, with nodes that are drained."""
    (tmp_path / "freetrain.toml").write_text(f"[state]\ndirectory = '{tmp_path}'\nstop_file = '{tmp_path}/STOP'\n")
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "freetrain.toml"))
    with site_orders.changing(tmp_path, 0.0) as changed:
        changed.append(site_orders.Drain(nodes=frozenset({"n2"}), until_s=None))
    return Store.open(tmp_path / "freetrain.db").ledger()


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """A Slurm in which a task of array 101 runs."""
    fake = FakeSlurm()
    fake.submit_array("freetrain:min=1 | paused after 5 failures in a row")
    fake.perform(("scontrol", "update", "JobId=101_0", "ReqNodeList=n1", "TimeLimit=60", "StartTime=now"))
    fake.perform(("scontrol", "release", "101_0"))
    fake.start_what_can()
    monkeypatch.setattr("freetrain.cli.site.OpenedWhenAsked", lambda *_: fake)
    return fake


@pytest.mark.parametrize(
    "command",
    [("cancel", "101"), ("resume", "101"), ("panic",), ("pause",), ("drain", "n1"), ("undrain", "n2")],
    ids=" ".join,
)
def test_whatever_people_order_has_a_row_before_it_is_done_and_is_settled_after_a_crash(
    ledger: Ledger, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, command: Sequence[str]
) -> None:
    before = list[tuple[str, ...]]()

    def is_killed(*order: object, **_: object) -> None:
        before.extend((row.why, row.result) for row in ledger.unknown_commands())
        raise KilledError

    monkeypatch.setattr(slurm, "perform", is_killed)
    monkeypatch.setattr(site_orders, "replace_file", is_killed)
    with pytest.raises(KilledError):
        CliRunner().invoke(cli, command)
    assert set(before) == {(f"freetrain {' '.join(command)}", "unknown")}

    executor, last = Executor(slurm, ledger, Mode.ACT), ledger.commands()[-1]
    for later_s, left in ((60.0, len(before)), (3600.0, 0)):
        slurm.now_s = last.time_s + later_s
        executor.settle(slurm.snapshot(), [])
        assert len(ledger.unknown_commands()) == left, "it may be at work still, for as long as Slurm lets it wait"
    shown = "; then Slurm showed 101_0 RUNNING on n1" if last.argv else ""
    assert shown in ledger.commands()[-1].result


def test_what_comes_of_it_is_in_the_row_too(ledger: Ledger, slurm: FakeSlurm) -> None:
    for command in (("drain", "n1"), ("undrain", "n1"), ("cancel", "101")):
        CliRunner().invoke(cli, command)
    assert [(row.why, row.result, row.return_code) for row in ledger.commands()] == [
        ("freetrain drain n1", "drained", None),
        ("freetrain undrain n1", "done", None),
        ("freetrain cancel 101", "done", 0),
    ]
