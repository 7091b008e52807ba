"""Whether a job has its nodes to itself, by the two words that squeue has for it. Pure."""

from __future__ import annotations

_BY_EXCLUSIVE = {"NODE": True, "NO": False}
_BY_OVER_SUBSCRIBE = {"NO": True, "OK": False, "YES": False}


def has_whole_nodes(over_subscribe: str, exclusive: str) -> bool | None:
    """Whether nobody else's job may be on its nodes; None: that is not clear.

    Up to 25.11 OverSubscribe=NO means whole nodes. Since 26.05 it is also shown of jobs that share nodes without
    sharing CPUs, which are nearly all, and Exclusive tells. A node for the jobs of one user, label or block of
    switches (USER, MCS, TOPO) is neither shared with anybody nor surely whole.

    Args:
        over_subscribe: what squeue prints as OverSubscribe.
        exclusive: what it prints as Exclusive; empty: it has no such field.
    """
    return _BY_EXCLUSIVE.get(exclusive) if exclusive else _BY_OVER_SUBSCRIBE.get(over_subscribe)
