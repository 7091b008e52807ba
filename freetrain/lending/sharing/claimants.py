"""Claimants: the trainers that compete, grouped by their user (and account) and by what their tasks ask of nodes.

Where more trainers could run than the site allows, one of each user is chosen in turn. The node-hours that
users had fade, and tilt their shares a little.

Tasks that are soon over keep their places, so that no task is ended for another user's share just before its end.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, zip_longest
from types import MappingProxyType

from freetrain.core.amounts import Amount, times_in
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.needs import NO_NEEDS, Needs, NodeKinds, kinds_of, nodes_meeting
from freetrain.core.node import Nodes
from freetrain.core.place import Place
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import FairShare, NodeRules, SharingRules
from freetrain.lending.sharing.claims import Claimant, Shares, SizeRange


@dataclass(frozen=True)
class Tasks:
    """Nodes that the tasks of all trainers may use, and the amounts that they take.

    Attributes:
        eligible: needs → the nodes that meet them.
        rooms: room of each node; None: nodes are lent whole.
        each: needs of tasks that are lent a part → amount of its node that each takes; the others take all of it.
        worth: the same → number of nodes as which each counts; the others count as one.
        capacity: node → what is left of it, together with what trainers hold that could run.
    """

    eligible: Mapping[Needs, Nodes] = field(default_factory=dict)
    rooms: Rooms | None = None
    each: Mapping[Needs, Amount] = field(default_factory=dict)
    worth: Mapping[Needs, float] = field(default_factory=dict)
    capacity: Mapping[str, Amount] = field(default_factory=dict)

    def reach(self, requests: Iterable[Request], held: Mapping[str, int]) -> Mapping[str, int]:
        """Trainer → the most nodes that it could get if no other trainer had any, or those that it has."""
        places = {needs: self._places(needs) for needs in self.eligible}
        return {request.id: max(places[request.needs], held[request.id]) for request in requests}

    def _places(self, needs: Needs) -> int:
        eligible, each = self.eligible[needs], self.each.get(needs)
        if self.rooms is None:
            return len(eligible)
        if each is None:
            return sum(name in self.rooms and not self.rooms[name].used_by_site for name in eligible)
        return sum(times_in(self.capacity[name], each) for name in eligible if name in self.capacity)


def find_tasks(
    requests: Sequence[Request], offered: Sequence[Place], rooms: Rooms | None, snapshot: Snapshot
) -> Tasks:
    """Nodes that the tasks of all trainers may use, and the amounts that they take."""
    places = [place.name for place in offered] if rooms is None else dict.fromkeys(place.node for place in offered)
    names = [name for name in places if name in snapshot.node]
    asked = {request.needs for request in requests}
    # Without needs every node will do: the nodes of a large machine need not be compared.
    if rooms is None and asked <= {NO_NEEDS}:
        return Tasks(dict.fromkeys(asked, frozenset(names)))
    kinds = kinds_of(snapshot.node[name] for name in names)
    eligible = {needs: nodes_meeting(needs, kinds) for needs in asked}
    if rooms is None or not kinds:
        return Tasks(eligible, rooms)
    tasks = {needs: _each_and_worth(needs, kinds) for needs in asked if needs.in_part}
    each = {needs: amount for needs, (amount, _) in tasks.items()}
    each_of = {request.id: each[request.needs] for request in requests if request.needs in each}
    capacity = {name: rooms[name].free for name in names if name in rooms}
    for place in offered:
        if place.holder in each_of and place.node in capacity:
            capacity[place.node] = capacity[place.node] + each_of[place.holder]
    return Tasks(eligible, rooms, each, {needs: worth for needs, (_, worth) in tasks.items()}, capacity)


def _each_and_worth(needs: Needs, kinds: NodeKinds) -> tuple[Amount, float]:
    """Largest amount that a task takes of the nodes that it can run on, and its part of the largest of these."""
    fitting = [kind[0] for kind in kinds if needs.fits(kind[0])] or [kind[0] for kind in kinds]
    each = max((needs.amount_on(node) for node in fitting), key=lambda amount: amount.cpus)
    return each, min(each.part_of(node.total) for node in fitting)


def person_of(request: Request, by: FairShare) -> str:
    """The user that shares with others; without fair share all users are one."""
    return "" if by is FairShare.OFF else request.owner


class LeftOut(StrEnum):
    """Reason why a trainer does not compete."""

    OUT_OF_REACH = "out of reach"
    """It needs more nodes at once than there are for it."""
    USERS_TRAININGS = "user's trainings"
    """Its user has as many others as may compete."""
    ALL_TRAININGS = "all trainings"
    """As many others compete as the site allows."""
    PARTITION_DOWN = "partition down"
    NODES_LEAVE = "nodes leave"
    """Some of its nodes are being given back, and it keeps all of them or none."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The trainers that compete, and the others.

    Attributes:
        competing: trainers that may have nodes, in order of submission.
        left_out: trainer that would like to compete → why it does not, for the code and as a sentence.
    """

    competing: tuple[Request, ...] = ()
    left_out: Mapping[str, tuple[LeftOut, str]] = field(default_factory=dict)


def select(
    requests: Iterable[Request],
    reach: Mapping[str, int],
    offered_nodes: int,
    sharing: SharingRules,
    hours: Mapping[str, float],
) -> Selection:
    """Choose as many trainers as the site allows, one of each user in turn.

    1. Trainers that need more nodes at once than there are do not count; the tasks of a filler count as one.
    2. The user with the least past use comes first. Of one user's trainers those that fit into its share come
       first, then older ones before newer ones.
    """
    requests = tuple(requests)
    left_out = {
        request.id: (LeftOut.OUT_OF_REACH, _out_of_reach(request.trainer.min_nodes, reach[request.id]))
        for request in requests
        if request.trainer.min_nodes > reach[request.id]
    }
    fitting = tuple(request for request in requests if request.id not in left_out)
    easiest = _easiest(fitting)
    if len(easiest) <= sharing.max_running and not sharing.most_trainers_per_user:
        return Selection(fitting, left_out)
    people = grouped((person_of(request, sharing.by), request) for request in easiest.values())
    share = offered_nodes // max(len(people), 1)
    queues = []
    for person in sorted(people, key=lambda person: hours.get(person, 0.0)):
        queue = sorted(people[person], key=lambda request: request.trainer.min_nodes > share)
        allowed = sharing.most_trainers_per_user or len(queue)
        queues.append(queue[:allowed])
        cap = f"its user has {allowed} trainings before it (lend.most_trainers_per_user)"
        left_out.update({request.id: (LeftOut.USERS_TRAININGS, cap) for request in queue[allowed:]})
    most = sharing.max_running
    in_turn = [request for request in chain.from_iterable(zip_longest(*queues)) if request is not None]
    full = f"{most} trainings run before it (lend.max_running)"
    left_out.update({request.id: (LeftOut.ALL_TRAININGS, full) for request in in_turn[most:]})
    chosen = {request.submission_id for request in in_turn[:most]}
    return Selection(tuple(request for request in fitting if request.submission_id in chosen), left_out)


def _easiest(fitting: Iterable[Request]) -> Mapping[str, Request]:
    """Submission → its request; of a filler, the task that needs the smallest number of nodes at once."""
    easiest: dict[str, Request] = {}
    for request in fitting:
        other = easiest.setdefault(request.submission_id, request)
        if request.trainer.min_nodes < other.trainer.min_nodes:
            easiest[request.submission_id] = request
    return easiest


def _out_of_reach(min_nodes: int, reach: int) -> str:
    if not reach:
        return "no idle node that it may use"
    return f"needs {min_nodes} nodes at once; {reach} {'is' if reach == 1 else 'are'} idle or lent"


def claimants_of(
    competing: Sequence[Request],
    demand: Mapping[str, int],
    offered: Sequence[Place],
    sharing: SharingRules,
    tasks: Tasks,
) -> list[Claimant]:
    """The trainers, grouped by their user (and account) and by what they ask of their nodes.

    A trainer may keep a node that it has even if it could not get it as a new one.
    """
    members = grouped((_key(request, sharing), request) for request in competing)
    may_use = [tasks.eligible[requests[0].needs] for requests in members.values()]
    number_of = {request.id: number for number, requests in enumerate(members.values()) for request in requests}
    keeps = _kept_besides(may_use, number_of, offered)
    found = []
    for (key, requests), fitting, others in zip(members.items(), may_use, keeps, strict=True):
        first, nodes = requests[0], fitting | others if others else fitting
        wants = tuple(SizeRange(request.id, request.trainer.min_nodes, demand[request.id]) for request in requests)
        found.append(
            Claimant(
                key,
                _path(first, sharing),
                wants,
                nodes,
                capped_by=_capped_by(first, sharing),
                each=tasks.each.get(first.needs),
                worth=tasks.worth.get(first.needs, 1.0),
                decided_with=key[:2] if tasks.rooms is None else None,
            )
        )
    return found


def _kept_besides(
    may_use: Sequence[Nodes], number_of: Mapping[str, int], offered: Sequence[Place]
) -> Sequence[set[str]]:
    """Per claimant: the nodes that its trainers have although they do not meet their needs."""
    for_all = may_use[0].intersection(*may_use[1:]) if may_use else Nodes()
    keeps: list[set[str]] = [set() for _ in may_use]
    for place in offered:
        number = number_of.get(place.holder or "")
        if number is not None and place.name not in for_all and place.node not in may_use[number]:
            keeps[number].add(place.node)
    return keeps


LEAST_TILT = 0.5
"""Least weight of a user, however much it has had, as a part of the weight of the user that had least."""

# In steps of 1/8, so that small changes of past use move no node.
_STEPS = 8

# Past use below this part of what all nodes together give in a half-life makes no difference.
_SMALL = 0.01


def faded_hours(from_s: float, until_s: float, now_s: float, half_life_s: float) -> float:
    """Node-hours of one node over a range of time, each of which counts half as much after every half-life."""
    if until_s <= from_s:
        return 0.0
    # The integral of exp(-rate * t) over the range, t before now.
    rate = math.log(2) / half_life_s
    return (math.exp(-rate * (now_s - until_s)) - math.exp(-rate * (now_s - from_s))) / rate / 3600


class PastUse:
    """Node-hours that users had, faded, summed up from one instant to the next.

    Between two instants a user has as many nodes as at the later one.
    """

    def __init__(self, half_life_s: float, now_s: float) -> None:
        self._half_life_s = half_life_s
        self._as_of_s = now_s
        self._hours: dict[str, float] = {}

    def after(self, now_s: float, nodes: Mapping[str, int]) -> Mapping[str, float]:
        """User → node-hours until now."""
        each = faded_hours(self._as_of_s, now_s, now_s, self._half_life_s)
        fade = 0.5 ** ((now_s - self._as_of_s) / self._half_life_s)
        self._hours = {
            user: self._hours.get(user, 0.0) * fade + nodes.get(user, 0) * each
            for user in dict.fromkeys((*self._hours, *nodes))
        }
        self._as_of_s = now_s
        return dict(self._hours)


def tilts(hours: Mapping[str, float], nodes: int, half_life_s: float) -> Mapping[str, float]:
    """Name → weight by past use, from :data:`LEAST_TILT` to 1; 1 for the name that had least.

    If all had about the same, all weigh the same. Since no weight is below half of another, no share is ever below
    half of an equal one.
    """
    if not hours:
        return {}
    least = min(hours.values())
    small = _SMALL * nodes * half_life_s / 3600 / len(hours)
    usual = max(sum(hours.values()) / len(hours), small, 1e-9)
    exact = {name: 2.0 ** (-(each - least) / usual) for name, each in hours.items()}
    return {name: max(LEAST_TILT, round(tilt * _STEPS) / _STEPS) for name, tilt in exact.items()}


def capped_beside(
    fragments: Iterable[Fragment], request: Mapping[str, Request], sharing: SharingRules
) -> Mapping[str, int]:
    """Limit → the number of these fragments that count in it."""
    own = (request[fragment.trainer] for fragment in fragments if fragment.trainer in request)
    return Counter(chain.from_iterable(_capped_by(owner, sharing) for owner in own))


def shares_of(
    claimants: Iterable[Claimant],
    hours: Mapping[str, float],
    nodes: int,
    sharing: SharingRules,
    beside: Mapping[str, int] = MappingProxyType({}),
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
    most = {"user": sharing.most_nodes_per_user, "account": sharing.most_nodes_per_account}
    caps = {
        name: max(0, most[name.partition(" ")[0]] - beside.get(name, 0))
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
