from __future__ import annotations

import mmap
import os

import pytest
import torch

from freetrain.elastic.feeding.parts import Packet, room_for
from freetrain.elastic.worlds.exchange import decode, encode
from freetrain.errors import InputError


@pytest.fixture
def memory():
    return mmap.mmap(-1, 1 << 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_come_out_as_they_went_in(memory: mmap.mmap, dtype: torch.dtype) -> None:
    filled, read = Packet(memory), Packet(memory)
    tensors = [torch.randn(size).mul(100).to(dtype) for size in ((3, 5), (), (0,), (2, 3, 4, 5), (7,))]
    slots = [*map(filled.put, tensors[:2]), *filled.put_all(tensors[2:])]
    for tensor, slot in zip(tensors, slots, strict=True):
        assert torch.equal(read.at(slot), tensor)
        assert read.at(slot).dtype == tensor.dtype


def test_tensors_that_lie_in_another_order_come_out_in_their_logical_one(memory: mmap.mmap) -> None:
    packet = Packet(memory)
    tensor = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert torch.equal(packet.at(packet.put(tensor)), tensor)


def test_what_nobody_trains_beside_is_copied_on_more_cores_than_the_script_uses(
    memory: mmap.mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    packet, cores, threads = Packet(memory), len(os.sched_getaffinity(0)), torch.get_num_threads()
    seen: list[int] = []
    copy = packet.put
    monkeypatch.setattr(packet, "put", lambda tensor: (seen.append(torch.get_num_threads()), copy(tensor))[1])
    torch.set_num_threads(1)
    try:
        (slot,) = packet.put_all([torch.ones(3)])
        assert seen == [min(4, cores)]
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert packet.at(slot).tolist() == [1.0] * 3


def test_room_is_what_tensors_take_up(memory: mmap.mmap) -> None:
    packet = Packet(memory)
    for size in (1, 16, 17, 100):
        before = packet.room_bytes
        packet.put(torch.zeros(size))
        assert before - packet.room_bytes == room_for(torch.zeros(size))


def test_documents_hold_numbers_and_tensors_and_run_no_code() -> None:
    document = {"groups": [{"lr": 0.1, "betas": (0.9, 0.99)}], "gradients": {3: (0, [2], "torch.float32", "cpu")}}
    assert decode(encode(document)) == document
    with pytest.raises(InputError, match="holds print"):
        decode(encode({"code": print}))
