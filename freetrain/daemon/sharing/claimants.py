"""Sharing: which claimants there are among the trainers that compete, and how the site wants them served."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from freetrain.core.cluster import Nodes, Snapshot
from freetrain.core.dealing import Claimant, Shares, Want
from freetrain.core.needs import Needs, kinds_of, nodes_meeting
from freetrain.core.past_use import tilts
from freetrain.core.problem import Offer
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers.entries import Entry
from freetrain.slurm.submissions import Submission

Eligible = Mapping[Needs, Nodes]
"""Needs → the nodes that meet them."""


class FairShare(StrEnum):
    """Among whom nodes are shared equally."""

    USER = "user"
    ACCOUNT = "account"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the site wants nodes shared between people.

    Attributes:
        by: among whom.
        half_life_s: in which past use fades to one half.
        shares: user (by account: account) → weight against the others; 1 where it is missing.
        most_nodes_per_user: 0: no limit.
        most_nodes_per_account: 0: no limit.
        most_trainers_per_user: that may compete at once; 0: no limit.
    """

    by: FairShare = FairShare.USER
    half_life_s: float = 7 * 86400.0
    shares: Mapping[str, float] = field(default_factory=dict)
    most_nodes_per_user: int = 0
    most_nodes_per_account: int = 0
    most_trainers_per_user: int = 0


def meeting_nodes(submissions: Iterable[Submission], names: Iterable[str], snapshot: Snapshot) -> Eligible:
    """Needs → the nodes among these that meet them."""
    kinds = kinds_of(snapshot.node[name] for name in names if name in snapshot.node)
    return {needs: nodes_meeting(needs, kinds) for needs in {submission.needs for submission in submissions}}


def account_of(entry: Entry) -> str:
    """To which account it is charged."""
    return entry.submission.tasks[0].account


def person_of(entry: Entry, by: FairShare) -> str:
    """Who shares with others; where nothing is shared fairly all are one."""
    return "" if by is FairShare.OFF else entry.trainer.owner


def claimants_of(
    competing: Sequence[tuple[Entry, Trainer]],
    demand: Mapping[str, int],
    eligible: Eligible,
    offered: Iterable[Offer],
    sharing: Sharing,
) -> list[Claimant]:
    """The trainers by who shares with whom, and by what they ask of their nodes.

    A trainer keeps a node that it has even if that would not do for a new one.

    Args:
        competing: those that may have nodes.
        demand: trainer → most nodes that it would take.
        eligible: needs → nodes.
        offered: the nodes, with who has them.
        sharing: what the site wants.
    """
    members: defaultdict[tuple[Hashable, ...], list[Entry]] = defaultdict(list)
    trainers = {trainer.id: trainer for _, trainer in competing}
    for entry, _ in competing:
        members[_key(entry, sharing)].append(entry)
    has: defaultdict[str | None, set[str]] = defaultdict(set)
    for node in offered:
        has[node.held_by].add(node.name)
    found = []
    for key, entries in members.items():
        may_use = eligible[entries[0].submission.needs]
        theirs = frozenset().union(*(has[entry.trainer.id] for entry in entries))
        wants = tuple(
            Want(trainer.id, trainer.min_nodes, demand[trainer.id])
            for trainer in (trainers[entry.trainer.id] for entry in entries)
        )
        found.append(
            Claimant(
                key, _path(entries[0], sharing), wants, may_use if theirs <= may_use else may_use | theirs,
                capped_by=_capped_by(entries[0], sharing),
            )
        )  # fmt: skip
    return found


def bounded(claimants: Iterable[Claimant], most: Mapping[Hashable, int], spare: int = 0) -> list[Claimant]:
    """The same, some of which take only so many nodes, and ``spare`` more."""
    return [replace(one, most=most.get(one.key, inf) + spare) for one in claimants]


def shares_of(claimants: Iterable[Claimant], hours: Mapping[str, float], nodes: int, sharing: Sharing) -> Shares:
    """Weights, past use and limits of all who take part.

    Args:
        claimants: all.
        hours: user → node-hours that he had, faded; an account had what its users who compete now had.
        nodes: of the whole partition.
        sharing: what the site wants.
    """
    users_of: defaultdict[str, set[str]] = defaultdict(set)
    for one in claimants:
        for member in one.path:
            users_of[member].add(one.path[-1].removeprefix("user "))
    used = {member: sum(hours.get(user, 0.0) for user in users) for member, users in users_of.items()}
    weight: dict[str, float] = {}
    for place in ("account ", "user "):
        alike = [member for member in used if member.startswith(place)]
        granted = {member: sharing.shares.get(member.removeprefix(place), 1.0) for member in alike}
        if place == "user " and sharing.by is FairShare.ACCOUNT:
            granted = dict.fromkeys(alike, 1.0)
        tilt = tilts({member: used[member] / granted[member] for member in alike}, nodes, sharing.half_life_s)
        weight.update({member: granted[member] * tilt[member] for member in alike})
    return Shares(weight, used, _caps(claimants, sharing))


def _key(entry: Entry, sharing: Sharing) -> tuple[Hashable, ...]:
    splits = sharing.by is FairShare.ACCOUNT or sharing.most_nodes_per_account > 0
    person = person_of(entry, sharing.by)
    return (person, account_of(entry) if person and splits else "", entry.submission.needs)


def _path(entry: Entry, sharing: Sharing) -> tuple[str, ...]:
    user, account = f"user {entry.trainer.owner}", f"account {account_of(entry)}"
    return {FairShare.USER: (user,), FairShare.ACCOUNT: (account, user), FairShare.OFF: ()}[sharing.by]


def _capped_by(entry: Entry, sharing: Sharing) -> tuple[str, ...]:
    limits = {
        f"user {entry.trainer.owner}": sharing.most_nodes_per_user,
        f"account {account_of(entry)}": sharing.most_nodes_per_account,
    }
    return tuple(name for name, most in limits.items() if most)


def _caps(claimants: Iterable[Claimant], sharing: Sharing) -> Mapping[str, int]:
    names = Counter(name for one in claimants for name in one.capped_by)
    return {
        name: sharing.most_nodes_per_user if name.startswith("user ") else sharing.most_nodes_per_account
        for name in names
    }
