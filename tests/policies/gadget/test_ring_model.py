"""The time of a step of ring all-reduce, worked out by hand."""

from __future__ import annotations

import pytest

from freetrain.policies.gadget.ring_model import RingModel, contended

MODEL = RingModel(gradient_bytes=1e8, compute_s=0.150)


@pytest.mark.parametrize(("workers", "servers", "step_ms"), [(1, 1, 150.0), (8, 2, 166.044), (64, 16, 181.799)])
def test_a_step_takes_as_long_as_worked_out(workers: int, servers: int, step_ms: float) -> None:
    assert 1000 * MODEL.step_s(workers, servers, 12.5e9) == pytest.approx(step_ms, abs=5e-4)


def test_three_rings_on_one_link_slow_each_other_down() -> None:
    assert contended(12.5e9, 3) == pytest.approx(12.5e9 / 3.4)
    assert 1000 * MODEL.step_s(64, 16, contended(12.5e9, 3)) == pytest.approx(219.599, abs=5e-4)
    assert contended(12.5e9, 1) == 12.5e9


def test_with_the_bandwidth_it_wants_a_ring_sends_as_long_as_it_computes() -> None:
    wanted = MODEL.wanted_bytes_per_s(8)
    assert MODEL.step_s(8, 1, wanted) == pytest.approx(2 * 0.150, rel=0.01)
    assert MODEL.wanted_bytes_per_s(1) == 0


def test_each_worker_keeps_its_share_of_the_batch() -> None:
    assert MODEL.rate(8, 2, 12.5e9) == pytest.approx(8 / 0.166044, rel=1e-5)
