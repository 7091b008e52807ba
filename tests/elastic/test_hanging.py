"""A rank that stands still holds nobody up for ever, and nothing that is lost with it ends with status 0."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.elastic.harness import Agents, workers


def test_who_is_waited_for_is_said_and_a_worker_that_is_to_leave_saves_and_leaves(tmp_path: Path) -> None:
    with workers(tmp_path, "hanging.py", SLEEPS="w1") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        (trainer.out / "sleep").touch()
        trainer.wait_until(lambda: "w1) has not come there" in trainer.error_of("w0"), "sentence")
        assert "sum of gradients at hanging.py:" in trainer.error_of("w0")
        trainer.leave("w0", "w1")
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
        (newest, *_) = sorted((trainer.root / "checkpoints").glob("step-*"), reverse=True)
        assert int(newest.stem.partition("-")[2]) == trainer.last_step_of("w0")


def test_a_rank_that_does_nothing_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    with workers(tmp_path, "hanging.py", SLEEPS="w1", FREETRAIN_HUNG_AFTER_S="2") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        (trainer.out / "sleep").touch()
        trainer.await_world(1)
        assert "no sign of progress" in (trainer.directory.is_gone("w1") or "")
        (trainer.out / "done").touch()
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()


def test_steps_that_are_lost_with_a_killed_worker_do_not_end_with_status_0(tmp_path: Path) -> None:
    trainer = Agents(tmp_path, "hanging.py", SLEEPS="all")
    try:
        logs = tmp_path / "logs"
        name = trainer.start_agent("--nproc", "1", "--leave-timeout", "2", "--logs", str(logs))
        trainer.wait_until(lambda: trainer.last_step() > 3, "steps")
        assert len(list(logs.glob("*-0.log"))) == 1
        (trainer.out / "sleep").touch()
        trainer.processes[name].send_signal(signal.SIGTERM)
        assert trainer.finish(name) == {name: 1}
        assert "what they had trained since the newest checkpoint is lost" in trainer.error_of(name)
    finally:
        trainer.end()
