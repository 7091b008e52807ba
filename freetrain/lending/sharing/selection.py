"""Selection: which trainers compete for nodes at this look, and what the others wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from freetrain.lending.facts import Request
from freetrain.lending.rules import SharingRules
from freetrain.lending.sharing.claimants import person_of


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer.

    Attributes:
        competing: trainers that may have nodes, in order of submission.
        waits_for: trainer that would like to compete → why it does not.
    """

    competing: tuple[Request, ...] = ()
    waits_for: Mapping[str, str] = field(default_factory=dict)


def select(
    requests: Iterable[Request],
    reach: Mapping[str, int],
    offered_nodes: int,
    sharing: SharingRules,
    hours: Mapping[str, float],
) -> Selection:
    """Choose so many trainers, one of each user after the other.

    1. Trainers that need more nodes at once than there are do not count; the tasks of a filler count as one.
    2. The user who had least comes first; of one user's trainers those that fit into their share come before the
       others, and older ones before newer ones.

    Args:
        requests: all that could run, in order of submission.
        reach: trainer → offered nodes that it may use, lent ones included.
        offered_nodes: all that are offered.
        sharing: what the site wants.
        hours: user → node-hours that they had, faded.
    """
    requests = tuple(requests)
    waits_for = {
        request.id: _out_of_reach(request.trainer.min_nodes, reach[request.id])
        for request in requests
        if request.trainer.min_nodes > reach[request.id]
    }
    fitting = tuple(request for request in requests if request.id not in waits_for)
    easiest = _easiest(fitting)
    if len(easiest) <= sharing.max_running and not sharing.most_trainers_per_user:
        return Selection(fitting, waits_for)
    people: defaultdict[str, list[Request]] = defaultdict(list)
    for request in easiest.values():
        people[person_of(request, sharing.by)].append(request)
    share = offered_nodes // max(len(people), 1)
    queues = []
    for person in sorted(people, key=lambda person: hours.get(person, 0.0)):
        queue = sorted(people[person], key=lambda one: one.trainer.min_nodes > share)
        allowed = sharing.most_trainers_per_user or len(queue)
        queues.append(queue[:allowed])
        cap = f"its user has {allowed} trainings before it (lend.most_trainers_per_user)"
        waits_for.update({request.id: cap for request in queue[allowed:]})
    most = sharing.max_running
    in_turn = [one for one in chain.from_iterable(zip_longest(*queues)) if one is not None]
    waits_for.update(
        {request.id: f"{most} trainings run before it (lend.max_running)" for request in in_turn[most:]}
    )
    chosen = {request.submission_id for request in in_turn[:most]}
    return Selection(tuple(request for request in fitting if request.submission_id in chosen), waits_for)


def _easiest(fitting: Iterable[Request]) -> Mapping[str, Request]:
    """What was handed in → itself, or the task of it that needs the fewest nodes at once."""
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
