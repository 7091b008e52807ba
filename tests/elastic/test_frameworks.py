"""Frameworks that bring loops of their own, restarted at each change of size; ``make frameworks`` has them."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
import torch

from tests.elastic.forking import PATIENCE_S, Forked
from tests.elastic.harness import SCRIPTS, Agents, workers

STEP_S = "0.15"
SCRIPT_OF = {
    "transformers": "hugging_face.py",
    "lightning": "lightning_trainer.py",
    "lightning.fabric": "fabric.py",
    "torch": "sharded_everywhere.py",
}


class Restarted(Agents):
    """Agents in restart mode, each with one rank."""

    def start(self) -> str:
        return self.start_agent("--restart", "--nproc", "1", "--save-timeout", "60")

    def steps(self) -> list[tuple[int, int, float]]:
        """Number, ranks and loss of each step."""
        path = self.out / "steps"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(int(step), int(ranks), float(loss)) for step, ranks, loss in lines]

    def await_steps(self, ranks: int) -> None:
        """Wait until a new world of so many ranks has made some steps."""
        before = len(self.steps())
        self.wait_until(
            lambda: sum(size == ranks for _, size, _ in self.steps()[before:]) > 2, f"steps of {ranks} ranks"
        )


def losses_alone(script: str, out: Path, steps: int) -> dict[int, float]:
    """The losses of one process that nothing happens to."""
    out.mkdir()
    facts = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": 0}
    facts |= {"GROUP_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0, "STEPS": steps, "OUT": out}
    environment = {name: str(value) for name, value in facts.items()}
    process = Forked(SCRIPTS / script, os.environ | environment, out / "alone")
    assert process.wait(PATIENCE_S) == 0, process.stderr
    lines = [line.split() for line in (out / "steps").read_text().splitlines()]
    return {int(step): float(loss) for step, _, loss in lines}


@pytest.mark.parametrize("framework", SCRIPT_OF)
def test_losses_go_on_as_in_a_fixed_run_when_a_node_comes_leaves_and_is_killed(
    framework: str, tmp_path: Path
) -> None:
    pytest.importorskip(framework)
    script = f"frameworks/{SCRIPT_OF[framework]}"
    trainer = Restarted(tmp_path, script, STEP_S=STEP_S)
    try:
        first = trainer.start()
        trainer.await_steps(1)
        second = trainer.start()
        trainer.await_steps(2)
        trainer.processes[second].send_signal(signal.SIGTERM)
        trainer.await_steps(1)
        saved = [(step, ranks) for step, ranks, _ in trainer.steps()]
        assert [step for step, _ in saved] == list(range(1, len(saved) + 1)), "steps were lost or made again"
        assert trainer.finish(second) == {second: 0}
        third = trainer.start()
        trainer.await_steps(2)
        time.sleep(random.uniform(0, 1.0))
        trainer.processes[third].kill()
        trainer.await_steps(1)
        (trainer.out / "enough").touch()
        assert trainer.finish(first) == {first: 0}, trainer.errors()
        steps = trainer.steps()
        alone = losses_alone(script, tmp_path / "alone", max(step for step, _, _ in steps))
        assert {step: loss for step, _, loss in steps} == pytest.approx(alone, rel=1e-3)
    finally:
        trainer.end()


def test_accelerates_example_grows_and_survives_a_loss_with_a_few_changed_lines(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    script = "frameworks/nlp.py"
    assert len(re.findall("# (?:added|changed)$", (SCRIPTS / script).read_text(), re.MULTILINE)) <= 8
    trained = {}
    with workers(tmp_path, script, EPOCHS="40") as trainer:
        trainer.pace(slow=True)
        trainer.start(1)
        trainer.await_world(1)
        trainer.start(1)
        trainer.await_world(2)
        trainer.kill("w1")
        trainer.await_world(1)
        trainer.pace(slow=False)
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
        trained["changing"] = torch.load(trainer.out / "trained.pt")
        assert re.fullmatch(r"(epoch \d+: [\d.]+\n)+", trainer.processes["w0"].stdout)
    (tmp_path / "fixed").mkdir()
    with workers(tmp_path / "fixed", script, EPOCHS="40") as trainer:
        trainer.start(1)
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
        trained["fixed"] = torch.load(trainer.out / "trained.pt")
    for name, values in trained["fixed"].items():
        if "key.bias" not in name:  # attention is the same with any: its gradients are rounding alone
            torch.testing.assert_close(trained["changing"][name], values, rtol=1e-3, atol=1e-3)
