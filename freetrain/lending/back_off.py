"""Back-off: nothing is lent for a while because lending did too much harm of one kind. Pure.

One rule holds for all kinds: after more than the tolerated number within ``harm.within``, nothing is lent until
``harm.pause`` has passed since the last of them. A node that Slurm took out of service after a fragment is harm,
too: the site has lost it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment
from freetrain.core.harm import Harm
from freetrain.lending.rules import HarmRules


@dataclass(frozen=True, slots=True)
class LostNode:
    """A node that went out of service after a fragment.

    Attributes:
        state_text: its state in Slurm's words.
        fragment: Slurm's id of the fragment that ran there last.
        found_s: time of the look that found it, UTC epoch seconds.
    """

    node: str
    state_text: str
    fragment: str
    found_s: float


@dataclass(frozen=True, slots=True)
class LostNodes:
    """The nodes that are out of service, and those found at the last look.

    Attributes:
        all: nodes that were lost as far back as they count, or are still out of service.
        new: nodes that were found at the last look.
    """

    all: tuple[LostNode, ...] = ()
    new: tuple[LostNode, ...] = ()

    def after(self, snapshot: Snapshot, ended: Iterable[Fragment], limits: HarmRules) -> LostNodes:
        """The record after a look."""
        now_s = snapshot.time_s
        out = {node.name: node for node in snapshot.nodes if node.was_not_cleared}
        if not out and not self.all:
            return LostNodes()
        # Fragments that are still leaving count, too: Slurm drains a node while the processes of its job do not
        # end.
        last = {fragment.node: fragment.job for fragment in ended}
        # A node that stays out of service is remembered longer, so that it is not counted as lost a second time.
        kept = [lost for lost in self.all if lost.node in out or now_s - lost.found_s < limits.remembered_s]
        known = {lost_node.node for lost_node in kept}
        new = tuple(
            LostNode(name, node.state_text, last[name], now_s)
            for name, node in out.items()
            if name in last and name not in known
        )
        return LostNodes((*kept, *new), new)


class Cause(StrEnum):
    """Kind of harm that starts a back-off."""

    DELAYS = "delays"
    EVICTIONS = "evictions"
    LOST_NODES = "lost nodes"


_WHY = {
    Cause.DELAYS: "the site's own jobs had to wait too often",
    Cause.EVICTIONS: "Slurm evicted more fragments than harm.evictions",
    Cause.LOST_NODES: "too many nodes went out of service after fragments",
}


@dataclass(frozen=True, slots=True)
class BackOff:
    """A back-off that is in force.

    Attributes:
        until_s: time at which it ends by itself, UTC epoch seconds.
    """

    cause: Cause
    until_s: float

    @property
    def sentence(self) -> str:
        """The back-off as the end of a sentence."""
        return (
            f"backing off until {datetime.fromtimestamp(self.until_s, UTC):%Y-%m-%dT%H:%M:%SZ}: {_WHY[self.cause]}"
        )


def evictions_after(
    before_s: Iterable[float], ended: Iterable[Fragment], now_s: float, limits: HarmRules
) -> tuple[float, ...]:
    """Times of evictions of fragments, as far back as they count, UTC epoch seconds; none if there is no limit."""
    if not limits.evictions:
        return ()
    # A job of several nodes is evicted once.
    preempted = {fragment.job: fragment.ended_s for fragment in ended if fragment.end is End.PREEMPTED}
    new_s = (at_s for at_s in preempted.values() if at_s is not None)
    oldest_s = now_s - limits.remembered_s
    return tuple(at_s for at_s in (*before_s, *new_s) if at_s > oldest_s)


def find_back_off(
    harms: Iterable[Harm], evicted_s: Iterable[float], lost: LostNodes, now_s: float, limits: HarmRules
) -> BackOff | None:
    """The back-off that is in force, of several the longest; None: there is none."""
    # Slurm may show a start in the next second: without a pause that alone would be a back-off until then.
    if not limits.pause_s:
        return None
    delays_s = (harm.started_s for harm in harms if harm.delay_s > limits.delay_s)
    found = [
        BackOff(Cause.DELAYS, _until_s(delays_s, limits.allowed, limits)),
        BackOff(Cause.LOST_NODES, _until_s((node.found_s for node in lost.all), limits.allowed, limits)),
    ]
    if limits.evictions:
        found.append(BackOff(Cause.EVICTIONS, _until_s(evicted_s, limits.evictions, limits)))
    longest = max(found, key=lambda back_off: back_off.until_s)
    return longest if longest.until_s > now_s else None


def _until_s(times_s: Iterable[float], allowed: int, limits: HarmRules) -> float:
    # In order more than are allowed lie within the time if the first and the last of a run do.
    in_order_s = sorted(times_s)
    windows = zip(in_order_s, in_order_s[allowed:], strict=False)
    too_many_s = (last_s for first_s, last_s in windows if last_s - first_s <= limits.within_s)
    return max((last_s + limits.pause_s for last_s in too_many_s), default=0.0)
