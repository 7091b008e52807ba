"""Scripts for torchrun in the forms that people have, adopted without a changed line."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
import torch

from tests.elastic.forking import PATIENCE_S, Forked
from tests.elastic.harness import SCRIPTS, Agents

FORMS = (
    "adopted_tutorial.py",
    "adopted_imagenet.py",
    "adopted_gpt.py",
    "adopted_teacher.py",
    "adopted_counting.py",
)
RANKS = 2


def trained(out: Path) -> dict[str, torch.Tensor]:
    return torch.load(out / "trained.pt", weights_only=False)


def fixed_run(script: str, out: Path, epochs: int) -> dict[str, torch.Tensor]:
    """What the script trains under torchrun, in a world that does not change."""
    out.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    facts = {"OUT": str(out), "EPOCHS": str(epochs), "WORLD_SIZE": str(RANKS), "MASTER_PORT": str(port)}
    processes = [
        Forked(
            SCRIPTS / script,
            os.environ | facts | {"RANK": str(rank), "MASTER_ADDR": "127.0.0.1"},
            out / f"r{rank}",
        )
        for rank in range(RANKS)
    ]
    assert [process.wait(PATIENCE_S) for process in processes] == [0] * RANKS, processes[0].stderr
    return trained(out)


class Adopted(Agents):
    """Agents whose scripts are adopted."""

    def start(self, **environment: str) -> str:
        return self.start_agent("--adopt", "--ranks", str(RANKS), "--nproc", "1", **environment)

    def steps(self) -> dict[str, list[str]]:
        """The lines that each script wrote in its steps, by process."""
        return {path.name: path.read_text().splitlines() for path in self.out.glob("steps-*")}

    def main_scripts(self) -> set[str]:
        """The processes whose scripts wrote steps as rank 0."""
        return {name for name, lines in self.steps().items() if any(line.split()[1] == "0" for line in lines)}

    def await_size(self, size: int) -> None:
        """Wait until a world of this size trains, all of its scripts in steps."""

        def trains() -> bool:
            return (
                len(self.ranks()) == size
                and sum(len(lines) > before.get(name, 0) + 3 for name, lines in self.steps().items()) >= size
            )

        self.wait_until(lambda: len(self.ranks()) == size, f"world of {size}")
        before = {name: len(lines) for name, lines in self.steps().items()}
        self.wait_until(trains, f"steps in a world of {size}")


@pytest.mark.parametrize("script", FORMS)
def test_it_trains_what_it_trains_in_a_fixed_world_while_workers_join_leave_and_are_killed(
    script: str, tmp_path: Path
) -> None:
    epochs = "20"
    feed_from_mb = "0" if script == "adopted_gpt.py" else "16"  # one of them is fed while the others train
    trainer = Adopted(tmp_path, script, EPOCHS=epochs, FREETRAIN_FEED_FROM_MB=feed_from_mb)
    (trainer.out / "slow").touch()
    try:
        first = trainer.start()
        trainer.await_size(1)
        second = trainer.start()
        trainer.await_size(2)
        trainer.processes[second].kill()
        trainer.await_size(1)
        third = trainer.start()
        trainer.await_size(2)
        (trainer.out / "slow").unlink()
        assert trainer.finish(first, third) == {first: 0, third: 0}, trainer.errors()
        mine = trained(trainer.out)
        for name, values in fixed_run(script, tmp_path / "fixed", int(epochs)).items():
            torch.testing.assert_close(mine[name], values, rtol=1e-4, atol=1e-5)
    finally:
        trainer.end()


def test_all_begin_with_the_model_of_rank_0_though_others_are_ready_before(tmp_path: Path) -> None:
    trainer = Adopted(tmp_path, "adopted_counting.py", EPOCHS="2", LATE_S="4")
    try:
        agents = [trainer.start(), trainer.start()]
        assert trainer.finish(*agents) == dict.fromkeys(agents, 0), trainer.errors()
        mine = trained(trainer.out)
        for name, values in fixed_run("adopted_counting.py", tmp_path / "fixed", 2).items():
            torch.testing.assert_close(mine[name], values, rtol=1e-4, atol=1e-5)
    finally:
        trainer.end()


def test_when_its_rank_0_is_lost_another_script_is_started_in_that_place(tmp_path: Path) -> None:
    trainer = Adopted(tmp_path, "adopted_imagenet.py", EPOCHS="100000")
    (trainer.out / "slow").touch()
    try:
        first = trainer.start()
        trainer.await_size(1)
        trainer.start()
        trainer.await_size(2)
        trainer.processes[first].send_signal(signal.SIGTERM)
        trainer.wait_until(lambda: len(trainer.main_scripts()) == 2, "other script that is rank 0")
        assert trainer.finish(first) == {first: 0}
        trainer.await_size(1)
    finally:
        trainer.end()


def test_a_script_of_another_form_is_restarted_instead_and_says_why(tmp_path: Path) -> None:
    trainer = Adopted(tmp_path, "not_adopted.py")
    try:
        agent = trainer.start_agent("--adopt", "--nproc", "2")
        assert trainer.finish(agent) == {agent: 0}, trainer.errors()
        assert {path.name for path in trainer.out.glob("trained-*")} == {"trained-0-of-2", "trained-1-of-2"}
        assert (
            "since an optimizer steps outside a loop over a loader with a DistributedSampler"
            in trainer.error_of(agent)
        )
    finally:
        trainer.end()
