"""Frozen tasks, with a small freezer: what the program has done is a file, which is copied and put back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.errors import ExitCode

LAUNCH = 'echo 0 > done; exec "$@"'
SAVE = 'cp done "$FREEZE_DIR/image"'
THAW = 'cp "$FREEZE_IMAGE/image" done; exec "$@"'
COUNT = "while [ ! -e enough ]; do sleep 0.02; echo $(($(cat done) + 1)) > next; mv next done; done"
AGENT = """
import pathlib, sys
from freetrain.elastic.on_node.freezing import Freezer, FrozenTask
launch, save, thaw, within_s, *command = sys.argv[1:]
freezer = Freezer(launch, save, thaw, float(within_s))
sys.exit(FrozenTask(freezer, pathlib.Path("frozen").absolute(), "7").run(command))
"""


class Task:
    """A task in a directory that all nodes share."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.agent: subprocess.Popen[bytes]

    def starts(self, save: str = SAVE, within_s: float = 30.0, program: str = COUNT) -> None:
        """Slurm runs it on a node."""
        command = [sys.executable, "-c", AGENT, LAUNCH, save, THAW, str(within_s), "sh", "-c", program]
        self.agent = subprocess.Popen(command, cwd=self.directory, start_new_session=True)

    def works(self) -> int:
        """It gets on; what it has done."""
        before = self.done
        until(lambda: self.done > before + 2)
        return self.done

    def is_ordered_to_leave(self) -> int:
        """As Slurm does it, each process of the step gets the signal; the exit status."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):  # the program's commands are short
                os.kill(process, signal.SIGTERM)
        return self.agent.wait(20)

    def processes(self) -> list[int]:
        """The agent's, and those that it has started."""
        found = [self.agent.pid]
        for parent in found:
            children = Path(f"/proc/{parent}/task/{parent}/children")
            found += map(int, children.read_text().split() if children.exists() else ())
        return found

    @property
    def done(self) -> int:
        file = self.directory / "done"
        return int(file.read_text() or 0) if file.exists() else 0

    @property
    def causes(self) -> list[str]:
        """Of its losses, as its owner's progress has them."""
        file = self.directory / "frozen/progress.jsonl"
        return [json.loads(line)["cause"] for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def saves(self) -> list[str]:
        return sorted(path.parent.name for path in self.directory.glob("frozen/7/*/image"))


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def test_a_program_that_cannot_save_itself_goes_on_on_the_next_node_and_ends_once(task: Task) -> None:
    for run in ("1", "2"):
        task.starts()
        done = task.works()
        assert task.is_ordered_to_leave() == ExitCode.TRY_AGAIN
        assert task.saves == [run], "the save before it is removed when there is a new one, and not before"
        (task.directory / "done").write_text("-1000")  # what was not saved stays on its node
    task.starts()
    until(lambda: task.done >= done)
    (task.directory / "enough").touch()
    assert task.agent.wait(20) == 0
    assert task.causes == []
    assert list(task.directory.glob("frozen/*")) == []


@pytest.mark.parametrize(
    ("save", "within_s", "cause"),
    [("exit 3", 30.0, "the save failed"), ("exec sleep 60", 0.2, "the save was late")],
)
def test_a_save_that_does_not_succeed_is_a_loss_and_the_one_before_it_counts(
    task: Task, save: str, within_s: float, cause: str
) -> None:
    task.starts()
    done = task.works()
    task.is_ordered_to_leave()
    task.starts(save, within_s)
    task.works()
    assert task.is_ordered_to_leave() == ExitCode.TRY_AGAIN
    assert task.causes == [cause]
    assert task.saves == ["1"]
    (task.directory / "done").write_text("-1000")
    task.starts()
    until(lambda: task.done >= done)
    task.is_ordered_to_leave()


def test_what_slurm_kills_while_it_saves_is_a_loss_that_its_next_run_reports(task: Task) -> None:
    task.starts('touch began; cp done "$FREEZE_DIR/image"; exec sleep 60')
    task.works()
    os.kill(task.agent.pid, signal.SIGTERM)
    until((task.directory / "began").exists)
    task.agent.kill()
    task.agent.wait(20)
    # What the killed agent had started may still count for a moment.
    (task.directory / "done").unlink()
    task.starts()
    until(lambda: bool(task.causes))
    task.works()
    assert task.causes == ["the save was cut off"]
    assert task.is_ordered_to_leave() == ExitCode.TRY_AGAIN
    assert task.causes == ["the save was cut off"]


def test_a_program_that_ends_well_while_its_save_fails_is_complete(task: Task) -> None:
    task.starts("touch enough; until grep -q 'State:.Z' /proc/$FREEZE_PID/status; do sleep 0.01; done; exit 1")
    task.works()
    assert task.is_ordered_to_leave() == 0
    assert task.causes == []


def test_a_program_that_fails_has_its_own_status_and_its_saves_stay(task: Task) -> None:
    task.starts()
    task.works()
    task.is_ordered_to_leave()
    task.starts(program="exit 3")
    assert task.agent.wait(20) == 3
    assert task.saves == ["1"]
