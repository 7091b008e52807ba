from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.feeding.newcomer import FROM_VARIABLE, prewarm, wants_to_be_fed, why_not_fed
from freetrain.elastic.training.state import TrainingState
from freetrain.errors import InputError


class Meddling(torch.optim.SGD):
    """May look at all parameters in a step."""


def training(kind: Any = torch.optim.AdamW, parameters: int = 8) -> TrainingState:
    model = torch.nn.Linear(parameters, 1, bias=False)
    return TrainingState(model, [kind(model.parameters(), lr=0.1)], Sampler(8, 1), {})


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop])
def test_updates_of_one_parameter_alone_can_be_followed(kind: Any) -> None:
    assert why_not_fed(training(kind)) is None


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, Meddling])
def test_an_optimizer_that_is_not_known_to_do_so_cannot(kind: Any) -> None:
    assert kind.__name__ in (why_not_fed(training(kind)) or "")


def test_nor_can_what_hooks_of_the_optimizer_do() -> None:
    state = training()
    state.optimizers[0].register_step_pre_hook(lambda *_: None)
    assert why_not_fed(state) == "the optimizer has hooks"


def test_nor_can_a_parameter_that_two_optimizers_change() -> None:
    model = torch.nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD([model.bias], 0.1)]
    assert (
        why_not_fed(TrainingState(model, optimizers, Sampler(8, 1), {})) == "some parameters have two optimizers"
    )
    optimizers[0].param_groups[0]["params"].pop()
    assert why_not_fed(TrainingState(model, optimizers, Sampler(8, 1), {})) is None


@pytest.mark.parametrize(("parameters", "is_fed"), [(3_900_000, False), (4_100_000, True)])
def test_a_small_model_is_not_worth_it(parameters: int, is_fed: bool) -> None:
    assert wants_to_be_fed(training(parameters=parameters)) is is_fed


def test_how_large_it_has_to_be_is_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FROM_VARIABLE, "0")
    assert wants_to_be_fed(training())
    monkeypatch.setenv(FROM_VARIABLE, "1e9")
    assert not wants_to_be_fed(training(parameters=4_100_000))


@pytest.mark.parametrize("text", ["-1", "nan", "much"])
def test_a_size_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(FROM_VARIABLE, text)
    with pytest.raises(
        InputError, match=f"{FROM_VARIABLE}={text} in the environment is not a number of megabytes"
    ):
        wants_to_be_fed(training())


def test_the_reason_is_said_where_it_matters(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert not wants_to_be_fed(training(Meddling))
    assert not caplog.records
    monkeypatch.setenv(FROM_VARIABLE, "0")
    assert not wants_to_be_fed(training(Meddling))
    assert "Meddling is not known to update each parameter by its own gradient alone" in caplog.text


class ElasticTraining:
    """A model whose every parameter has an optimizer that counts its steps."""

    def __init__(self, kind: Any, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        self.model[1].bias.requires_grad_(False)
        self.optimizers = [kind(part.parameters(), lr=0.1, **options) for part in self.model]
        self.state = TrainingState(self.model, self.optimizers, Sampler(8, 1), {})
        self.steps = 0
        for optimizer in self.optimizers:
            step = optimizer.step
            optimizer.step = lambda step=step: self._count(step)

    def _count(self, step: Any) -> None:
        self.steps += 1
        step()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        (torch.optim.AdamW, {"weight_decay": 0.1, "amsgrad": True}),
        (torch.optim.NAdam, {"weight_decay": 0.1}),
        (torch.optim.RAdam, {}),
        (torch.optim.Adamax, {}),
        (torch.optim.Adadelta, {"weight_decay": 0.1}),
        (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}),
        (torch.optim.Rprop, {}),
        (torch.optim.ASGD, {"weight_decay": 0.1}),
    ],
)
def test_each_optimizer_steps_once_and_forgets_it(kind: Any, options: dict[str, Any]) -> None:
    training = ElasticTraining(kind, **options)
    parameters = [parameter.detach().clone() for parameter in training.model.parameters()]
    groups = copy.deepcopy([optimizer.state_dict()["param_groups"] for optimizer in training.optimizers])
    prewarm(training.state)
    assert training.steps == 2
    for before, after in zip(parameters, training.model.parameters(), strict=True):
        assert torch.equal(before, after)
        assert after.grad is None
    for optimizer, group in zip(training.optimizers, groups, strict=True):
        assert optimizer.state_dict() == {"state": {}, "param_groups": group}


def test_what_an_optimizer_knows_already_stays_as_it_is() -> None:
    training = ElasticTraining(torch.optim.Adagrad)
    before = copy.deepcopy(training.state.capture()["optimizer"])
    prewarm(training.state)
    assert training.steps == 0
    assert str(training.state.capture()["optimizer"]) == str(before)


def test_what_the_script_has_done_with_gradients_already_stays_as_it_is() -> None:
    training = ElasticTraining(torch.optim.SGD)
    for parameter in training.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    prewarm(training.state)
    assert training.steps == 0
    gradients = [parameter.grad for parameter in training.model.parameters()]
    assert all(torch.equal(gradient, torch.ones_like(gradient)) for gradient in gradients)


def test_optimizers_whose_steps_may_do_other_things_are_left_alone() -> None:
    training = ElasticTraining(torch.optim.SGD)
    training.optimizers[0].register_step_pre_hook(lambda *_: None)
    prewarm(training.state)
    assert training.steps == 0
