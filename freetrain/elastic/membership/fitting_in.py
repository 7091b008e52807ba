"""Who may be in one training together: the same script, torch and data set, and nodes of the same shape."""

from __future__ import annotations

from freetrain.elastic.on_disk.members import Member
from freetrain.elastic.on_disk.next_generation import View

FOREIGN_HINT = (
    "Give each trainer a directory of its own (--trainer), and all its members the same script and torch."
)


def why_foreign(member: Member, newcomer: Member) -> str | None:
    """Why this newcomer does not fit in with a member; None if it does."""
    return _difference(member, newcomer) or _difference_of_nodes(member, newcomer)


def why_foreign_to(view: View, member: Member) -> str | None:
    """Why this member does not fit in with those that are there; None if it does."""
    for id_ in view.present:
        reason = _difference(view.members[id_], member)
        if reason is not None and id_ in view.ranks:
            return reason
    return None


def _difference_of_nodes(member: Member, newcomer: Member) -> str | None:
    """Only those who are alive object to it: a training may go on from its checkpoint with other nodes."""
    if newcomer.shards == member.shards:
        return None
    return (
        f"its node has {newcomer.shards} workers to shard the model over, and those of the others have "
        f"{member.shards}: all nodes of a sharded training need the same number (--nproc)"
    )


def _difference(member: Member, newcomer: Member) -> str | None:
    if newcomer.torch != member.torch:
        return f"it runs torch {newcomer.torch}, the others {member.torch}"
    mine, theirs = (
        dict(part.partition("=")[::2] for part in each.fingerprint.split()) for each in (member, newcomer)
    )
    differing = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if differing == ["script"]:
        return "its script is not the one that the others run: it has been edited since, or is another one"
    if differing:
        named = " and ".join(name for name in differing if name != "script")
        return f"another training runs there, whose {named} differ, and two cannot share a directory"
    return None
