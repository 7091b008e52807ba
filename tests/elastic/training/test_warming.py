"""A newcomer's first update is made before others wait for it, and leaves nothing behind."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from freetrain.elastic.data.sampler import Sampler
from freetrain.elastic.training.optimizers import Optimizers
from freetrain.elastic.training.state import TrainingState
from freetrain.elastic.training.warming import warm_up


class Training:
    """A model whose every parameter has an optimizer that counts its steps."""

    def __init__(self, kind: Any, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        self.model[1].bias.requires_grad_(False)
        self.optimizers = [kind(part.parameters(), lr=0.1, **options) for part in self.model]
        self.state = TrainingState(self.model, Optimizers(self.optimizers), Sampler(8, 1), {})
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
    training = Training(kind, **options)
    parameters = [each.detach().clone() for each in training.model.parameters()]
    groups = copy.deepcopy([each.state_dict()["param_groups"] for each in training.optimizers])
    warm_up(training.state)
    assert training.steps == 2
    for before, after in zip(parameters, training.model.parameters(), strict=True):
        assert torch.equal(before, after)
        assert after.grad is None
    for optimizer, group in zip(training.optimizers, groups, strict=True):
        assert optimizer.state_dict() == {"state": {}, "param_groups": group}


def test_what_an_optimizer_knows_already_stays_as_it_is() -> None:
    training = Training(torch.optim.Adagrad)
    before = copy.deepcopy(training.state.optimizer.state_dict())
    warm_up(training.state)
    assert training.steps == 0
    assert str(training.state.optimizer.state_dict()) == str(before)


def test_what_the_script_has_done_with_gradients_already_stays_as_it_is() -> None:
    training = Training(torch.optim.SGD)
    for each in training.model.parameters():
        each.grad = torch.ones_like(each)
    warm_up(training.state)
    assert training.steps == 0
    assert all(torch.equal(each.grad, torch.ones_like(each)) for each in training.model.parameters())


def test_optimizers_whose_steps_may_do_other_things_are_left_alone() -> None:
    training = Training(torch.optim.SGD)
    training.optimizers[0].register_step_pre_hook(lambda *_: None)
    warm_up(training.state)
    assert training.steps == 0
