"""What of a lab runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LabStatus:
    """What of a lab runs.

    Args:
        daemons: for each daemon that the lab has apart from the slurmds, whether it runs.
        nodes: for each node, whether its slurmd runs.
        states: number of nodes in each of Slurm's states; empty while the controller does not answer.
    """

    daemons: Mapping[str, bool]
    nodes: Mapping[str, bool]
    states: Mapping[str, int]

    @property
    def anything(self) -> bool:
        """Whether any daemon runs."""
        return any(self.daemons.values()) or any(self.nodes.values())
