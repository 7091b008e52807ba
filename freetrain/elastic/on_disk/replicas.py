"""Members that hold one copy of the model together: they come, stay and go as one. Pure decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from freetrain.elastic.on_disk.members import Member


def spread(
    members: Mapping[str, Member], leaving: frozenset[str], gone: Mapping[str, str]
) -> tuple[frozenset[str], Mapping[str, str]]:
    """Who leaves and who is gone, with those who cannot go on without them.

    Args:
        members: all that joined.
        leaving: those who want to leave.
        gone: those who left or were lost, with the reason.

    Returns:
        Both with the other members of their replicas. Those of a member that left as it wanted to are leaving.
    """
    bound = [member for member in members.values() if member.replica]
    if not bound:
        return leaving, gone
    leaves = {member.replica for member in bound if member.id in leaving}
    lost = {member.replica: member.id for member in bound if member.id in gone and member.id not in leaving}
    too = {one.id: f"its replica lost {lost[one.replica]}" for one in bound if one.replica in lost}
    return leaving | {one.id for one in bound if one.replica in leaves}, {**too, **gone}


def in_order_of_coming(members: Iterable[Member]) -> list[Member]:
    """Those of a replica side by side, in order of their shards; it has come when the last of them has."""
    members = list(members)
    joined_s: dict[str, float] = {}
    for member in members:
        name = _name(member)
        joined_s[name] = max(member.joined_s, joined_s.get(name, member.joined_s))
    return sorted(members, key=lambda member: (joined_s[_name(member)], _name(member), member.shard))


def only_whole(names: Iterable[str], members: Mapping[str, Member]) -> tuple[str, ...]:
    """Those of them whose replica is there with all of its members."""
    names = tuple(names)
    here = Counter(members[name].replica for name in names)
    return tuple(name for name in names if members[name].shards in (1, here[members[name].replica]))


def of_one_size(names: tuple[str, ...], members: Mapping[str, Member]) -> tuple[str, ...]:
    """Those of them whose replicas have as many members as that of the first; of who has gone nobody knows."""
    sizes = [members[name].shards if name in members else 1 for name in names]
    return tuple(name for name, size in zip(names, sizes, strict=True) if size == sizes[0])


def _name(member: Member) -> str:
    return member.replica or member.id
