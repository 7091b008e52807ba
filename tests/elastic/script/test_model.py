from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from freetrain.elastic.script.model import ElasticModel
from freetrain.elastic.worlds.world import World
from freetrain.errors import InputError


class Alone:
    """A world of one, which notes what is broadcast."""

    def __init__(self) -> None:
        self.broadcasts: list[int] = []

    def ddp_group(self) -> Any:
        return torch.distributed.distributed_c10d._get_default_group()

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
