from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from freetrain.elastic.errors import BrokenDeviceError
from freetrain.elastic.worlds import device
from freetrain.elastic.worlds.device import DeviceFault, fault_of
from tests.elastic.harness import workers

CPU = torch.device("cpu")


def test_who_has_a_device_that_does_not_compute_does_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "fault_of", lambda device: DeviceFault("computes wrongly"))
    with pytest.raises(BrokenDeviceError, match=r"this worker does not join: cuda:1 of .* computes wrongly"):
        device.check_device(torch.device("cuda", 1))


def test_the_computers_own_processors_are_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "product_and_copies", None)
    device.check_device(torch.device("cpu"))


def test_a_device_that_computes_has_no_fault() -> None:
    assert fault_of(CPU) is None


def test_a_wrong_product_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: self + 1)
    assert fault_of(CPU) == DeviceFault("computes a product of small numbers wrongly")


def test_so_is_an_error_of_its_driver() -> None:
    def fails(device: torch.device) -> str | None:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nand much besides")

    assert fault_of(CPU, fails) == DeviceFault("fails: CUDA error: uncorrectable ECC error encountered")


def test_so_is_a_call_that_does_not_come_back() -> None:
    ended = threading.Event()
    try:
        fault = fault_of(CPU, lambda device: str(ended.wait()), patience_s=0.05)
    finally:
        ended.set()
    assert fault == DeviceFault("has not come to the end of a small product within 0.05 s", is_hung=True)


def test_nothing_of_a_world_stays_when_it_has_been_left(tmp_path: Path) -> None:
    with workers(tmp_path, "leftovers.py") as trainer:
        trainer.start(2, FREETRAIN_MIN_MEMBERS="2")
        trainer.await_world(2)
        trainer.start(2)
        trainer.await_world(4)
        trainer.leave("w3")
        trainer.await_world(3)
        trainer.kill("w2")
        trainer.await_world(2)
        trainer.kill("w1")
        trainer.await_world(1)
        (trainer.out / "done").touch()
        assert trainer.finish("w0") == {"w0": 0}, trainer.errors()
        left = [{kind: record[kind] for kind in ("worlds", "collectives")} for record in trainer.records()]
        assert all(counts == {"worlds": 1, "collectives": 1} for counts in left), left[-1]


class Libc:
    def __init__(self) -> None:
        self.trimmed = threading.Event()
        self.chosen: dict[int, int] = {}

    def mallopt(self, parameter: int, value: int) -> int:
        self.chosen[parameter] = value
        return 1

    def malloc_trim(self, pad: int) -> None:
        assert pad == 0
        self.trimmed.set()


@pytest.fixture(autouse=True)
def _forget_the_library():
    device._of_libc.cache_clear()
    yield
    device._of_libc.cache_clear()


def test_an_allocator_that_can_gives_free_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Libc()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc)
    device.give_back_memory()
    assert libc.trimmed.wait(120)


class OtherLibc:
    def __init__(self) -> None:
        self.asked_for: list[str] = []

    def __getattr__(self, name: str) -> None:
        self.asked_for.append(name)
        raise AttributeError(name)


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = OtherLibc()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc)
    monkeypatch.delattr(threading, "Thread")
    device.keep_memory()
    device.give_back_memory()
    assert libc.asked_for == ["mallopt", "malloc_trim"]


@pytest.mark.parametrize("name", ["GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_"])
def test_what_the_user_has_chosen_for_the_allocator_holds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    libc = Libc()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc)
    monkeypatch.setenv(name, "1")
    device.keep_memory()
    assert not libc.chosen
    monkeypatch.delenv(name)
    device.keep_memory()
    assert libc.chosen


UPDATES = """
import resource, torch
from freetrain.elastic.worlds.device import keep_memory
keep_memory()
parameters = [torch.ones(1024, 1024, requires_grad=True) for _ in range(8)]
optimizer = torch.optim.Adam(parameters)
faults = []
for _ in range(16):
    for each in parameters:
        each.grad = torch.ones_like(each)
    optimizer.step()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(min(after - before for before, after in zip(faults, faults[1:])))
"""
"""Until glibc's blocks lie so that all fit into what was freed, it gets a few again in some updates."""


def fewest_new_pages(**chosen: str) -> int:
    """Of an update, with these of glibc's settings in the environment."""
    others = {name: value for name, value in os.environ.items() if name not in device.CHOSEN_BY}
    program = [sys.executable, "-c", UPDATES]
    return int(subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True, env=others | chosen).stdout)


@pytest.mark.soak
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_updates_go_on_in_the_memory_that_earlier_ones_freed_unless_the_user_has_chosen_otherwise() -> None:
    """Left to itself glibc does either, by what happens to lie where."""
    temporary_pages = 8 * 4 * 1024 * 1024 // mmap.PAGESIZE
    assert fewest_new_pages() < temporary_pages / 10
    assert fewest_new_pages(MALLOC_MMAP_THRESHOLD_="65536") > temporary_pages / 2


def test_pages_of_a_tensor_are_given_back_and_none_of_its_neighbours() -> None:
    whole = torch.ones(1 << 20)
    device.give_back_pages(whole[1000:500_000])
    assert whole[:1000].min() == 1 == whole[500_000:].min()
    page_floats = mmap.PAGESIZE // 4
    assert whole[1000 + page_floats : 500_000 - page_floats].max() == 0


def test_a_tensor_that_has_no_pages_of_its_own_stays() -> None:
    small, strided = torch.ones(10), torch.ones(1000, 1000).T
    device.give_back_pages(small)
    device.give_back_pages(strided)
    assert small.min() == 1 == strided.min()
