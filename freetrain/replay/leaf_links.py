"""How much of the trainers' rings leads from one leaf switch to another: links and bytes, over a replay."""

from __future__ import annotations

from collections.abc import Iterable

from freetrain.core.topology import Topology, nodes_by_leaf
from freetrain.replay.trainer_run import TrainerRun


class LeafLinks:
    """Links between leaves, integrated over time.

    Ranks follow the switches, so a ring enters and leaves each of its leaves once: it has as many links between
    leaves as it has leaves, and none if that is one. Each link carries 2 (n - 1)/n times the bytes of the
    gradients in every step, n being the nodes: those of a node add up their gradients first.

    Args:
        topology: the switches.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._of: dict[str, tuple[set[str], int]] = {}
        self._links = self._rings = 0
        self._bytes_per_s = self._link_s = self._ring_s = 0.0
        self._bytes: float | None = None

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which nothing changes."""
        self._link_s += self._links * seconds
        self._ring_s += self._rings * seconds
        if self._bytes is not None:
            self._bytes += self._bytes_per_s * seconds

    def note(self, runs: Iterable[TrainerRun]) -> None:
        """Note how things stand after an event."""
        if self._topology.leaves:
            links = [(run, self._links_of(run)) for run in runs if run.nodes]
            self._links, self._rings = sum(count for _, count in links), len(links)
            bytes_per_s = (count * run.trainer.link_bytes_per_s(len(run.nodes)) for run, count in links if count)
            self._bytes_per_s = sum(bytes_per_s)
            if self._bytes is None and any(run.trainer.bytes_per_sample for run, _ in links):
                self._bytes = 0.0

    @property
    def bytes(self) -> float | None:
        """That went from leaf to leaf; None: no switches are known, or nobody's gradients."""
        return self._bytes

    @property
    def mean(self) -> float | None:
        """Of a training that has nodes; None: no switches are known, or nobody trained."""
        return self._link_s / self._ring_s if self._ring_s > 0 else None

    def _links_of(self, run: TrainerRun) -> int:
        nodes, links = self._of.get(run.trainer.id, (None, 0))
        if nodes is not run.nodes:
            leaves = len(nodes_by_leaf(run.nodes, self._topology))
            links = leaves if leaves > 1 else 0
            self._of[run.trainer.id] = run.nodes, links
        return links
