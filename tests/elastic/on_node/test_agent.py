from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.elastic.on_disk.progress import read_progress
from freetrain.elastic.on_node.servers import MOVES_BEFORE_S
from tests.elastic.harness import FREETRAIN, PATIENCE_S, Agents, assert_exactly_once

pytestmark = pytest.mark.slow

EPOCHS = 15


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    trainer = Agents(tmp_path, EPOCHS=str(EPOCHS))
    trainer.pace(slow=True)
    yield trainer
    trainer.end()


def test_grow_kill_and_lose_by_poke(agents: Agents) -> None:
    agents.start_agent("--nproc", "2")
    agents.await_world(2)
    tried = agents.poke("--lose", "1", "--kill", "1", "--grow", "2", "--dry-run").stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in tried] == [
        "would leave at the next step boundary", "would be killed", "more would be started",
    ]  # fmt: skip
    assert tried[0].split()[0] != tried[1].split()[0]
    assert agents.poke("--grow", "1").returncode == 0
    agents.await_world(3)
    assert "is killed" in agents.poke("--kill", "1").stdout
    agents.wait_until(lambda: len(agents.directory.view().gone) == 1, "loss")
    agents.await_world(3)  # the agent replaces who failed
    assert agents.poke("--lose", "2").returncode == 0
    agents.await_world(1)
    agents.pace(slow=False)
    assert agents.finish() == {"agent0": 0}, agents.errors()
    assert "the training is complete" in agents.error_of("agent0")
    assert_exactly_once(agents, EPOCHS)


RARER = [pytest.param(number, marks=pytest.mark.soak) for number in (signal.SIGUSR1, signal.SIGUSR2)]


@pytest.mark.parametrize("number", [signal.SIGTERM, *RARER])
def test_signals_make_the_node_leave(agents: Agents, number: signal.Signals) -> None:
    stays = agents.start_agent("--nproc", "1")
    agents.await_world(1)
    leaves = agents.start_agent("--nproc", "1", "--leave-on", "USR2")
    agents.await_world(2)
    agents.processes[leaves].send_signal(number)
    assert agents.finish(leaves)[leaves] == 0
    assert f"left on {number.name}" in agents.error_of(leaves)
    agents.await_world(1)
    agents.pace(slow=False)
    assert agents.finish(stays)[stays] == 0, agents.errors()
    assert_exactly_once(agents, EPOCHS)


def test_where_slurm_signals_the_workers_too_they_leave_in_good_order(agents: Agents) -> None:
    name = agents.start_agent("--nproc", "1")
    agents.await_world(1)
    (worker,) = agents.directory.view().current
    os.kill(agents.directory.view().members[worker].pid, signal.SIGTERM)
    agents.processes[name].send_signal(signal.SIGTERM)
    assert agents.finish(name)[name] == 0
    assert agents.directory.view().gone[worker] == "left at a step boundary, as asked"
    assert len(list(agents.directory.checkpoints.iterdir())) == 1


def test_the_last_node_to_leave_saves_and_another_goes_on(agents: Agents) -> None:
    first = agents.start_agent("--nproc", "2")
    agents.await_world(2)
    agents.processes[first].send_signal(signal.SIGTERM)
    assert agents.finish(first)[first] == 0
    assert len(list(agents.directory.checkpoints.iterdir())) == 1
    assert agents.last_step() < 10 * EPOCHS
    second = agents.start_agent("--nproc", "1")
    agents.await_world(1)
    agents.pace(slow=False)
    assert agents.finish(second)[second] == 0, agents.errors()
    assert sorted({record["step"] for record in agents.records()}) == list(range(1, 10 * EPOCHS + 1))
    assert_exactly_once(agents, EPOCHS)


def test_a_killed_agent_takes_its_workers_along_and_the_others_go_on(agents: Agents) -> None:
    lost = agents.start_agent("--nproc", "1")
    agents.await_world(1)
    stays = agents.start_agent("--nproc", "1")
    agents.await_world(2)
    agents.kill(lost)
    agents.await_world(1)
    agents.pace(slow=False)
    assert agents.finish(stays)[stays] == 0, agents.errors()
    assert_exactly_once(agents, EPOCHS)


def test_a_stopped_worker_is_ended_by_its_agent(agents: Agents) -> None:
    agents.environment["FREETRAIN_LOST_AFTER_S"] = "3"
    agents.start_agent("--nproc", "2", "--max-restarts", "0")
    agents.await_world(2)
    view = agents.directory.view()
    stopped = view.members[view.ranks[1]]
    os.kill(stopped.pid, signal.SIGSTOP)
    agents.await_world(1)
    agents.wait_until(lambda: not Path(f"/proc/{stopped.pid}").exists(), "end of the stopped worker")
    agents.pace(slow=False)
    assert agents.finish()["agent0"] == 0, agents.errors()
    assert_exactly_once(agents, EPOCHS)


