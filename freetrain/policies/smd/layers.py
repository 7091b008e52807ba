"""A step layer by layer: while one layer's gradients travel to the servers and back, others are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a model.

    Attributes:
        gradient_bytes: sent to the servers, and back, in each step.
        forward_s: of a sample.
        backward_s: of a step.
    """

    gradient_bytes: float
    forward_s: float
    backward_s: float


@dataclass(frozen=True, slots=True)
class Network:
    """What gradients travel on.

    Attributes:
        worker_bytes_per_s: of a worker's link.
        server_bytes_per_s: of a server's link, which all workers share.
        latency_s: of each message.
        update_s_per_byte: how long a server takes for what a worker sends.
    """

    worker_bytes_per_s: float
    server_bytes_per_s: float
    latency_s: float = 0.0
    update_s_per_byte: float = 0.0

    def send_s(self, layer: Layer, workers: int, servers: int) -> float:
        """Seconds in which all workers send a layer to the servers; the way back takes as long."""
        slowest = max(1 / self.worker_bytes_per_s, workers / (servers * self.server_bytes_per_s))
        return layer.gradient_bytes * slowest + self.latency_s

    def update_s(self, layer: Layer, workers: int, servers: int) -> float:
        """Seconds in which the servers take a layer's gradients in."""
        return self.update_s_per_byte * layer.gradient_bytes * workers / servers


_STEPS = 6
"""After so many steps each takes as long as the one before."""


def step_s(layers: Sequence[Layer], network: Network, batch: float, workers: int, servers: int) -> float:
    """Seconds from one step to the next; ``layers`` begin at the input.

    A layer is computed forward once its parameters have come back. Backward each layer is sent as soon as it is
    computed; sending and receiving do not disturb each other, but each does one layer after the other.
    """
    share = batch / workers
    back_s = [0.0] * len(layers)
    now_s, starts_s = 0.0, list[float]()
    for _ in range(_STEPS):
        starts_s.append(max(now_s, back_s[0]))
        for number, layer in enumerate(layers):
            now_s = max(now_s, back_s[number]) + layer.forward_s * share
        sent_s = received_s = 0.0
        for number in reversed(range(len(layers))):
            layer = layers[number]
            now_s += layer.backward_s
            travel_s = network.send_s(layer, workers, servers)
            sent_s = max(now_s, sent_s) + travel_s
            received_s = max(sent_s + network.update_s(layer, workers, servers), received_s) + travel_s
            back_s[number] = received_s
    return starts_s[-1] - starts_s[-2]
