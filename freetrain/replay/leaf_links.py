"""How many links of the trainers' rings lead from one leaf switch to another, over the time of a replay."""

from __future__ import annotations

from collections.abc import Iterable

from freetrain.core.topology import Topology, nodes_by_leaf
from freetrain.replay.trainer_run import TrainerRun


class LeafLinks:
    """Links between leaves, integrated over time.

    Ranks follow the switches, so a ring enters and leaves each of its leaves once: it has as many links between
    leaves as it has leaves, and none if that is one.

    Args:
        topology: the switches.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._of: dict[str, tuple[set[str], int]] = {}
        self._links = self._rings = 0
        self._link_s = self._ring_s = 0.0

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which nothing changes."""
        self._link_s += self._links * seconds
        self._ring_s += self._rings * seconds

    def note(self, runs: Iterable[TrainerRun]) -> None:
        """Note how things stand after an event."""
        if self._topology.leaves:
            links = [self._links_of(run) for run in runs if run.nodes]
            self._links, self._rings = sum(links), len(links)

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