def test_a_server_moves_before_its_node_ends_and_when_it_leaves(agents: Agents) -> None:
    ends_soon = {"SLURM_JOB_END_TIME": f"{time.time() + MOVES_BEFORE_S - 1:.0f}"}
    first = agents.start_agent("--nproc", "1", "--servers", "1", **ends_soon)
    agents.wait_until(lambda: agents.hosts() == {first}, "server on the only node")
    agents.await_world(1)
    with_first = agents.directory.view().number
    second = agents.start_agent("--nproc", "1", "--servers", "1")
    agents.wait_until(lambda: agents.hosts() == {second}, "server on the node that stays")
    moved = agents.directory.view().number
    for number in range(with_first, moved + 1):
        assert agents.servers_of(number), "the world had no server while it moved"
    agents.await_world(2)
    agents.processes[second].send_signal(signal.SIGTERM)
    assert agents.finish(second)[second] == 0
    agents.wait_until(lambda: agents.hosts() == {first}, "server on the node that is left")
    agents.await_world(1)
    agents.pace(slow=False)
    assert agents.finish(first)[first] == 0, agents.errors()
    assert_exactly_once(agents, EPOCHS)


def test_servers_run_where_freetrain_says_and_move_when_it_says_otherwise(agents: Agents) -> None:
    """A squeue of the imagination shows what the file ``said`` says; it is asked whenever the nodes change."""
    squeue = agents.out / "squeue"
    squeue.write_text(f'#!/bin/sh\necho "$@" >> {agents.out}/asked\ncat {agents.out}/said\n')
    squeue.chmod(0o755)

    def say(comment: str) -> None:
        (agents.out / "said").write_text(comment + "\n")

    def start(task: int) -> str:
        slurm = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task), "SLURMD_NODENAME": f"c{task}"}
        path = {"PATH": f"{agents.out}:{os.environ['PATH']}"}
        return agents.start_agent("--nproc", "1", "--servers", "auto", **slurm, **path)

    say("freetrain:servers=2 | servers on c2")
    first, second = start(1), start(2)
    agents.wait_until(lambda: agents.hosts() == {second}, "server on the node that was named")
    say("freetrain:servers=2 | servers on c1")
    third = start(3)
    agents.wait_until(lambda: agents.hosts() == {first}, "server on the other node")
    agents.await_world(3)
    say("freetrain:servers=2")
    agents.processes[third].send_signal(signal.SIGTERM)
    assert agents.finish(third)[third] == 0
    agents.wait_until(lambda: not agents.servers(), "world without servers")
    agents.await_world(2)
    agents.pace(slow=False)
    assert set(agents.finish().values()) == {0}, agents.errors()
    asked = (agents.out / "asked").read_text().splitlines()
    assert set(asked) <= {f"--noheader --format=%k --jobs=7_{task}" for task in (1, 2, 3)}
    assert_exactly_once(agents, EPOCHS)


def test_a_server_that_is_killed_is_replaced_by_its_agent(agents: Agents) -> None:
    agents.start_agent("--nproc", "2", "--servers", "1", "--max-restarts", "1")
    agents.wait_until(lambda: len(agents.servers()) == 1, "server")
    agents.await_world(2)
    (killed,) = agents.servers()
    os.kill(agents.directory.view().members[killed].pid, signal.SIGKILL)
    agents.wait_until(lambda: len(agents.servers()) == 1 and killed not in agents.servers(), "another server")
    agents.await_world(2)
    agents.pace(slow=False)
    assert agents.finish() == {"agent0": 0}, agents.errors()
    assert_exactly_once(agents, EPOCHS)


def test_a_script_that_fails_at_once_is_not_tried_again(agents: Agents) -> None:
    agents.script = "no_such_script.py"
    agents.start_agent("--nproc", "1")
    assert agents.finish() == {"agent0": 1}
    assert "1 of 1 workers failed" in agents.error_of("agent0")
    assert "workers failed" in str(agents.directory.agents())


