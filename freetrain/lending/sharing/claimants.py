"""Claimants: the competing trainers, grouped by their user (and account) and by what they ask of their nodes.

Tasks that are soon over keep their places, so that no task is ended for another user's share just before its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.needs import NO_NEEDS, Needs, kinds_of, nodes_meeting
from freetrain.core.node import Nodes
from freetrain.core.place import Place
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rules import FairShare, NodeRules, SharingRules
from freetrain.lending.sharing.claims import Claimant, Shares, SizeRange
from freetrain.lending.sharing.past_use import tilts
from freetrain.lending.sharing.tasks import Tasks

Eligible = Mapping[Needs, Nodes]
"""Needs → the nodes that meet them."""


def meeting_nodes(requests: Iterable[Request], names: Iterable[str], snapshot: Snapshot) -> Eligible:
    """Needs → the nodes among these that meet them."""
    names = [name for name in names if name in snapshot.node]
    asked = {request.needs for request in requests}
    # Without needs every node will do: the nodes of a large machine need not be compared.
    if asked <= {NO_NEEDS}:
        return dict.fromkeys(asked, frozenset(names))
    kinds = kinds_of(snapshot.node[name] for name in names)
    return {needs: nodes_meeting(needs, kinds) for needs in asked}


def person_of(request: Request, by: FairShare) -> str:
    """The user that shares with others; without fair share all users are one."""
    return "" if by is FairShare.OFF else request.owner


def claimants_of(
    competing: Sequence[Request],
    demand: Mapping[str, int],
    eligible: Eligible,
    offered: Sequence[Place],
    sharing: SharingRules,
    tasks: Tasks,
) -> list[Claimant]:
    """The trainers, grouped by their user (and account) and by what they ask of their nodes.

    A trainer may keep a node that it has even if it could not get it as a new one.
    """
    members = grouped((_key(request, sharing), request) for request in competing)
    may_use = [eligible[requests[0].needs] for requests in members.values()]
    number_of = {request.id: number for number, requests in enumerate(members.values()) for request in requests}
    keeps = _kept_besides(may_use, number_of, offered)
    found = []
    for (key, requests), fitting, others in zip(members.items(), may_use, keeps, strict=True):
        first, nodes = requests[0], fitting | others if others else fitting
        wants = tuple(SizeRange(request.id, request.trainer.min_nodes, demand[request.id]) for request in requests)
        task = tasks.of(first.needs)
        found.append(
            Claimant(
                key,
                _path(first, sharing),
                wants,
                nodes,
                capped_by=_capped_by(first, sharing),
                each=task.each,
                places=None if tasks.rooms is None else sum(want.max_nodes for want in wants),
                worth=task.worth,
                decided_with=key[:2] if tasks.rooms is None else None,
            )
        )
    return found


def _kept_besides(
    may_use: Sequence[Nodes], number_of: Mapping[str, int], offered: Sequence[Place]
) -> Sequence[set[str]]:
    """For each claimant the nodes that its trainers have although they do not meet their needs."""
    for_all = may_use[0].intersection(*may_use[1:]) if may_use else Nodes()
    keeps: list[set[str]] = [set() for _ in may_use]
    for place in offered:
        number = number_of.get(place.holder or "")
        if number is not None and place.name not in for_all and place.node not in may_use[number]:
            keeps[number].add(place.node)
    return keeps


def bounded(claimants: Iterable[Claimant], most: Mapping[Hashable, int], spare: int = 0) -> list[Claimant]:
    """The claimants, some of which take at most so many nodes, and ``spare`` more."""
    return [replace(claimant, most=most.get(claimant.key, inf) + spare) for claimant in claimants]


def shares_of(
    claimants: Iterable[Claimant], hours: Mapping[str, float], nodes: int, sharing: SharingRules
) -> Shares:
    """Weights, past use and limits of the claimants."""
    users_of: defaultdict[str, set[str]] = defaultdict(set)
    for claimant in claimants:
        for member in claimant.path:
            users_of[member].add(claimant.path[-1].removeprefix("user "))
    # An account's past use is that of its users who compete now: others take nothing from anybody.
    used = {member: sum(hours.get(user, 0.0) for user in users) for member, users in users_of.items()}
    weight: dict[str, float] = {}
    for place in ("account ", "user "):
        alike = [member for member in used if member.startswith(place)]
        granted = {member: sharing.shares.get(member.removeprefix(place), 1.0) for member in alike}
        # By account, the site's weights are those of accounts: within an account its users are equal.
        if place == "user " and sharing.by is FairShare.ACCOUNT:
            granted = dict.fromkeys(alike, 1.0)
        tilt = tilts({member: used[member] / granted[member] for member in alike}, nodes, sharing.half_life_s)
        weight.update({member: granted[member] * tilt[member] for member in alike})
    caps = {
        name: sharing.most_nodes_per_user if name.startswith("user ") else sharing.most_nodes_per_account
        for claimant in claimants
        for name in claimant.capped_by
    }
    return Shares(weight, used, caps)


def _key(request: Request, sharing: SharingRules) -> tuple[Hashable, ...]:
    splits = sharing.by is FairShare.ACCOUNT or sharing.most_nodes_per_account > 0
    person = person_of(request, sharing.by)
    return (person, request.account if person and splits else "", request.needs)


def _path(request: Request, sharing: SharingRules) -> tuple[str, ...]:
    user, account = f"user {request.owner}", f"account {request.account}"
    return {FairShare.USER: (user,), FairShare.ACCOUNT: (account, user), FairShare.OFF: ()}[sharing.by]


def _capped_by(request: Request, sharing: SharingRules) -> tuple[str, ...]:
    limits = {
        f"user {request.owner}": sharing.most_nodes_per_user,
        f"account {request.account}": sharing.most_nodes_per_account,
    }
    return tuple(name for name, most in limits.items() if most)


# A claimant waits so long for a place of its share, rather than that a task there begins again.
_SOON_S = 60.0


def with_settled(
    claimants: Sequence[Claimant], facts: Facts, offered: Iterable[Place], rules: NodeRules
) -> list[Claimant]:
    """The claimants with the places that they keep because their tasks there are soon over."""
    if len(claimants) < 2:
        return list(claimants)
    soon = {
        rules.place_of(fragment): fragment.trainer
        for fragment in facts.fragments
        if fragment.trainer in facts.request and _is_soon_over(fragment, facts.request[fragment.trainer], facts)
    }
    there = [offer for offer in offered if soon.get(offer.name, "") == offer.holder]
    return [
        replace(
            claimant,
            settled=tuple(
                offer.name
                for offer in there
                if offer.holder in claimant.trainers and offer.node in claimant.eligible
            ),
        )
        for claimant in claimants
    ]


def _is_soon_over(fragment: Fragment, request: Request, facts: Facts) -> bool:
    """Whether a fragment's task would lose all its work, and is expected to complete within a minute."""
    if fragment.state is not FragmentState.RUNNING or not 0.0 < request.task_s <= request.most_lost_s:
        return False
    # A task that has run for longer than expected may run for ever, so it does not count.
    return request.task_s - _SOON_S <= facts.ran_s(fragment) < max(request.task_s, _SOON_S)
