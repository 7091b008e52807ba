"""Scripts that are started anew get the time that they need to save, and no more; none of them needs torch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from freetrain.cli.run import run_command
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_node.options import AgentOptions, Ending
from freetrain.elastic.on_node.restart import RestartAgent
from freetrain.elastic.on_node.restart_progress import RestartProgress
from freetrain.elastic.on_node.signals import Signals
from freetrain.elastic.timeouts import Timeouts
from freetrain.errors import InputError

PATIENCE_S = 60.0

SAVES_THROUGH_A_CHILD = """
import pathlib, signal, subprocess, sys, time
out = pathlib.Path(sys.argv[1])
writer = subprocess.Popen(["sh", "-c", "cat > saved"], cwd=out, stdin=subprocess.PIPE)
def save(*_):
    (out / "saving").touch()
    while not (out / "go").exists():
        time.sleep(0.01)
    writer.communicate(b"all")
    sys.exit()
signal.signal(signal.SIGTERM, save)
(out / "ready").touch()
while True:
    time.sleep(1)
"""

NEVER_ENDS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(pathlib.Path(sys.argv[1]) / "ready").touch()
while True:
    time.sleep(1)
"""


class OneAgent:
    """Runs a script in restart mode, until it is told to leave."""

    def __init__(self, folder: Path, script: str, save_timeout_s: float) -> None:
        self.folder = folder
        directory = TrainerDirectory.open(folder / "trainer")
        options = AgentOptions(["python3", "-c", script, str(folder)], 1, end_timeout_s=save_timeout_s)
        self._signals = Signals(())
        progress = RestartProgress(directory.progress_path)
        self._agent = RestartAgent(directory, options, self._signals, Timeouts.from_environment(), progress)
        self._endings: list[Ending] = []
        self._thread = threading.Thread(target=lambda: self._endings.append(self._agent.run()))
        self._thread.start()

    def leave(self) -> None:
        self._signals.received = "SIGTERM"

    def ending(self) -> Ending:
        self._thread.join(PATIENCE_S)
        return self._endings[0]

    def await_file(self, name: str) -> None:
        wait_until((self.folder / name).exists)


def wait_until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


@pytest.fixture
def agents() -> Iterator[list[OneAgent]]:
    """Those that a test starts, ended with it."""
    started: list[OneAgent] = []
    yield started
    for each in started:
        (each.folder / "go").touch()
        each.leave()
        each.ending()


def test_a_script_saves_when_it_is_to_end_and_what_it_started_itself_is_there_to_help(
    tmp_path: Path, agents: list[OneAgent]
) -> None:
    agents.append(agent := OneAgent(tmp_path, SAVES_THROUGH_A_CHILD, PATIENCE_S))
    agent.await_file("ready")
    agent.leave()
    agent.await_file("saving")
    (tmp_path / "go").touch()
    assert agent.ending().status == 0
    assert (tmp_path / "saved").read_text() == "all"


def test_a_script_that_takes_longer_is_killed_and_that_is_said(
    tmp_path: Path, agents: list[OneAgent], caplog: pytest.LogCaptureFixture
) -> None:
    agents.append(agent := OneAgent(tmp_path, NEVER_ENDS, save_timeout_s=0.1))
    agent.await_file("ready")
    agent.leave()
    assert agent.ending().status == 0
    assert "1 workers had not ended 0.1 s after SIGTERM (--save-timeout) and were killed" in caplog.text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--save-timeout", "9"], "--save-timeout is for --restart only"),
        (["--restart", "--leave-timeout", "9"], "--leave-timeout is not for --restart"),
    ],
)
def test_each_way_to_train_has_a_timeout_of_its_own(tmp_path: Path, options: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        run_command.main(["--trainer", str(tmp_path / "trainer"), *options, "--", "true"], standalone_mode=False)
