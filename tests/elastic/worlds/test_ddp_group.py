from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.wrapper import _UNSYNCED
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.ddp_group import DdpGroup


class Counted(Collectives):
    """Counts who waits, and loses a rank when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.loses = False

    def start(self, begin: Any) -> Any:
        self.seen["started"] += 1
        return super().start(begin)

    def finish(self, work: Any) -> None:
        self.seen["finished"] += 1
        if self.loses:
            raise LostRankError("gone")
        super().finish(work)


@pytest.fixture
def collectives() -> Iterator[Counted]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield Counted()
    dist.destroy_process_group()


def wrapped(collectives: Counted, **options: Any) -> DistributedDataParallel:
    model = DistributedDataParallel(
        torch.nn.Linear(2, 1), process_group=DdpGroup(collectives), **_UNSYNCED, **options
    )
    model.register_comm_hook(None, own_gradients)
    collectives.seen.clear()
    return model


def own_gradients(_, bucket):
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def step(model: DistributedDataParallel) -> None:
    model(torch.ones(3, 2)).sum().backward()


def test_the_parameters_that_nobody_used_are_waited_for_here_in_every_step(collectives: Counted) -> None:
    model = wrapped(collectives, find_unused_parameters=True)
    for number in (1, 2, 3):
        step(model)
        assert collectives.seen == {"started": number, "finished": number}
    assert model.module.weight.grad is not None
    collectives.loses = True
    with pytest.raises(LostRankError, match="gone"):
        step(model)


def test_the_order_of_the_buckets_is_waited_for_here_once(collectives: Counted) -> None:
    model = wrapped(collectives)
    step(model)
    assert not collectives.seen
    step(model)
    first = dict(collectives.seen)
    assert first["started"] == first["finished"] > 0
    step(model)
    assert collectives.seen == first


def test_a_rank_that_is_lost_meanwhile_shows_in_the_forward_pass(collectives: Counted) -> None:
    model = wrapped(collectives)
    step(model)
    collectives.loses = True
    with pytest.raises(LostRankError, match="gone"):
        step(model)


def test_a_wrapper_goes_on_with_the_collectives_of_another_world(collectives: Counted) -> None:
    group, following = DdpGroup(collectives), Counted()
    model = DistributedDataParallel(
        torch.nn.Linear(2, 1), process_group=group, find_unused_parameters=True, **_UNSYNCED
    )
    model.register_comm_hook(None, own_gradients)
    step(model)
    collectives.seen.clear()
    group.go_on_in(following)
    step(model)
    assert following.seen == {"started": 1, "finished": 1}
    assert not collectives.seen
