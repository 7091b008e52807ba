"""Utilities of accumulated training: concave, capped at the target."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from freetrain.policies.gadget.utility import LINEAR, LOG, Utility


def test_linear_utility_is_the_share_of_the_target() -> None:
    assert LINEAR.of(30.0, 120.0) == pytest.approx(0.25)
    assert LINEAR.of(30.0, 120.0, weight=4.0) == pytest.approx(1.0)


def test_logarithmic_utility_is_one_at_the_target() -> None:
    assert LOG.of(60.0, 120.0) == pytest.approx(math.log(5.5) / math.log(10))
    assert LOG.of(120.0, 120.0) == pytest.approx(1.0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_every_utility_grows_ever_slower_and_not_beyond_the_target(alpha: float) -> None:
    values = [Utility(alpha).of(10.0 * share, 100.0) for share in range(13)]
    gains = [after - before for before, after in pairwise(values)]
    assert all(later <= sooner + 1e-12 for sooner, later in pairwise(gains))
    assert values[10:] == pytest.approx([1.0] * 3)
    assert Utility(alpha).of(-5.0, 100.0) == 0.0
