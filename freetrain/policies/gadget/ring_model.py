"""How fast a ring of workers trains: the time of a step of ring all-reduce."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RingModel:
    """A training whose workers pass gradients around a ring.

    Attributes:
        gradient_bytes: exchanged in each step.
        compute_s: of a step on one worker: forward and backward, for its share of the batch.
        samples_per_worker: that share.
        reduce_bytes_per_s: how fast a worker adds gradients up.
        per_server_s: added to each step by each server of the ring.
    """

    gradient_bytes: float
    compute_s: float
    samples_per_worker: float = 1.0
    reduce_bytes_per_s: float = 2e12
    per_server_s: float = 1e-3

    def step_s(self, workers: int, servers: int, bytes_per_s: float) -> float:
        """Seconds of a step: each worker sends 2·m·(w-1)/w bytes over its link, and adds up half of them.

        Args:
            workers: in the ring, w.
            servers: that they are on.
            bytes_per_s: of the ring's slowest link.
        """
        if workers == 1:
            return self.compute_s
        around = (workers - 1) / workers * self.gradient_bytes
        exchange_s = 2 * around / bytes_per_s + around / self.reduce_bytes_per_s
        return self.compute_s + exchange_s + self.per_server_s * servers

    def rate(self, workers: int, servers: int, bytes_per_s: float) -> float:
        """Samples/s, where each worker keeps its share of the batch however many there are."""
        return workers * self.samples_per_worker / self.step_s(workers, servers, bytes_per_s)

    def wanted_bytes_per_s(self, workers: int) -> float:
        """Bandwidth with which sending takes as long as computing: what a ring reserves on its links."""
        return 2 * (workers - 1) / workers * self.gradient_bytes / self.compute_s


def contended(bytes_per_s: float, rings: int, degradation: float = 0.2) -> float:
    """What a ring gets of a link that several share without reservation: B / (k + a·(k-1))."""
    return bytes_per_s / (rings + degradation * (rings - 1))
