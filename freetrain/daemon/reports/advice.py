"""What would have to change for a node to be lent, by the reason why it is not. Pure."""

from __future__ import annotations

import re

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
    r"backing off": "Lending goes on by itself then; 'freetrain history' and 'freetrain audit' say what happened.",
    r"could be lent, if a daemon were": "Start the daemon.",
}


def advise(why: str, node: str) -> str:
    """What would have to change for a node that is not lent for this reason; empty: nobody can say."""
    return next((text.format(node=node) for start, text in _ADVICE.items() if re.match(start, why)), "")
