from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from freetrain.elastic.worlds.origin import arose_in_communication


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("Connection closed by peer")


def in_a_function_of_the_script() -> None:
    FailsBackward.apply(torch.ones(2, requires_grad=True)).sum().backward()


def in_a_hook_of_the_script() -> None:
    values = torch.ones(2, requires_grad=True) * 2
    values.register_hook(lambda gradient: gradient @ torch.ones(3, 3))
    values.sum().backward()


def in_a_module() -> None:
    torch.nn.Linear(2, 2)(torch.ones(3, 3))


def in_the_engine() -> None:
    total = (torch.ones(2, requires_grad=True) ** 2).sum()
    total.backward()
    total.backward()


def in_a_collective() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BXOR)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        (in_a_function_of_the_script, False),
        (in_a_hook_of_the_script, False),
        (in_a_module, False),
        (in_the_engine, True),
        (in_a_collective, True),
    ],
)
def test_an_error_is_told_by_its_innermost_frame(fail: Callable[[], None], expected: bool) -> None:
    with pytest.raises(RuntimeError) as raised:
        fail()
    assert arose_in_communication(raised.value) is expected
