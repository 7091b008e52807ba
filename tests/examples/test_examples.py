"""The examples of the docs learn what they should, while the world changes under them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.progress import read_progress

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CLI = [sys.executable, "-m", "freetrain"]
PATIENCE_S = 150.0

pytestmark = pytest.mark.slow


def train(example: str, trainer: Path, *arguments: str, servers: int = 0) -> str:
    """With two workers, one more that joins, and one that is killed; what it printed."""
    run = subprocess.Popen(
        [
            *CLI,
            "run",
            "--trainer",
            str(trainer),
            "--nproc",
            "2",
            "--servers",
            str(servers),
            "--",
            sys.executable,
            str(EXAMPLES / example),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        await_world(trainer, 2)
        subprocess.run([*CLI, "poke", str(trainer), "--grow", "1"], check=True, timeout=PATIENCE_S)
        await_world(trainer, 3)
        # Its first step is what counts as a change: a kill before that would be the only one.
        await_so(lambda: "join" in causes_of(trainer), "no step in a world of 3")
        subprocess.run([*CLI, "poke", str(trainer), "--kill", "1"], check=True, timeout=PATIENCE_S)
        said, _ = run.communicate(timeout=600)
        assert run.returncode == 0, said
        return said
    finally:
        run.kill()
        run.wait()


def await_world(trainer: Path, size: int) -> None:
    await_so(
        lambda: trainer.exists() and len(TrainerDirectory.open(trainer).view().current) == size,
        f"no world of {size}",
    )


def await_so(fine: Callable[[], bool], otherwise: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not fine():
        assert time.monotonic() < until_s, otherwise
        time.sleep(0.05)


def causes_of(trainer: Path) -> list[str]:
    """Why the world changed, each time."""
    path = trainer / "progress.jsonl"
    return [rescale.cause for rescale in read_progress(path).rescales] if path.exists() else []


def assert_rescaled(trainer: Path) -> None:
    assert {"join", "loss"} <= set(causes_of(trainer))


@pytest.mark.soak
def test_the_image_classifier_learns_while_the_world_changes(tmp_path: Path) -> None:
    # Longer than it takes to learn: a newcomer may take long to boot, and must find a training.
    said = train("image_classifier.py", tmp_path / "t", "14")
    final = re.search(r"accuracy (\d\.\d+) after (\d+) steps", said)
    assert final is not None, said
    assert float(final[1]) > 0.85
    assert int(final[2]) == 1400
    assert_rescaled(tmp_path / "t")


@pytest.mark.soak
def test_the_language_model_learns_while_the_world_changes(tmp_path: Path) -> None:
    said = train("language_model.py", tmp_path / "t")
    final = re.search(r"loss (\d\.\d+) after (\d+) steps", said)
    assert final is not None, said
    # Guessing letters by their frequency alone would leave 2.9.
    assert float(final[1]) < 1.0
    assert 400 < int(final[2]) <= 2000
    assert_rescaled(tmp_path / "t")


@pytest.mark.soak
def test_the_recommender_learns_from_sums_of_a_server_while_the_world_changes(tmp_path: Path) -> None:
    said = train("recommender.py", tmp_path / "t", "20", servers=1)
    final = re.search(r"error (\d\.\d+) after (\d+) steps", said)
    assert final is not None, said
    # Guessing 0 would leave 4.
    assert float(final[1]) < 0.5
    assert int(final[2]) == 20 * 250
    assert_rescaled(tmp_path / "t")
    assert {rate.servers for rate in read_progress(tmp_path / "t" / "progress.jsonl").rates} >= {1}
