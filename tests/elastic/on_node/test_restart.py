from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from freetrain.cli.run import run_command
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.files import write_json
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.on_disk.progress import read_progress
from freetrain.elastic.on_node.restart import LAST_NUMBER, RestartAgent, RestartProgress, WatchedSteps
from freetrain.elastic.on_node.workers import AgentEnd, AgentOptions, Signals
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

    def __init__(self, folder: Path, script: str, save_timeout_s: float, min_members: int = 1) -> None:
        self.folder = folder
        self.directory = directory = TrainerDirectory.open(folder / "trainer")
        place = ["-c", script] if "\n" in script else [script]
        options = AgentOptions([sys.executable, *place, str(folder)], 1, end_timeout_s=save_timeout_s)
        self._signals = Signals(())
        progress = RestartProgress(directory.progress_path)
        timeouts = Timeouts(min_members=min_members)
        self.agent = RestartAgent(directory, options, self._signals, timeouts, progress)
        self._endings: list[AgentEnd] = []
        self._thread = threading.Thread(target=lambda: self._endings.append(self.agent.run()))
        self._thread.start()

    def leave(self) -> None:
        self._signals.received = "SIGTERM"

    def ending(self) -> AgentEnd:
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
    for worker in started:
        (worker.folder / "go").touch()
        worker.leave()
        worker.ending()


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


def test_an_agent_that_comes_when_the_training_is_complete_ends(tmp_path: Path, agents: list[OneAgent]) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    write_json(directory.finished_path, {"time_s": 0.0})
    agents.append(agent := OneAgent(tmp_path, NEVER_ENDS, save_timeout_s=0.1))
    agent._thread.join(PATIENCE_S)
    assert agent._endings == [AgentEnd(0, "the training is complete")]
    assert not (tmp_path / "ready").exists()


def test_a_script_that_takes_longer_is_killed_and_that_is_said(
    tmp_path: Path, agents: list[OneAgent], caplog: pytest.LogCaptureFixture
) -> None:
    agents.append(agent := OneAgent(tmp_path, NEVER_ENDS, save_timeout_s=0.1))
    agent.await_file("ready")
    agent.leave()
    assert agent.ending().status == 0
    assert "1 workers had not ended 0.1 s after SIGTERM (--save-timeout) and were killed" in caplog.text


def test_the_workers_of_all_worlds_are_forked_from_one_process(tmp_path: Path, agents: list[OneAgent]) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, pathlib, sys, time\n"
        "new = pathlib.Path(sys.argv[1], 'new')\n"
        "new.write_text(str(os.getppid()))\n"
        "new.rename(new.with_name('world-' + os.environ['TORCHELASTIC_RESTART_COUNT']))\n"
        "time.sleep(1000)\n"
    )
    agents.append(agent := OneAgent(tmp_path, str(script), 20.0))
    agent.await_file("world-0")
    agent.directory.report_broken(1, "the test wants another world")
    agent.await_file("world-1")
    assert (tmp_path / "world-1").read_text() == (tmp_path / "world-0").read_text()


def test_a_script_whose_ranks_save_and_end_together_when_a_node_leaves_is_not_complete(
    tmp_path: Path, agents: list[OneAgent]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, pathlib, sys, time\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "(out / ('ranks-' + os.environ['WORLD_SIZE'])).touch()\n"
        "while os.environ['WORLD_SIZE'] == '2' and not (out / 'saved').exists():\n"
        "    time.sleep(0.01)\n"
    )
    agents.append(first := OneAgent(tmp_path, str(script), 20.0, min_members=2))
    agents.append(second := OneAgent(tmp_path, str(script), 20.0, min_members=2))
    first.await_file("ranks-2")
    second.leave()
    wait_until(lambda: bool(first.directory.view().leaving))
    (tmp_path / "saved").touch()
    first.await_file("ranks-1")
    assert second.ending().reason.startswith("left on SIGTERM")
    assert first.ending().reason == "the training is complete"


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


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def generation(number: int, agents: str, cause: str) -> Generation:
    return Generation(number, tuple(agents), "host", "address", 1, "nonce", cause)