def test_a_script_that_fails_while_it_trains_is_tried_again_only_so_often(agents: Agents) -> None:
    agents.script = "failing.py"
    (agents.out / "fail-all").touch()
    agents.start_agent("--nproc", "1", "--max-restarts", "1", WHERE="backward")
    assert agents.finish() == {"agent0": 1}
    assert agents.error_of("agent0").count("\nRuntimeError: connection to the feature store timed out") == 2
    assert "2 of 2 workers failed" in agents.error_of("agent0")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--lose", "1"], "is not the directory of a trainer"), ([], "nothing to do")],
)
def test_poking_what_is_not_there(agents: Agents, options: list[str], sentence: str) -> None:
    done = agents.poke(*options)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence", "status"),
    [
        (["--leave-on", "KILL", "--", "true"], "no signal of that name can be handled", 2),
        (["--", "no-such-command"], "cannot start no-such-command", 2),
        (["--", "true"], "never joined the trainer", 1),
        (["--steps-from", "log", "--", "true"], "--steps-from is for --restart only", 2),
        (
            ["--restart", "--steps-from", "l", "--steps-pattern", "(", "--", "true"],
            "--steps-pattern (: missing",
            2,
        ),
        (["--restart", "--steps-from", "l", "--steps-pattern", "x", "--", "true"], "x has no group", 2),
    ],
)
def test_bad_options_are_sentences(tmp_path: Path, options: list[str], sentence: str, status: int) -> None:
    command = [*FREETRAIN, "run", "--trainer", str(tmp_path / "trainer"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == status
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


GOES_WITHOUT_A_RECORD = """
import os
from pathlib import Path
from freetrain.elastic.on_disk.directory import TrainerDirectory
directory = TrainerDirectory.open(Path(os.environ["FREETRAIN_TRAINER"]))
directory.mark_gone(os.environ["FREETRAIN_MEMBER"], "finished")
"""
"""What is left of a worker that has said goodbye, once the others have dropped what nobody asks for any more."""


def test_a_worker_whose_record_has_been_dropped_had_joined_all_the_same(tmp_path: Path) -> None:
    command = [*FREETRAIN, "run", "--trainer", str(tmp_path / "trainer"), "--nproc", "1", "--"]
    program = [*command, sys.executable, "-c", GOES_WITHOUT_A_RECORD]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "freetrain: all workers left, as asked\n")


@pytest.mark.parametrize("mode", [[], ["--restart"]])
def test_of_a_complete_training_nothing_is_started(agents: Agents, mode: list[str]) -> None:
    agents.root.mkdir(exist_ok=True)
    (agents.root / "finished.json").write_text("{}")
    agents.start_agent(*mode)
    assert agents.finish() == {"agent0": 0}, agents.errors()
    assert "the training is complete" in agents.errors()


def test_restart_mode_runs_an_unmodified_script(agents: Agents) -> None:
    agents.script = "torchrun_style.py"

    def steps() -> list[list[str]]:
        path = agents.out / "steps"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    watching = ("--steps-from", str(agents.out / "steps"), "--steps-pattern", r"^(\d+) ")
    first = agents.start_agent("--restart", "--nproc", "1", *watching, "--samples-per-step", "32")
    agents.wait_until(lambda: len(steps()) > 3, "steps")
    second = agents.start_agent("--restart", "--nproc", "2")
    agents.wait_until(lambda: steps()[-1][1] == "3", "world of 3")
    agents.processes[second].send_signal(signal.SIGTERM)
    assert agents.finish(second)[second] == 0
    agents.wait_until(lambda: len(read_progress(agents.directory.progress_path).rescales) == 3, "world of 1")
    assert steps()[-1][1] == "1"
    (agents.out / "enough").touch()
    assert agents.finish(first)[first] == 0, agents.errors()
    numbers = [int(step) for step, *_ in steps()]
    assert numbers == list(range(1, numbers[-1] + 1))
    progress = read_progress(agents.directory.progress_path)
    assert progress.rejected == 0
    assert [(rescale.world, rescale.nodes) for rescale in progress.rescales] == [(1, 1), (3, 2), (1, 1)]
    assert progress.rescales[0].pause_s == 0 < min(rescale.pause_s for rescale in progress.rescales[1:])
    assert progress.rates[-1].samples_done == 32 * numbers[-1]


def test_progress_tells_rates_and_rescales(agents: Agents) -> None:
    agents.start_agent("--nproc", "2", SLURM_CPUS_ON_NODE="8")
    agents.await_world(2)
    agents.poke("--lose", "1")
    agents.await_world(1)
    agents.pace(slow=False)
    agents.finish()
    lines = [json.loads(line) for line in agents.directory.progress_path.read_text().splitlines()]
    rates = [line for line in lines if line["event"] == "rate"]
    assert sum(line["samples"] for line in rates) == rates[-1]["samples_done"] == EPOCHS * 240
    assert {line["world"] for line in rates} >= {1, 2}
    assert {line["cpus"] for line in rates} == {8}
    for line in rates:
        parts_s = line["compute_s"] + line["communication_s"] + line["data_wait_share"] * line["step_s"]
        assert parts_s == pytest.approx(line["step_s"], rel=0.05)
        assert line["samples_per_s"] == pytest.approx(line["samples"] / line["elapsed_s"])
    rescales = [line for line in lines if line["event"] == "rescale"]
    assert rescales[-1]["cause"] == "leave"
    assert 0 < rescales[-1]["pause_s"] < PATIENCE_S


def test_a_pause_lasts_until_the_new_world_has_made_a_step(agents: Agents) -> None:
    agents.start_agent("--nproc", "1")
    agents.await_world(1)
    agents.start_agent("--nproc", "1", FIRST_STEP_S="1.5")
    agents.await_world(2)
    agents.pace(slow=False)
    agents.finish()
    rescales = read_progress(agents.directory.progress_path).rescales
    (join,) = [rescale for rescale in rescales if rescale.cause == "join"]
    assert join.pause_s > 1.5
