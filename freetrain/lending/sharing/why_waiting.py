"""Waiting: why a trainer that may run has no node, in words for its owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from freetrain.lending.sharing.dealing import Claimant, Want


@dataclass(frozen=True)
class Served:
    """What became of a claimant at this look.

    Attributes:
        claimant: who.
        sizes: trainer of it that has nodes → how many.
        dealt: how many nodes the policy could give them.
        caps: limit that counts its nodes → most nodes.
        counts_power: whether a node is lent only for what is worth its electricity.
    """

    claimant: Claimant
    sizes: Mapping[str, int]
    dealt: int
    caps: Mapping[str, int]
    counts_power: bool = False

    @cached_property
    def lent_to(self) -> str:
        """Who has the nodes, in words."""
        others = [trainer for trainer, size in self.sizes.items() if size]
        if not others:
            return ""
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        return f", lent to {shown}"


def waits_for(served: Served) -> Mapping[str, str]:
    """Trainer that competed and got nothing → what it waits for."""
    return {
        want.trainer: _why(want, served) for want in served.claimant.wants if not served.sizes.get(want.trainer, 0)
    }


def _why(want: Want, served: Served) -> str:
    if want.most < want.min_nodes:
        counted = ", electricity counted (decide.objective)" if served.counts_power else ""
        return f"starting it now would cost more than it gains within decide.horizon{counted}"
    cap = _cap_below(want.min_nodes, served)
    if cap is not None:
        return cap
    nodes = _nodes(served.dealt)
    whose = "its user's share is" if served.claimant.path else "there are"
    if want.min_nodes > served.dealt:
        if served.dealt == 0 and want.min_nodes == 1:
            return "no idle nodes: all that it may use are lent to others"
        return f"needs {want.min_nodes} nodes at once; {whose} {nodes}{served.lent_to}"
    return f"{whose} {nodes}{served.lent_to}"


def why_no_more(served: Served, limits: Mapping[str, int], has_rivals: bool) -> Mapping[str, str]:
    """Trainer that has nodes → why it has no more of them. Each sentence holds by what was dealt and decided.

    Args:
        served: what became of its claimant.
        limits: trainer → most nodes that it can use.
        has_rivals: whether others were dealt nodes that this claimant may use.
    """
    return {
        want.trainer: _why_no_more(want, served, limits[want.trainer], has_rivals)
        for want in served.claimant.wants
        if served.sizes.get(want.trainer, 0) and want.trainer in limits
    }


def _why_no_more(want: Want, served: Served, limit: int, has_rivals: bool) -> str:
    size = served.sizes[want.trainer]
    if size >= limit:
        return f"it can use no more than {_nodes(limit)}"
    if size == want.most:
        return "one node more would cost it more than it gains within decide.horizon, by its curve and costs"
    if (cap := _cap_below(0, served)) is not None:
        return cap
    unused = served.dealt - sum(served.sizes.values())
    if unused > 0:
        return f"of {_nodes(served.dealt)} that it could have, {unused} would add less than the change costs"
    whose = "its user's share is" if has_rivals and served.claimant.path else "there are no more than"
    others = [trainer for trainer, nodes in served.sizes.items() if nodes and trainer != want.trainer]
    shared = f"; others of them are {', '.join(others[:5])}'s" if others else ""
    return f"{whose} {_nodes(served.dealt)}{shared}"


def _cap_below(min_nodes: int, served: Served) -> str | None:
    for name, most in served.caps.items():
        if min_nodes > most:
            kind = name.split(" ")[0]
            return f"needs {_nodes(min_nodes)} at once; the cap is {_nodes(most)} per {kind}"
        if served.dealt >= most:
            return f"cap of {_nodes(most)} per {name.split(' ')[0]}{served.lent_to}"
    return None


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
