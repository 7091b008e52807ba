"""Selection: the trainers that compete for nodes at this look, and the reasons why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, zip_longest

from freetrain.core.grouping import grouped
from freetrain.lending.facts import Request
from freetrain.lending.rules import SharingRules
from freetrain.lending.sharing.claimants import person_of


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
