"""Why a node is lent or not, and what would have to change. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from freetrain.core.fragment import Fragment
from freetrain.daemon.reports.advice import advise
from freetrain.daemon.reports.status import LookStatus, NodeGroup
from freetrain.showing.words import show_time
from freetrain.slurm.parsing import expand_nodes


def explain_node(
    node: str, group: NodeGroup, fragment: Fragment | None, owner: str, look: LookStatus | None
) -> Iterator[str]:
    """Sentences on a node.

    Args:
        node: its name.
        group: what holds for it and others.
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


def group_of(node: str, look: LookStatus | None) -> NodeGroup | None:
    """What the last look found of a node; None: nothing."""
    groups = look.nodes if look else ()
    return next((group for group in groups if node in expand_nodes(group.nodes)), None)


def _who_waits(look: LookStatus | None) -> str:
    waiting = [trainer for trainer in look.trainers if trainer.waits_for and not trainer.lent] if look else []
    if not waiting:
        return "No training waits for nodes."
    first = "; ".join(f"{trainer.id}: {trainer.waits_for}" for trainer in waiting[:3])
    return f"Trainings that wait: {first}" + (f"; and {len(waiting) - 3} more." if len(waiting) > 3 else ".")
