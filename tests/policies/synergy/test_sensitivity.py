"""Profiles: what more CPUs and memory do for a training, and how that is found out."""

from __future__ import annotations

import pytest

from freetrain.experiments.profiles import PROFILES
from freetrain.policies.synergy.sensitivity import rate_by_data_wait


@pytest.mark.parametrize(
    ("model", "demand"),
    [
        ("resnet18", (9, 62.5)),
        ("resnet50", (4, 62.5)),
        ("mobilenet", (6, 62.5)),
        ("alexnet", (12, 125)),
        ("shufflenet", (12, 125)),
        ("m5", (6, 187.5)),
        ("deepspeech", (3, 62.5)),
        ("bert", (1, 20.83)),
    ],
)
def test_a_training_wants_as_much_as_makes_it_faster_and_no_more(model: str, demand: tuple[float, float]) -> None:
    assert PROFILES[model].demand == demand


def test_at_the_share_every_rate_is_one_and_between_points_nothing_is_promised() -> None:
    assert {profile.rate(3, 62.5) for profile in PROFILES.values()} == {1.0}
    alexnet = PROFILES["alexnet"]
    assert alexnet.rate(11.9, 125) == 2.0
    assert alexnet.rate(12, 124) == 2.0
    assert alexnet.rate(12, 62) == 0.1
    assert alexnet.rate(0.5, 125) == 0.0


def test_a_training_that_waits_for_data_gains_by_cpus_and_no_other() -> None:
    assert rate_by_data_wait(0.5, 3, 12) == pytest.approx(2.0)
    assert rate_by_data_wait(0.5, 3, 4) == pytest.approx(4 / 3)
    assert rate_by_data_wait(0.0, 3, 12) == 1.0
