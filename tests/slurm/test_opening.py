from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.errors import ExitCode
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.errors import (
    PyslurmUnusableError,
    SlurmError,
    SlurmMissingError,
    SlurmUnclearError,
    SlurmUnreachableError,
)
from freetrain.slurm.opening import Backend, OpenedWhenAsked, open_gateway
from freetrain.slurm.pyslurm_client import PyslurmClient
from tests.slurm.test_pyslurm_guest import play


def scontrol_says(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int) -> None:
    """There is an scontrol that says this, and no other command of Slurm."""
    command = folder / "scontrol"
    command.write_text(f"#!/bin/sh\necho '{said}'\nexit {status}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_auto_takes_pyslurm_where_it_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    play("well", monkeypatch)
    with caplog.at_level(logging.INFO):
        gateway = open_gateway("auto", 20.0)
    assert isinstance(gateway, PyslurmClient)
    assert caplog.messages == ["Slurm is asked through pyslurm 25.11.2."]
    snapshot = gateway.snapshot()
    assert len(snapshot.nodes) == 8
    assert snapshot.job["1_2"].is_held
    gateway.pyslurm.close()


@pytest.mark.parametrize(
    ("role", "why"),
    [
        ("hangs", "had not answered after"),
        ("hangs at import", "had not answered after"),
        ("crashes", "died (signal 11"),
        ("too old", "pyslurm 23.2.1 is older than 25.11"),
        ("not installed", "No module named 'pyslurm'"),
    ],
)
def test_auto_takes_the_commands_otherwise_and_says_why(
    role: str, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(role, monkeypatch)
    with caplog.at_level(logging.INFO):
        gateway = open_gateway("auto", 0.5 if "hangs" in role else 20.0)
    assert isinstance(gateway, CommandLine)
    (message,) = caplog.messages
    assert message.startswith("Slurm is asked through its commands")
    assert why in message


def test_the_commands_are_taken_where_they_are_asked_for() -> None:
    assert isinstance(open_gateway("cli", 20.0), CommandLine)


@pytest.mark.parametrize("backend", ["auto", "pyslurm"])
def test_how_much_of_a_node_is_used_only_the_commands_tell(backend: Backend) -> None:
    assert isinstance(open_gateway(backend, 20.0, in_parts=True), CommandLine)


@pytest.mark.parametrize("role", ["too old", "not installed"])
def test_pyslurm_is_missed_where_it_was_asked_for(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play(role, monkeypatch)
    with pytest.raises(PyslurmUnusableError, match=r"slurm\.backend is 'pyslurm'") as caught:
        open_gateway("pyslurm", 20.0)
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.CONFIGURATION


@pytest.mark.parametrize(
    ("role", "kind"), [("hangs at import", SlurmUnreachableError), ("fatal at import", SlurmMissingError)]
)
def test_pyslurm_that_was_asked_for_waits_for_slurms_configuration(
    role: str, kind: type[SlurmError], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(role, monkeypatch)
    with pytest.raises(kind) as caught:
        open_gateway("pyslurm", 0.5 if "hangs" in role else 20.0)
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.UNREACHABLE


def test_auto_takes_the_commands_where_python_cannot_be_executed_again_and_names_the_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python3"
    program.touch(0o644)
    monkeypatch.setattr(sys, "executable", str(program))
    with caplog.at_level(logging.INFO):
        assert isinstance(open_gateway("auto", 20.0), CommandLine)
    (message,) = caplog.messages
    assert f"could not be started: [Errno 13] Permission denied: '{program}'" in message
    with pytest.raises(SlurmUnreachableError, match=f"Permission denied: '{program}'"):
        open_gateway("pyslurm", 20.0)


def test_pyslurm_that_slurm_hangs_up_on_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol_says(tmp_path, monkeypatch, "Slurmctld(primary) at c1 is UP", 0)
    play("away", monkeypatch)
    with pytest.raises(PyslurmUnusableError, match="answers its commands, but not pyslurm"):
        open_gateway("pyslurm", 20.0)


def test_pyslurm_that_was_asked_for_waits_for_a_slurm_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_says(tmp_path, monkeypatch, "Slurmctld(primary) at c1 is DOWN", 1)
    play("away", monkeypatch)
    gateway = open_gateway("pyslurm", 20.0)
    assert isinstance(gateway, PyslurmClient)
    with pytest.raises(SlurmUnreachableError, match="Unable to contact"):
        gateway.snapshot()
    with pytest.raises(SlurmUnreachableError, match="is DOWN"):
        gateway.snapshot()  # asks scontrol first, which knows at once
    gateway.pyslurm.close()


def test_a_command_that_only_gives_an_order_starts_no_pyslurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_says(tmp_path, monkeypatch, "done", 0)
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    for backend in ("auto", "pyslurm"):
        gateway = OpenedWhenAsked(backend, 20.0)  # type: ignore[arg-type]
        assert gateway.perform(("scontrol", "release", "7")) == "done\n"


def test_a_command_that_looks_asks_pyslurm_where_the_site_has_chosen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    play("well", monkeypatch)
    gateway = OpenedWhenAsked("pyslurm", 20.0)
    assert len(gateway.snapshot().nodes) == 8
    assert {task.id for task in gateway.job("1")} == {f"1_{task}" for task in (0, 1, 2, 3)}
    assert [task.id for task in gateway.job("7")] == ["7"]
    assert gateway.job("4711") == []


@pytest.mark.parametrize("ask", [lambda gateway: gateway.snapshot(), lambda gateway: gateway.job("7")])
def test_a_command_that_looks_misses_pyslurm_where_it_was_asked_for(
    ask: Callable[[OpenedWhenAsked], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    play("not installed", monkeypatch)
    with pytest.raises(PyslurmUnusableError, match=r"slurm\.backend is 'pyslurm'"):
        ask(OpenedWhenAsked("pyslurm", 20.0))


def test_an_empty_answer_of_pyslurms_is_no_empty_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    play("empty", monkeypatch)
    with pytest.raises(SlurmUnclearError, match="nothing of it makes sense"):
        OpenedWhenAsked("pyslurm", 20.0).snapshot()
