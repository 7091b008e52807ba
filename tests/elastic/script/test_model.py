from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.model import ElasticModel
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.ddp_group import DdpGroup
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


class Alone:
    """A world of one, which notes what is broadcast, and whose sums come or fail at once."""

    def __init__(self, number: int = 1) -> None:
        self.broadcasts: list[int] = []
        self.generation = SimpleNamespace(number=number)
        self.ended = False
        self.fails = False
        self.collectives = Collectives()

    def ddp_group(self, kept: DdpGroup | None) -> DdpGroup:
        if kept is not None:
            kept.go_on_in(self.collectives)
        return kept or DdpGroup(self.collectives)

    def promise_sum(self, tensor: torch.Tensor, on_loss: Callable[[BaseException], object]) -> Any:
        if self.fails:
            on_loss(LostRankError("gone"))
        done: Any = torch.futures.Future()
        done.set_result(tensor)
        return done

    def broke(self, error: RuntimeError) -> bool:
        return isinstance(error, LostRankError)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        self.broadcasts.append(tensor.numel())


@pytest.fixture
def world():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield Alone()
    torch.distributed.destroy_process_group()


def entered(world: Alone, **options: Any) -> ElasticModel:
    model = ElasticModel(torch.nn.BatchNorm1d(3), **options)
    model.enter(cast(World, world))
    return model


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        ({}, True),
        ({"broadcast_buffers": True}, True),
        ({"broadcast_buffers": False}, False),
        ({"forward_sync_buffers": False}, False),
        ({"gradient_as_bucket_view": False, "find_unused_parameters": True}, True),
    ],
)
def test_ddp_options_say_whether_buffers_are_shared(world: Alone, options: dict[str, Any], shared: bool) -> None:
    model = entered(world, **options)
    model.sync_buffers()
    assert bool(world.broadcasts) is shared
    model.leave()


@pytest.mark.parametrize("name", ["process_group", "init_sync"])
def test_what_the_runtime_gives_itself_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"ddp_options: {name} is the runtime's own to give"):
        ElasticModel(torch.nn.Linear(1, 1), **{name: None})


def stepped(world: Alone, passes: int, **options: Any) -> ElasticModel:
    model = entered(world, **options)
    for _ in range(passes):
        make_pass(model)
    return model


def make_pass(model: ElasticModel) -> None:
    model(torch.ones(4, 3)).sum().backward()


def left(model: ElasticModel, world: Alone, *, well: bool = True) -> ElasticModel:
    model.leave()
    world.ended = well
    return model


def test_who_has_its_last_buckets_can_go_on_with_them_in_the_next_world(world: Alone) -> None:
    model = left(stepped(world, 2), world)
    assert model.wrapped_in == 1
    before = model._wrapper
    make_pass(model)  # without a world: through the model itself
    following = Alone(2)
    model.enter(cast(World, following))
    make_pass(model)
    assert model._wrapper is before is not None
    assert left(model, following).wrapped_in == 1, "the wrapper is still that of the first world"


@pytest.mark.parametrize("passes", [0, 1])
def test_buckets_that_ddp_is_yet_to_make_anew_are_not_kept(world: Alone, passes: int) -> None:
    assert left(stepped(world, passes), world).wrapped_in == 0


def test_buckets_into_which_a_world_may_still_write_are_not_kept(world: Alone) -> None:
    model = stepped(world, 2)
    world.fails = True
    make_pass(model)
    assert left(model, world, well=False).wrapped_in == 0


def test_a_wrapper_whose_sums_failed_goes_on_once_they_have_ended(world: Alone) -> None:
    model = stepped(world, 2)
    world.fails = True
    make_pass(model)
    assert isinstance(model.lost, LostRankError)
    assert left(model, world).wrapped_in == 1
    model.enter(cast(World, Alone(2)))
    model.module.zero_grad()
    make_pass(model)
    assert model.module.bias.grad.tolist() == [4.0, 4.0, 4.0]


def test_a_wrapper_that_an_error_has_left_is_not_kept(world: Alone) -> None:
    model = stepped(world, 2)
    assert model.takes_for_loss(LostRankError("gone"))
    assert left(model, world).wrapped_in == 0


def test_a_wrapper_that_not_all_have_is_dropped_with_its_memory(world: Alone) -> None:
    model = left(stepped(world, 2), world)
    before = model._wrapper
    model.unwrap()
    assert model.wrapped_in == 0
    assert model._wrapper is None
    model.enter(cast(World, Alone(2)))
    assert model._wrapper is not before
    assert left(model, world).wrapped_in == 0, "a new wrapper has not its last buckets yet"


def test_a_world_that_does_not_come_about_changes_nothing(world: Alone) -> None:
    model = left(stepped(world, 2), world)
    model.leave()
    assert model.wrapped_in == 1
