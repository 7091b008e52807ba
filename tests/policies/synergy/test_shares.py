"""Profiles: what more CPUs and memory do for a training."""

from __future__ import annotations

import pytest

from freetrain.policies.synergy.experiment import PROFILES


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
