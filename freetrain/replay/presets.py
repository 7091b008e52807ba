"""Built-in trainers: endless queues made of the seven networks measured on Summit for the FreeTrain paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle

from freetrain.core.throughput import Curve
from freetrain.core.trainer import Trainer

_NODES = (1, 2, 4, 8, 16, 32, 64)


def _curve(*samples_per_s: float) -> Curve:
    return tuple(zip(_NODES, samples_per_s, strict=True))


CURVES: dict[str, Curve] = {
    "AlexNet": _curve(7115.3, 13071.7, 21066.1, 40484.9, 74002.9, 130762.0, 202135.4),
    "VGG-16": _curve(1193.3, 2389.2, 4691.7, 9257.9, 18348.9, 36208.5, 70151.7),
    "ResNet18": _curve(5218.8, 10582.5, 20436.0, 39584.0, 78023.8, 144762.5, 262723.0),
    "DenseNet": _curve(989.9, 1952.5, 3849.8, 7608.1, 14993.2, 28812.2, 57773.9),
    "MnasNet": _curve(3245.7, 6001.9, 11489.3, 23075.6, 43899.7, 83474.2, 160493.6),
    "ShuffleNet": _curve(2831.0, 5259.0, 9988.0, 20379.2, 38895.3, 74125.1, 145081.5),
    "MobileNet": _curve(3039.9, 5893.0, 11386.0, 22024.8, 42488.4, 82268.3, 155213.8),
}
"""Samples/s of whole jobs on 1 … 64 Summit nodes, ImageNet."""

PARAMETERS = {
    "AlexNet": 61_100_840,
    "VGG-16": 138_357_544,
    "ResNet18": 11_689_512,
    "DenseNet": 7_978_856,
    "MnasNet": 4_383_312,
    "ShuffleNet": 2_278_604,
    "MobileNet": 3_504_872,
}
"""Of the networks as torchvision has them (DenseNet-121, MnasNet 1.0, ShuffleNet v2 1.0, MobileNet v2)."""

NODE_BATCH = 6 * 32
"""Samples of a node in a step: Summit's nodes have six GPUs. 32 on each is assumed; the data do not say."""

_PARAMETER_BYTES = 4

HUNDRED_EPOCHS_SAMPLES = 1.3e8
"""A hundred times ImageNet's 1.3 million images."""


@dataclass(frozen=True, slots=True)
class Preset:
    """An endless queue of trainers that takes the networks in turn; iterating starts it afresh."""

    name: str
    networks: tuple[str, ...]
    means: str

    def __iter__(self) -> Iterator[Trainer]:
        """Trainers without end, all there from the start."""
        for number, network in zip(count(1), cycle(self.networks), strict=False):
            yield Trainer(
                f"{network}-{number:05d}",
                CURVES[network],
                max_nodes=64,
                target_samples=HUNDRED_EPOCHS_SAMPLES,
                bytes_per_sample=_PARAMETER_BYTES * PARAMETERS[network] / NODE_BATCH,
            )


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("hpo", ("ShuffleNet",), "hyper-parameter search: identical ShuffleNet trainings without end"),
        Preset("mix", tuple(CURVES), "seven image networks in turn, without end"),
    )
}
