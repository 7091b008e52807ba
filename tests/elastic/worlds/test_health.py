"""What is wrong with a device that does not compute."""

from __future__ import annotations

import threading

import pytest
import torch

from freetrain.elastic.worlds.health import Fault, fault_of

CPU = torch.device("cpu")


def test_a_device_that_computes_has_no_fault() -> None:
    assert fault_of(CPU) is None


def test_a_wrong_product_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: self + 1)
    assert fault_of(CPU) == Fault("computes a product of small numbers wrongly")


def test_so_is_an_error_of_its_driver() -> None:
    def fails(device: torch.device) -> str | None:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nand much besides")

    assert fault_of(CPU, fails) == Fault("fails: CUDA error: uncorrectable ECC error encountered")


def test_so_is_a_call_that_does_not_come_back() -> None:
    ended = threading.Event()
    try:
        fault = fault_of(CPU, lambda device: str(ended.wait()), patience_s=0.05)
    finally:
        ended.set()
    assert fault == Fault("has not come to the end of a small product within 0.05 s", is_hung=True)
