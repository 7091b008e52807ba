"""Learning rates that follow the batch: what one large step is worth in steps of the tuned size."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from freetrain.elastic.script.adascale import AdaScale, Noise, gain, noise_in
from freetrain.errors import InputError
from tests.elastic.harness import workers

AT_BATCH = 4
TRUTH = torch.linspace(-1, 1, 8)


class Regression:
    """Noisy samples of a line, drawn again for each step, and one process that plays all ranks."""

    def __init__(self, kind: Callable[..., torch.optim.Optimizer], rate: float, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.weights = torch.nn.Parameter(torch.zeros(8))
        self.optimizer = kind([self.weights], lr=rate)

    def gradient(self, samples: int) -> torch.Tensor:
        inputs = torch.randn(samples, 8)
        targets = inputs @ TRUTH + 2.0 * torch.randn(samples)
        (gradient,) = torch.autograd.grad((inputs @ self.weights - targets).square().mean() / 2, self.weights)
        return gradient

    @property
    def error(self) -> float:
        return float((self.weights.detach() - TRUTH).square().sum())

    def train(self, steps: int) -> float:
        """With the tuned batch; the mean error of the last tenth of the steps."""
        errors = []
        for _ in range(steps):
            self.weights.grad = self.gradient(AT_BATCH)
            self.optimizer.step()
            errors.append(self.error)
        return statistics.fmean(errors[-steps // 10 :])

    def train_scaled(self, ranks: int, steps: int) -> tuple[float, int]:
        """With as many samples on each rank, to the same progress; the error, and how many steps that took."""
        scaling, errors = AdaScale(self.optimizer, AT_BATCH), []
        while scaling.progress < steps:
            mine = [self.gradient(AT_BATCH) for _ in range(ranks)]
            local = sum(float(scaling.squared_norm([(self.weights, gradient)])) for gradient in mine) / ranks
            self.weights.grad = torch.stack(mine).mean(0)
            scaling.observe(local, ranks * AT_BATCH, ranks)
            self.optimizer.step()
            errors.append(self.error)
        return statistics.fmean(errors[-len(errors) // 10 :]), len(errors)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "rate", "steps"), [(torch.optim.SGD, 0.01, 600), (torch.optim.Adam, 0.01, 1000)])
def test_a_training_with_larger_batches_comes_as_far_in_fewer_steps(
    kind: Callable[..., torch.optim.Optimizer], rate: float, steps: int
) -> None:
    fixed = statistics.fmean(Regression(kind, rate, seed).train(steps) for seed in range(3))
    found = [Regression(kind, rate, seed).train_scaled(8, steps) for seed in range(3, 6)]
    assert fixed < 0.05 * float(TRUTH.square().sum())
    assert statistics.fmean(error for error, _ in found) < 1.2 * fixed
    assert max(made for _, made in found) < 0.25 * steps


def test_without_noise_a_larger_batch_is_worth_one_step_and_with_nothing_else_as_many_as_it_is_large() -> None:
    assert gain(Noise(squared=1.0, variance=0.0), 8.0) == pytest.approx(1.0, abs=1e-5)
    assert gain(Noise(squared=0.0, variance=1.0), 8.0) == pytest.approx(8.0)
    assert gain(Noise(squared=1.0, variance=1.0), 4.0) == pytest.approx(2.0 / 1.25)


@pytest.mark.parametrize("shares", [(16, 16), (4, 8, 20)])
def test_estimates_have_no_bias_whatever_the_shares(shares: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    mean, deviation, at_batch, samples = 0.5, 3.0, 4, sum(shares)
    found = []
    for _ in range(4000):
        mine = [(mean + deviation * torch.randn(count, 6, dtype=torch.float64)).mean(0) for count in shares]
        weights = [count / samples for count in shares]
        local = sum(
            weight * float(gradient.square().sum()) for weight, gradient in zip(weights, mine, strict=True)
        )
        total = float(
            sum(weight * gradient for weight, gradient in zip(weights, mine, strict=True)).square().sum()
        )
        found.append(noise_in(local, total, len(shares), samples / at_batch))
    assert statistics.fmean(one.squared for one in found) == pytest.approx(6 * mean**2, rel=0.1)
    assert statistics.fmean(one.variance for one in found) == pytest.approx(6 * deviation**2 / at_batch, rel=0.1)


def test_one_rank_alone_tells_nothing_and_takes_no_larger_steps() -> None:
    training = Regression(torch.optim.SGD, 0.1)
    scaling = AdaScale(training.optimizer, AT_BATCH)
    training.weights.grad = training.gradient(4 * AT_BATCH)
    scaling.observe(1.0, 4 * AT_BATCH, 1)
    assert scaling.gain == 1.0


def test_the_scripts_own_learning_rates_come_back_after_each_step() -> None:
    training = Regression(torch.optim.SGD, 0.02)
    training.train_scaled(8, 20)
    assert training.optimizer.param_groups[0]["lr"] == 0.02


def test_an_optimizer_that_it_does_not_know_is_named() -> None:
    with pytest.raises(InputError, match="not Rprop"):
        AdaScale(torch.optim.Rprop([torch.nn.Parameter(torch.zeros(1))]), AT_BATCH)


@pytest.mark.slow
def test_ranks_come_and_go_and_all_have_the_same_gain_and_progress(tmp_path: Path) -> None:
    with workers(tmp_path, "scaling.py") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        trainer.start(1)
        trainer.await_world(3)
        trainer.kill(trainer.ranks()[-1])
        trainer.await_world(2)
        (trainer.out / "done").touch()
        assert set(trainer.finish().values()) <= {0, -9}, trainer.errors()
        found: dict[int, tuple[float, float]] = {}
        for record in trainer.records():
            known = (record["gain"], record["progress"])
            assert found.setdefault(record["step"], known) == known, f"step {record['step']}"
        gains = {record["world"]: record["gain"] for record in trainer.records()}
    assert 1.0 < gains[2] < 2.0
    assert 1.0 < gains[3] < 3.0
