"""Selection: which trainers compete for nodes at this look, and what the others wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest

import numpy as np

from freetrain.core.lent_trainer import as_trainer, curve_of
from freetrain.core.objectives import find_objective
from freetrain.core.terms import terms_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.sharing.claimants import Sharing, person_of
from freetrain.daemon.trainers.entries import Entry
from freetrain.daemon.trainers.isolation import Fault, isolated
from freetrain.errors import InputError

_MOST_WORTH = 1e30
"""Sums of what is worth less stay far from the largest number."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer.

    Attributes:
        competing: trainers that may have nodes, as a policy sees them, in order of submission.
        waits_for: trainer that would like to compete → why it does not.
        faults: trainer that cannot compete → what is wrong with it.
    """

    competing: tuple[tuple[Entry, Trainer], ...]
    waits_for: Mapping[str, str]
    faults: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trainer that could run now.

    Attributes:
        entry: of the roster.
        trainer: as a policy sees it.
    """

    entry: Entry
    trainer: Trainer


def select(
    entries: Iterable[Entry],
    rooms: Mapping[str, int],
    reach: Mapping[str, int],
    offered_nodes: int,
    most: int,
    sharing: Sharing,
    hours: Mapping[str, float],
    objective: str,
) -> Selection:
    """Choose at most ``most`` trainers, one of each user after the other.

    1. Trainers that need more nodes at once than there are do not count.
    2. The user who had least comes first; of one user's trainers those that fit into his share come before the
       others, and older ones before newer ones.

    Args:
        entries: all trainers.
        rooms: trainer → most nodes it could have by what was submitted.
        reach: trainer → offered nodes that it may use, lent ones included.
        offered_nodes: all that are offered.
        most: how many may compete.
        sharing: what the site wants.
        hours: user → node-hours that he had, faded.
        objective: name of what is maximised.

    Raises:
        InputError: there is no such objective.
    """
    find_objective(objective)
    waits_for: dict[str, str] = {}
    faults: dict[str, str] = {}
    candidates: defaultdict[str, list[Candidate]] = defaultdict(list)
    for entry in entries:
        if entry.competes and entry.tag is not None:
            id_ = entry.trainer.id
            found = isolated(partial(_candidate, entry, rooms[id_], reach[id_], objective))
            if isinstance(found, Candidate):
                candidates[person_of(entry, sharing.by)].append(found)
            elif isinstance(found, Fault):
                faults[id_] = found.what
            else:
                waits_for[id_] = found
    share = offered_nodes // max(len(candidates), 1)
    queues = []
    for person in sorted(candidates, key=lambda person: hours.get(person, 0.0)):
        queue = sorted(candidates[person], key=lambda one: one.trainer.min_nodes > share)
        allowed = sharing.most_trainers_per_user or len(queue)
        queues.append(queue[:allowed])
        cap = f"its user has {allowed} trainings before it (lend.most_trainers_per_user)"
        waits_for.update({one.entry.trainer.id: cap for one in queue[allowed:]})
    in_turn = [one for one in chain.from_iterable(zip_longest(*queues)) if one is not None]
    waits_for.update(
        {one.entry.trainer.id: f"{most} trainings run before it (lend.max_running)" for one in in_turn[most:]}
    )
    chosen = {one.entry.trainer.id: one for one in in_turn[:most]}
    ordered = (chosen[entry.trainer.id] for entry in entries if entry.trainer.id in chosen)
    return Selection(tuple((one.entry, one.trainer) for one in ordered), waits_for, faults)


def _candidate(entry: Entry, room: int, reach: int, objective: str) -> Candidate | str:
    """The trainer as a policy sees it, or what it waits for."""
    assert entry.tag is not None
    tag = entry.tag
    most_nodes = min(tag.max_nodes or room, room)
    min_nodes = min(tag.min_nodes, max(most_nodes, 1)) if entry.is_drained else tag.min_nodes
    if entry.last_completed or not entry.is_active:
        most_nodes = min(max(len(entry.fragments), min_nodes), room)
    if min_nodes > most_nodes:
        return f"needs {min_nodes} nodes at once; it has tasks for {most_nodes}"
    if min_nodes > reach:
        there = f"{reach} {'is' if reach == 1 else 'are'} idle or lent"
        return f"needs {min_nodes} nodes at once; {there}" if reach else "no idle node that it may use"
    curve = curve_of(entry.trainer, tag.curve, most_nodes)
    costs_s = (tag.grow_s, tag.shrink_s, tag.start_s)
    trainer = as_trainer(entry.trainer, curve, min_nodes, most_nodes, costs_s, tag.weight)
    terms = terms_of((trainer,), objective)
    if not float(np.abs(terms.worth).max()) * max(1.0, *costs_s) <= _MOST_WORTH:
        raise InputError("its curve, weight and costs make numbers too large to decide with")
    return Candidate(entry, trainer)
