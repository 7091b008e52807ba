"""Selection: which trainers compete for nodes at this look, and what the others wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest

from freetrain.core.lent_trainer import as_trainer, curve_of
from freetrain.core.trainer import Trainer
from freetrain.daemon.roster import Entry
from freetrain.daemon.sharing import Sharing, person_of


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer.

    Attributes:
        competing: trainers that may have nodes, as a policy sees them, in order of submission.
        waits_for: trainer that would like to compete → why it does not.
    """

    competing: tuple[tuple[Entry, Trainer], ...]
    waits_for: Mapping[str, str]


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
    """
    waits_for: dict[str, str] = {}
    candidates: defaultdict[str, list[Candidate]] = defaultdict(list)
    for entry in entries:
        if entry.competes and entry.tag is not None:
            found = _candidate(entry, rooms[entry.trainer.id], reach[entry.trainer.id])
            if isinstance(found, Candidate):
                candidates[person_of(entry, sharing.by)].append(found)
            else:
                waits_for[entry.trainer.id] = found
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
    return Selection(tuple((one.entry, one.trainer) for one in ordered), waits_for)


def _candidate(entry: Entry, room: int, reach: int) -> Candidate | str:
    """The trainer as a policy sees it, or what it waits for."""
    assert entry.tag is not None
    tag = entry.tag
    most_nodes = min(tag.max_nodes or room, room)
    if entry.last_completed or not entry.is_active:
        most_nodes = max(len(entry.fragments), tag.min_nodes)
    if tag.min_nodes > most_nodes:
        return f"needs {tag.min_nodes} nodes at once; it has tasks for {most_nodes}"
    if tag.min_nodes > reach:
        there = f"{reach} {'is' if reach == 1 else 'are'} idle or lent"
        return f"needs {tag.min_nodes} nodes at once; {there}" if reach else "no idle node that it may use"
    curve = curve_of(entry.trainer, tag.curve, most_nodes)
    costs_s = (tag.grow_s, tag.shrink_s, tag.start_s)
    return Candidate(entry, as_trainer(entry.trainer, curve, tag.min_nodes, most_nodes, costs_s, tag.weight))
