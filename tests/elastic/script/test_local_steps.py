"""Ranks that make steps by themselves come to what the definitions say, and near what summed gradients do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from freetrain.elastic.data.batching import Sampler, share_of
from freetrain.elastic.script.local_steps import LocalSteps
from freetrain.errors import InputError
from tests.elastic.harness import Workers, workers
from tests.elastic.scripts.local import EPOCHS, ROUNDS_PER_EPOCH, SAMPLES, Trained, batches_of, in_rounds


def simulated(optimizer: str, ranks_of_round: list[int], **outer: float) -> torch.nn.Module:
    epochs = len(ranks_of_round) // ROUNDS_PER_EPOCH
    return in_rounds(optimizer, ranks_of_round, share_of, Sampler(SAMPLES, epochs), **outer)


def assert_same_model(trainer: Workers, name: str, expected: torch.nn.Module) -> None:
    found = torch.load(trainer.out / f"model-{name}.pt")
    for key, value in expected.state_dict().items():
        assert torch.allclose(found[key], value, atol=1e-5), f"{key} of {name}"


def test_rounds_of_two_ranks_end_where_the_definition_says(tmp_path: Path) -> None:
    with workers(tmp_path, "local.py", OPTIMIZER="adamw") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        assert trainer.finish() == {"w0": 0, "w1": 0}, trainer.errors()
        expected = simulated("adamw", [2] * EPOCHS * ROUNDS_PER_EPOCH)
        for name in ("w0", "w1"):
            assert_same_model(trainer, name, expected)
            facts = json.loads((trainer.out / f"facts-{name}.json").read_text())
            assert facts == {"step": EPOCHS * ROUNDS_PER_EPOCH, "world": 2}


def test_a_round_in_which_a_rank_is_lost_is_made_again(tmp_path: Path) -> None:
    with workers(tmp_path, "local.py", OPTIMIZER="sgd", DIES="w1") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        assert trainer.finish() == {"w0": 0, "w1": -9}, trainer.errors()
        assert_same_model(
            trainer, "w0", simulated("sgd", [2] * ROUNDS_PER_EPOCH + [1] * (EPOCHS - 1) * ROUNDS_PER_EPOCH)
        )


@pytest.mark.parametrize(
    ("outer", "at_most"),
    [({}, 1.6), ({"outer_rate": 1.0, "outer_momentum": 0.0}, 1.1)],
    ids=["DiLoCo", "local SGD"],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_training_in_rounds_converges_as_one_whose_gradients_are_summed(
    ranks: int, outer: dict[str, float], at_most: float
) -> None:
    """After as many samples; with momentum, and the small batches that ranks then have, not as evenly."""
    epochs, alone, rounds = 40, Trained("sgd"), Trained("sgd")
    sampler = Sampler(SAMPLES, epochs)
    while not sampler.finished:
        for ids in batches_of(sampler):
            alone.step(ids)
    rounds.model.load_state_dict(simulated("sgd", [ranks] * epochs * ROUNDS_PER_EPOCH, **outer).state_dict())
    loss_before, loss_alone, loss_rounds = (
        trained.loss(range(SAMPLES)).item() for trained in (Trained("sgd"), alone, rounds)
    )
    assert loss_alone < 0.02 * loss_before
    assert loss_rounds < at_most * loss_alone


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"steps": 2, "outer_rate": 0.0}, {"steps": 2, "outer_momentum": 1.0}]
)
def test_options_that_make_no_rounds_are_named(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="makes no rounds"):
        LocalSteps(**options)  # type: ignore[arg-type]
