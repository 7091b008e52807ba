from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from freetrain.elastic.script.updates import Schedules
from freetrain.errors import InputError
from tests.elastic.harness import workers

SENTENCES = {
    "rate": "this worker differs from the others: its learning rates in step 4 are",
    "values": "this worker differs from the others: its parameters differ before step",
}


@pytest.mark.parametrize("mistake", SENTENCES)
def test_a_rank_that_goes_a_way_of_its_own_is_told_and_ends_alone(tmp_path: Path, mistake: str) -> None:
    with workers(tmp_path, "diverging.py", MISTAKE=mistake, FREETRAIN_MIN_MEMBERS="2") as trainer:
        trainer.start(2)
        ended = trainer.finish()
        assert sorted(ended.values()) == [0, 1]
        (odd,) = (name for name, status in ended.items() if status == 1)
        assert SENTENCES[mistake] in trainer.error_of(odd)
        assert "Traceback" not in trainer.error_of(odd)
        kept = [int(path.stem.partition("-")[2]) for path in (trainer.root / "checkpoints").glob("step-*")]
        assert len(kept) == 2, "after the difference, and at the end"


def test_a_schedule_that_is_not_carried_along_is_told(tmp_path: Path) -> None:
    with workers(tmp_path, "diverging.py", MISTAKE="schedule") as trainer:
        trainer.start(1)
        assert trainer.finish() == {"w0": 1}
        assert "the optimizer has a learning rate schedule that is not in also={...}" in trainer.error_of("w0")
        assert "Traceback" not in trainer.error_of("w0")


def optimizer_and_schedule() -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 10)


class Bundle:
    """What a script may carry its schedules in."""

    def __init__(self, *schedules: Any) -> None:
        self.schedules = {"all": list(schedules)}


def test_an_optimizer_needs_nothing_until_it_has_a_schedule() -> None:
    optimizer = torch.optim.SGD([torch.zeros(2)], 0.1)
    schedules = Schedules(optimizer, {})
    schedules.check()
    torch.optim.lr_scheduler.StepLR(optimizer, 10)
    with pytest.raises(InputError, match=r"not in also=\{"):
        schedules.check()


@pytest.mark.parametrize("wrapped", [lambda schedule: schedule, Bundle])
def test_a_schedule_is_found_wherever_it_is_carried(wrapped: Any) -> None:
    optimizer, schedule = optimizer_and_schedule()
    also: dict[str, Any] = {"average": Bundle()}
    schedules = Schedules(optimizer, also)
    with pytest.raises(InputError, match=r"not in also=\{"):
        schedules.check()
    also["schedule"] = wrapped(schedule)
    schedules.check()


def test_the_schedule_of_another_optimizer_does_not_count() -> None:
    optimizer, _ = optimizer_and_schedule()
    _, other = optimizer_and_schedule()
    with pytest.raises(InputError, match=r"not in also=\{"):
        Schedules(optimizer, {"schedule": other}).check()
