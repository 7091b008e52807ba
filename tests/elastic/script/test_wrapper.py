from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from freetrain.elastic.script.wrapper import _UNSYNCED, Wrapper
from freetrain.elastic.training.buckets import Buckets
from freetrain.elastic.worlds.ddp_group import DdpGroup

pytestmark = pytest.mark.skipif(not _UNSYNCED, reason="this torch exchanges the state whenever it wraps a model")

SMALL = {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01}
"""Buckets of some parameters each."""


class Crossed(nn.Module):
    """Its gradients do not come in the order of its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(40, 40) for _ in range(6))
        self.unused = nn.Parameter(torch.zeros(3), requires_grad=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for place in (3, 0, 5, 1, 4, 2):
            values = self.layers[place](values)
        return values


def wrapper_of(module: nn.Module, made_in: int = 0, **options: Any) -> Wrapper:
    return Wrapper(module, DdpGroup(None), made_in, {**SMALL, **options}, own_gradients)


def own_gradients(bucket: torch.distributed.GradBucket) -> Any:
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def make_passes(wrapper: Wrapper, count: int) -> Wrapper:
    for _ in range(count):
        wrapper.ddp(torch.ones(2, 40)).sum().backward()
    return wrapper


@pytest.fixture
def others() -> Buckets:
    buckets = make_passes(wrapper_of(Crossed(), 7), 2).buckets
    assert buckets is not None
    return buckets


def test_buckets_last_from_the_second_pass_on(others: Buckets) -> None:
    assert make_passes(wrapper_of(Crossed()), 1).buckets is None
    assert others.made_in == 7
    assert len(others.places) == 3
    assert set(others.places[0][:2]) == {5, 6}, "the layer that comes last"
    assert make_passes(wrapper_of(Crossed(), 7), 5).buckets == others


def test_who_rehearses_has_the_buckets_of_the_others_and_keeps_them(others: Buckets) -> None:
    model = Crossed()
    before = [each.detach().clone() for each in model.parameters()]
    wrapper = wrapper_of(model)
    assert wrapper.rehearse(others)
    assert wrapper.buckets == others
    assert all(each.grad is None for each in model.parameters())
    assert all(map(torch.equal, before, model.parameters()))
    assert make_passes(wrapper, 3).buckets == others


def test_gradients_of_the_first_pass_after_a_rehearsal_are_those_of_the_model(others: Buckets) -> None:
    model = Crossed()
    wrapper = wrapper_of(model)
    assert wrapper.rehearse(others)
    make_passes(wrapper, 1)
    wrapped = [each.grad.clone() for each in model.layers.parameters() if each.grad is not None]
    model.zero_grad()
    model(torch.ones(2, 40)).sum().backward()
    alone = [each.grad for each in model.layers.parameters() if each.grad is not None]
    assert len(alone) == len(wrapped) == 12
    assert all(map(torch.equal, wrapped, alone))


def test_a_pass_that_was_left_puts_the_buckets_in_doubt(others: Buckets) -> None:
    wrapper = make_passes(wrapper_of(Crossed(), 7), 2)
    wrapper.doubt()
    assert wrapper.buckets is None
    assert make_passes(wrapper, 2).buckets == others


@pytest.mark.parametrize("option", ["find_unused_parameters", "static_graph"])
def test_buckets_that_depend_on_the_scripts_passes_are_not_rehearsed(others: Buckets, option: str) -> None:
    wrapper = wrapper_of(Crossed(), **{option: True})
    assert not wrapper.rehearse(others)
    assert make_passes(wrapper, 3).buckets is None


@pytest.mark.parametrize(
    "add", [lambda each, hook: each.register_hook(hook), lambda each, hook: _after_each(each, hook)]
)
def test_hooks_of_the_script_hear_nothing_of_a_rehearsal(
    others: Buckets, add: Callable[[torch.Tensor, Callable[..., None]], object]
) -> None:
    model, heard = Crossed(), []
    add(model.layers[0].weight, heard.append)
    assert not wrapper_of(model).rehearse(others)
    assert not heard


def _after_each(parameter: torch.Tensor, hook: Callable[..., None]) -> object:
    return parameter.register_post_accumulate_grad_hook(hook)


def test_buckets_of_another_model_are_refused(others: Buckets) -> None:
    assert not wrapper_of(nn.Linear(40, 40)).rehearse(others)
    assert not wrapper_of(Crossed(), bucket_cap_mb=25).rehearse(others), "it comes to one bucket"
