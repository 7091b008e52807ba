from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
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


def player(role: str) -> Sequence[str]:
    return (sys.executable, str(Path(__file__).with_name("fake_pyslurm_child.py")), role)


def scontrol_says(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int) -> None:
    """There is an scontrol that says this, and no other command of Slurm."""
    command = folder / "scontrol"
    command.write_text(f"#!/bin/sh\necho '{said}'\nexit {status}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_auto_takes_pyslurm_where_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        gateway = open_gateway("auto", 20.0, player("well"))
    assert isinstance(gateway, PyslurmClient)
    assert caplog.messages == ["Slurm is asked through pyslurm 25.11.2."]
    snapshot = gateway.snapshot()
    assert len(snapshot.nodes) == 8
    assert snapshot.job["1_2"].is_held
    gateway.process.close()


@pytest.mark.parametrize(
    ("role", "why"),
    [
        ("hangs", "no answer within 0.5 s"),
        ("hangs at import", "no answer within 0.5 s"),
        ("crashes", "ended (signal 11)"),
        ("too old", "pyslurm 23.2.1 is older than 25.11"),
        ("not installed", "No module named 'pyslurm'"),
    ],
)
def test_auto_takes_the_commands_otherwise_and_says_why(
    role: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        gateway = open_gateway("auto", 0.5 if "hangs" in role else 20.0, player(role))
    assert isinstance(gateway, CommandLine)
    (message,) = caplog.messages
    assert message.startswith("Slurm is asked through its commands")
    assert why in message


def test_the_commands_are_taken_where_they_are_asked_for() -> None:
    assert isinstance(open_gateway("cli", 20.0, ("/nonexistent",)), CommandLine)


@pytest.mark.parametrize("backend", ["auto", "pyslurm"])
def test_how_much_of_a_node_is_used_only_the_commands_tell(backend: Backend) -> None:
    assert isinstance(open_gateway(backend, 20.0, player("well"), in_parts=True), CommandLine)


@pytest.mark.parametrize("role", ["too old", "not installed"])
def test_pyslurm_is_missed_where_it_was_asked_for(role: str) -> None:
    with pytest.raises(PyslurmUnusableError, match=r"slurm\.backend is 'pyslurm'") as caught:
        open_gateway("pyslurm", 20.0, player(role))
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.CONFIGURATION


@pytest.mark.parametrize(
    ("role", "kind"), [("hangs at import", SlurmUnreachableError), ("fatal at import", SlurmMissingError)]
)
def test_pyslurm_that_was_asked_for_waits_for_slurms_configuration(role: str, kind: type[SlurmError]) -> None:
    with pytest.raises(kind) as caught:
        open_gateway("pyslurm", 0.5 if "hangs" in role else 20.0, player(role))
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.UNREACHABLE


def test_auto_takes_the_commands_where_python_cannot_be_executed_again_and_names_the_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python3"
    program.touch(0o644)
    with caplog.at_level(logging.INFO):
        assert isinstance(open_gateway("auto", 20.0, (str(program), "child.py")), CommandLine)
    (message,) = caplog.messages
    assert f"this account cannot execute {program} (Permission denied)" in message
    with pytest.raises(PyslurmUnusableError, match=f"cannot execute {program}"):
        open_gateway("pyslurm", 20.0, (str(program), "child.py"))


def test_pyslurm_that_slurm_hangs_up_on_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol_says(tmp_path, monkeypatch, "Slurmctld(primary) at c1 is UP", 0)
    with pytest.raises(PyslurmUnusableError, match="answers its commands, but not pyslurm"):
        open_gateway("pyslurm", 20.0, player("away"))


def test_pyslurm_that_was_asked_for_waits_for_a_slurm_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_says(tmp_path, monkeypatch, "Slurmctld(primary) at c1 is DOWN", 1)
    gateway = open_gateway("pyslurm", 20.0, player("away"))
    assert isinstance(gateway, PyslurmClient)
    with pytest.raises(SlurmUnreachableError, match="Unable to contact"):
        gateway.snapshot()
    with pytest.raises(SlurmUnreachableError, match="is DOWN"):
        gateway.snapshot()  # asks scontrol first, which knows at once
    gateway.process.close()


def test_a_command_that_only_gives_an_order_starts_no_pyslurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol_says(tmp_path, monkeypatch, "done", 0)
    for backend in ("auto", "pyslurm"):
        gateway = OpenedWhenAsked(backend, 20.0, program=("/nonexistent",))  # type: ignore[arg-type]
        assert gateway.perform(("scontrol", "release", "7")) == "done\n"


def test_a_command_that_looks_asks_pyslurm_where_the_site_has_chosen_it() -> None:
    gateway = OpenedWhenAsked("pyslurm", 20.0, program=player("well"))
    assert len(gateway.snapshot().nodes) == 8
    assert {task.id for task in gateway.job("1")} == {f"1_{task}" for task in (0, 1, 2, 3)}
    assert [task.id for task in gateway.job("7")] == ["7"]
    assert gateway.job("4711") == []


@pytest.mark.parametrize("ask", [lambda gateway: gateway.snapshot(), lambda gateway: gateway.job("7")])
def test_a_command_that_looks_misses_pyslurm_where_it_was_asked_for(
    ask: Callable[[OpenedWhenAsked], object],
) -> None:
    with pytest.raises(PyslurmUnusableError, match=r"slurm\.backend is 'pyslurm'"):
        ask(OpenedWhenAsked("pyslurm", 20.0, program=player("not installed")))


def test_an_empty_answer_of_pyslurms_is_no_empty_machine() -> None:
    with pytest.raises(SlurmUnclearError, match="nothing of it makes sense"):
        OpenedWhenAsked("pyslurm", 20.0, program=player("empty")).snapshot()
