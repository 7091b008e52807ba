"""Parts of nodes that fragments were asked for with, and that jobs of the site's have taken before them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from freetrain.core.amounts import Amount, left_of
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.lending.rooms import LentParts


def crowded_out(
    snapshot: Snapshot, fragments: Iterable[Fragment], lent: LentParts, queue: FragmentQueue
) -> list[Fragment]:
    """Fragments for which there is no room on their nodes any more, although Slurm has not started them.

    What counts is what jobs are known to have, all of them as of one instant: what Slurm says to be used of nodes
    it says a moment later, when such a fragment may have begun. A job of which nobody knows what it has counts as
    nothing, and so does what fragments have that leave.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        lent: what they have of each node, in the order in which they were asked for.
        queue: where they wait and run.
    """
    waiting = [name for name, parts in lent.items() if any(part.goes_on and not part.is_used for part in parts)]
    if not waiting:
        return []
    theirs: defaultdict[str, Amount] = defaultdict(Amount)
    for job in snapshot.jobs:
        if job.state.has_nodes and job.asks is not None and not queue.has(job):
            for name in job.nodes:
                theirs[name] = theirs[name] + job.asks
    found: set[str] = set()
    for name in waiting:
        left = snapshot.node[name].total.without(theirs[name])
        for one in sorted((one for one in lent[name] if one.goes_on), key=lambda one: not one.is_used):
            rest = left_of(left, one.amount)
            if rest is not None:
                left = rest
            elif one.is_used:
                left = left.without(one.amount)
            else:
                found.add(one.place)
    return [fragment for fragment in fragments if fragment.place in found]
