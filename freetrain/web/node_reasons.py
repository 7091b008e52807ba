"""What is done with the nodes and why, nodes with like reasons together. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from freetrain.daemon.reports.advice import advise
from freetrain.daemon.reports.status import NodeGroup, NodeStanding
from freetrain.slurm.parsing import expand_nodes, fold_nodes
from freetrain.web.node_map import STATES
from freetrain.web.node_order import in_order

MOST_ROWS = 40
_MOST_FOLDED, _LONGEST = 300, 140
_LIKE = ((re.compile(r"\bjob \d\S*"), "a job"), (re.compile(r"\b\d+ s\b"), "some seconds"))
"""What tells reasons apart that are alike."""


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Nodes of which like things are to be said.

    Attributes:
        state: what is done with them.
        why: the reason; empty: there is nothing to explain.
        advice: what would have to change; empty: nothing, or nobody can say.
        count: how many they are.
        nodes: which, as ``c[01-04]``; the first of them where they are many.
        until_s: when the first of them is expected to be wanted, UTC epoch seconds; None: nobody knows.
    """

    state: NodeStanding
    why: str
    advice: str
    count: int
    nodes: str
    until_s: float | None


def gather_reasons(groups: Iterable[NodeGroup]) -> list[NodeReason]:
    """The reasons in the order of the states, those of most nodes first; at most ``MOST_ROWS``."""
    alike: defaultdict[tuple[NodeStanding, str], list[NodeGroup]] = defaultdict(list)
    for group in groups:
        alike[group.state, without_ids(group.why)].append(group)
    rows = [_reason(state, why, members) for (state, why), members in alike.items()]
    rows.sort(key=lambda row: (STATES.index(row.state), -row.count, row.why))
    return rows[:MOST_ROWS]


def without_ids(why: str) -> str:
    """A reason without what tells it apart from reasons that are alike, as the ids of jobs."""
    for pattern, words in _LIKE:
        why = pattern.sub(words, why)
    return why


def _reason(state: NodeStanding, why: str, members: list[NodeGroup]) -> NodeReason:
    names = in_order(name for group in members for name in expand_nodes(group.nodes))
    folded = fold_nodes(names[:_MOST_FOLDED])
    is_cut = len(names) > _MOST_FOLDED or len(folded) > _LONGEST
    ends = [group.until_s for group in members if group.until_s is not None]
    return NodeReason(
        state=state,
        why=why,
        advice=advise(members[0].why, "NODE"),
        count=len(names),
        nodes=folded[:_LONGEST].rpartition(",")[0] + ", …" if is_cut and "," in folded else folded,
        until_s=min(ends, default=None),
    )
