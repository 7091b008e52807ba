"""Profiles: what more CPUs and memory do for a training, and how that is found out."""

from __future__ import annotations

import pytest

from freetrain.experiments.profiles import PROFILES
from freetrain.policies.synergy.sensitivity import Storage, epoch_s, profile_cpus, rate_by_data_wait


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


def test_few_points_are_measured_where_cpus_do_not_matter() -> None:
    asked = []

    def step_s(cpus: int) -> float:
        asked.append(cpus)
        return max(1.0, 6 / cpus)

    measured = profile_cpus(step_s, cpus=24, gpus=2)
    assert asked[0] == 24  # the first is thrown away
    assert measured == {24: 1.0, 12: 1.0, 6: 1.0, 3: 2.0}
    assert len(asked) == 5


def test_where_cpus_matter_they_are_taken_one_by_one() -> None:
    assert profile_cpus(lambda cpus: 24 / cpus, cpus=8, gpus=1).keys() == {8, 4, 3, 2, 1}


def test_a_training_that_waits_for_data_gains_by_cpus_and_no_other() -> None:
    assert rate_by_data_wait(0.5, 3, 12) == pytest.approx(2.0)
    assert rate_by_data_wait(0.5, 3, 4) == pytest.approx(4 / 3)
    assert rate_by_data_wait(0.0, 3, 12) == 1.0


def test_an_epoch_waits_for_the_disk_where_the_data_set_is_not_cached() -> None:
    storage = Storage(memory_bytes_per_s=10e9, disk_bytes_per_s=0.5e9)
    assert epoch_s(100.0, 100e9, 100e9, storage) == 100.0
    assert epoch_s(100.0, 100e9, 20e9, storage) == pytest.approx(2 + 160)
    assert epoch_s(100.0, 100e9, 500e9, storage) == 100.0
