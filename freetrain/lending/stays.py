"""Stays: how long nodes stay idle, learned from those that did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from freetrain.core.cluster import Nodes, NodeState, Snapshot
from freetrain.core.fragment import Fragment

_PRIOR_S, _PRIOR_LEFT = 1200.0, 10.0
"""Before anything was seen: as if ten nodes had left after twenty minutes each."""
_HALF_LIFE_S = 86400.0
"""What was seen a day ago counts half."""


@dataclass(frozen=True, slots=True)
class Stays:
    """How long nodes have been idle, and how many of them the site has taken.

    The time until a node is taken is estimated as if it did not depend on how long it has been idle already: idle
    time by departures, in which nodes that are idle still count with their time so far.

    Attributes:
        idle_node_s: node-seconds that were idle, fading.
        left: nodes that were taken, fading.
        seen_s: the last instant that is known, UTC epoch seconds; None: there was none.
        idle: nodes that were idle then.
    """

    idle_node_s: float = _PRIOR_S * _PRIOR_LEFT
    left: float = _PRIOR_LEFT
    seen_s: float | None = None
    idle: Nodes = field(default_factory=Nodes)

    @property
    def expected_s(self) -> float:
        """How much longer an idle node is expected to stay, in whole seconds."""
        return max(1.0, float(round(self.idle_node_s / self.left)))

    def after(self, now_s: float, idle: Nodes) -> Stays:
        """After an instant at which these nodes are idle, lent ones included."""
        if self.seen_s is None:
            return replace(self, seen_s=now_s, idle=idle)
        passed_s = now_s - self.seen_s
        fades = 0.5 ** (passed_s / _HALF_LIFE_S)
        return Stays(
            fades * self.idle_node_s + passed_s * len(self.idle),
            fades * self.left + len(self.idle - idle),
            now_s,
            idle,
        )


def idle_for_the_site(snapshot: Snapshot, fragments: tuple[Fragment, ...], partition: str) -> Nodes:
    """Nodes of a partition that none of the site's jobs has: idle ones, and those that fragments have."""
    lent = {one.node for one in fragments if one.holds_node}
    theirs = {
        name for job in snapshot.jobs if job.state.has_nodes and job.partition != partition for name in job.nodes
    }
    return Nodes(
        name
        for name in snapshot.partitions[partition].nodes
        if name in snapshot.node and name not in theirs
        if name in lent or snapshot.node[name].state is NodeState.IDLE
    )