def test_starts_and_sizes_are_told_even_where_no_steps_can_be_watched(tmp_path: Path) -> None:
    path, clock = tmp_path / "progress.jsonl", Clock()
    progress = RestartProgress(path, now_s=clock)
    progress.start(generation(1, "a", "start"), world=2)
    progress.look()
    progress.pause()
    clock.now_s += 5
    progress.end()
    clock.now_s += 2
    progress.start(generation(2, "ab", "join"), world=6)
    told = read_progress(path)
    assert (told.rejected, told.rates) == (0, ())
    assert [(rescale.cause, rescale.nodes, rescale.world, rescale.pause_s) for rescale in told.rescales] == [
        ("start", 1, 2, 0.0),
        ("join", 2, 6, 7.0),
    ]
    assert [(rescale.save_s, rescale.start_s) for rescale in told.rescales] == [(None, None), (5.0, None)]


def test_watched_steps_give_rates_and_pauses_up_to_the_first_step(tmp_path: Path) -> None:
    path, log, clock = tmp_path / "progress.jsonl", tmp_path / "log", Clock()
    progress = RestartProgress(path, WatchedSteps(log, re.compile(LAST_NUMBER)), 32, now_s=clock)

    def after(seconds: float, steps: int) -> None:
        clock.now_s += seconds
        with log.open("a") as stream:
            stream.write(f"step {steps}\n")
        progress.look()

    progress.start(generation(1, "a", "start"), world=2)
    after(3, steps=1)
    after(10, steps=21)
    progress.pause()
    clock.now_s += 4
    progress.end()
    progress.start(generation(2, "ab", "join"), world=4)
    after(6, steps=11)  # from its checkpoint
    after(5, steps=31)
    told = read_progress(path)
    assert told.rejected == 0
    assert [(rate.nodes, rate.samples, rate.samples_per_s, rate.samples_done) for rate in told.rates] == [
        (1, 640, 64.0, 672),
        (2, 640, 128.0, 992),
    ]
    assert [(rescale.world, rescale.pause_s) for rescale in told.rescales] == [(2, 0.0), (4, 10.0)]
    assert [(rescale.save_s, rescale.start_s) for rescale in told.rescales] == [(None, 3.0), (4.0, 6.0)]


def test_what_is_done_when_the_workers_are_ended_counts(tmp_path: Path) -> None:
    path, log, clock = tmp_path / "progress.jsonl", tmp_path / "steps", Clock()
    progress = RestartProgress(path, WatchedSteps(log, re.compile(LAST_NUMBER)), now_s=clock)
    progress.start(generation(1, "a", "start"), world=1)
    log.write_text("1\n")
    clock.now_s += 1
    progress.look()
    log.write_text("3\n")
    clock.now_s += 1
    progress.pause()
    assert read_progress(path).rates[-1].samples_done == 3


@pytest.mark.parametrize(
    ("pattern", "text", "steps"),
    [
        (LAST_NUMBER, "1\n2\n3\n", 3),
        (LAST_NUMBER, "1\n2\n3", 2),
        (LAST_NUMBER, "epoch 3, step 120 done\nall is well\n", 120),
        (r"step (\d+)", "step 7 loss 0.25\nlr 0.1\n", 7),
        (r"step (\d+)|end", "step 7\nend\n", None),
        (LAST_NUMBER, "", None),
        (LAST_NUMBER, "nothing\n", None),
        (r"step (\S+)", "step seven\n", None),
    ],
)
def test_the_last_line_that_tells_counts(tmp_path: Path, pattern: str, text: str, steps: int | None) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert WatchedSteps(path, re.compile(pattern)).latest() == steps


def test_of_a_long_log_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"step 1\n" + b"\xff" * 200_000 + b"\nstep 2\n")
    assert WatchedSteps(path, re.compile(r"step (\d+)")).latest() == 2
    path.write_bytes(b"step 1\n" + b"x" * 200_000 + b"\n")
    assert WatchedSteps(path, re.compile(r"step (\d+)")).latest() is None


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert WatchedSteps(tmp_path / "log", re.compile(LAST_NUMBER)).latest() is None
