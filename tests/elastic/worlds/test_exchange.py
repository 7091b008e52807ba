from __future__ import annotations

import io
import zipfile
from typing import cast

import pytest
import torch

from freetrain.elastic.worlds.exchange import broadcast_tensors, decode
from freetrain.elastic.worlds.world import World

ORDERED, LAST = torch.contiguous_format, torch.channels_last


class Wire:
    """What one rank sends another, message by message; each has the size that its sender gave it."""

    def __init__(self) -> None:
        self._messages: list[torch.Tensor] = []
        self.sending = True

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        assert tensor.is_contiguous(), "what is sent is the memory as it lies"
        if self.sending:
            self._messages.append(tensor.flatten().clone())
            return
        message = self._messages.pop(0)
        assert message.numel() == tensor.numel(), "one rank sends what another does not expect"
        tensor.copy_(message.view_as(tensor))

    @property
    def is_empty(self) -> bool:
        return not self._messages


def model(layout: torch.memory_format) -> list[torch.Tensor]:
    torch.manual_seed(3)
    sizes = ((8, 3, 3, 3), (512, 256, 3, 3), (64, 64, 3, 3))
    tensors = [torch.randn(size).to(memory_format=layout) for size in sizes]
    return [*tensors, torch.randn(5), torch.zeros(0), torch.tensor(7)]


@pytest.mark.parametrize("receiving", [ORDERED, LAST])
@pytest.mark.parametrize("sending", [ORDERED, LAST])
def test_values_arrive_however_they_lie_in_memory_on_either_side(
    sending: torch.memory_format, receiving: torch.memory_format
) -> None:
    wire, sent, received = Wire(), model(sending), [torch.zeros_like(each) for each in model(receiving)]
    broadcast_tensors(sent, 0, cast(World, wire))
    wire.sending = False
    broadcast_tensors(received, 0, cast(World, wire))
    assert wire.is_empty
    assert all(torch.equal(tensor, other) for tensor, other in zip(sent, received, strict=True))
    assert received[1].is_contiguous(memory_format=receiving)


def test_values_from_another_ranks_gpu_are_read_where_there_is_no_such_gpu() -> None:
    sent = io.BytesIO()
    torch.save([torch.ones(3)], sent)
    from_gpu = io.BytesIO()
    with zipfile.ZipFile(sent) as read, zipfile.ZipFile(from_gpu, "w", zipfile.ZIP_STORED) as written:
        for name in read.namelist():
            # In the pickle the device is a string with its length before it.
            content = read.read(name).replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:7")
            written.writestr(name, content)
    assert b"cuda:7" in from_gpu.getvalue()
    (values,) = decode(from_gpu.getvalue())
    assert values.tolist() == [1.0, 1.0, 1.0]
