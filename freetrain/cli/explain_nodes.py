"""Why a node is lent or not, and what would have to change. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from freetrain.cli.output import show_time
from freetrain.core.fragment import Fragment
from freetrain.daemon.status import LookStatus, NodeGroup
from freetrain.slurm.parsing import expand_nodes

_ADVICE = {
    r"excluded by the site": "Take it out of lend.exclude_nodes to have it lent.",
    r"drained by the site": "'freetrain undrain {node}' ends that.",
    r"job \S+ runs here": "It can be lent once that job has ended.",
    r"Slurm powers it down": "lend.spare_suspendable = false lets it be lent, and keeps it powered up.",
    r"Slurm says": "It can be lent once Slurm shows it as IDLE, without any other flag.",
    r"Slurm does not show it": "Slurm has no such node; its partition names it nevertheless.",
    r"its hole ends in": "Holes shorter than lend.shortest_hole are left alone.",
    r"idle for less than": "lend.idle_for says how long a node must have been idle.",
    r"was taken back a moment ago": "pace.cool_down says for how long it is then left alone.",
    r"kept in reserve": "lend.reserve_nodes and lend.most_nodes say how many are lent at most.",
    r"job \S+ is next to start here": "lend.next_in_line says how long before that it is kept free.",
    r"job \S+ (could|is to) start here": "It is for that job. If it does not start, the node is lent again.",
    r"job \S+ waits for this node": "It is for that job, which a fragment kept waiting.",
    r"jobs of partition \S+ had to wait": "'freetrain config check' says what is wrong with Slurm's layout.",
    r"reservation": "It can be lent again once the reservation has ended.",
    r"partition \S+ is down": "'scontrol update PartitionName=… State=UP' opens it.",
    r"stopped by": "Remove that file to lend again.",
    r"nothing more is lent: paused": "'freetrain resume' ends the pause.",
    r"Slurm's layout is unsafe": "'freetrain config check' says what mends it.",
    r"the site's own jobs had to wait": "Lending goes on after harm.pause; 'freetrain audit' says what was done.",
    r"could be lent, if a daemon were": "Start the daemon.",
}


def explain_node(
    node: str, group: NodeGroup, fragment: Fragment | None, owner: str, look: LookStatus | None
) -> Iterator[str]:
    """Sentences on a node.

    Args:
        node: its name.
        group: what is to be said of it and others.
        fragment: the one on it, as the database knows it; None: there is none, or nobody may read that.
        owner: of the trainer that has it; empty: unknown.
        look: the last one; None: no daemon is at work.
    """
    whose = f"training {group.trainer}" + (f" of {owner}" if owner else "")
    until = "" if group.until_s is None else f" Somebody is expected to want it at {show_time(group.until_s)}."
    match group.state:
        case "lent":
            yield f"{node} is lent to {whose}.{until}"
        case "asked for":
            yield f"{node} is to be lent to {whose}; Slurm has yet to start the fragment.{until}"
        case "due back":
            yield f"{node} is being taken back from {whose}" + (f": {group.why}." if group.why else ".")
        case "free":
            yield f"{node} may be lent, and no training has it.{until}"
            yield _who_waits(look)
        case _:
            yield f"{node} is not lent: {group.why}."
    if fragment is not None and fragment.decision:
        since = show_time(fragment.started_s or fragment.asked_s)
        yield f"Fragment {fragment.job} has it since {since}, by decision {fragment.decision}."
    if advice := advise(group.why, node):
        yield advice


def advise(why: str, node: str) -> str:
    """What would have to change for a node that is not lent for this reason; empty: nobody can say."""
    return next((said.format(node=node) for start, said in _ADVICE.items() if re.match(start, why)), "")


def group_of(node: str, look: LookStatus | None) -> NodeGroup | None:
    """What the last look found of a node; None: nothing."""
    groups = look.nodes if look else ()
    return next((each for each in groups if node in expand_nodes(each.nodes)), None)


def _who_waits(look: LookStatus | None) -> str:
    waiting = [one for one in look.trainers if one.waits_for and not one.lent] if look else []
    if not waiting:
        return "No training waits for nodes."
    first = "; ".join(f"{one.id}: {one.waits_for}" for one in waiting[:3])
    return f"Trainings that wait: {first}" + (f"; and {len(waiting) - 3} more." if len(waiting) > 3 else ".")
