"""A worker whose device does not compute says so before it joins."""

from __future__ import annotations

import pytest
import torch

from freetrain.elastic.errors import BrokenDeviceError
from freetrain.elastic.training import device_check
from freetrain.elastic.worlds import health
from freetrain.elastic.worlds.health import Fault


def test_who_has_a_device_that_does_not_compute_does_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "fault_of", lambda device: Fault("computes wrongly"))
    with pytest.raises(BrokenDeviceError, match=r"this worker does not join: cuda:1 of .* computes wrongly"):
        device_check.check_device(torch.device("cuda", 1))


def test_the_computers_own_processors_are_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "product_and_copies", None)
    device_check.check_device(torch.device("cpu"))
