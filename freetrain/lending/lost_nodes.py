"""Nodes that Slurm took out of service after a fragment: the site has lost them, and that is harm, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.lending.rules import HarmRules


@dataclass(frozen=True, slots=True)
class LostNode:
    """One of them.

    Attributes:
        node: its name.
        state_text: its state in Slurm's words.
        fragment: Slurm's id of the one that ran there last.
        found_s: the look that found it, UTC epoch seconds.
    """

    node: str
    state_text: str
    fragment: str
    found_s: float


@dataclass(frozen=True, slots=True)
class LostNodes:
    """Those that are out of service, and those found at the last look.

    Attributes:
        all: as far back as they count, or still out of service.
        new: found at the last look.
    """

    all: tuple[LostNode, ...] = ()
    new: tuple[LostNode, ...] = ()

    def after(self, snapshot: Snapshot, ended: Iterable[Fragment], limits: HarmRules) -> LostNodes:
        """After a look.

        Args:
            snapshot: what there is.
            ended: fragments that ended lately, or are about to.
            limits: how far back they count.
        """
        now_s = snapshot.time_s
        out = {node.name: node for node in snapshot.nodes if node.was_not_cleared}
        if not out and not self.all:
            return LostNodes()
        last = {fragment.node: fragment.job for fragment in ended}
        kept = [lost for lost in self.all if lost.node in out or now_s - lost.found_s < limits.remembered_s]
        known = {lost_node.node for lost_node in kept}
        new = tuple(
            LostNode(name, node.state_text, last[name], now_s)
            for name, node in out.items()
            if name in last and name not in known
        )
        return LostNodes((*kept, *new), new)
