"""Stays: the times that nodes stay idle, and the frequency of size changes, learned from what was seen.

Of nodes that are lent in parts, GPUs are counted instead, or eighths of a node without GPUs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import exp, inf

import numpy as np

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Nodes
from freetrain.lending.facts import Facts
from freetrain.lending.rooms import LentParts, Rooms

# A prior: as if ten nodes had left after twenty minutes each.
_PRIOR_S, _PRIOR_LEFT = 1200.0, 10.0
HALF_LIFE_S = 86400.0
"""Seconds after which what was seen counts half."""

AGES_S = (0.0, 120.0, 300.0, 600.0, 1200.0, 2400.0, 4800.0, 9600.0, inf)
"""Bounds, in seconds, of the ages at which departures are counted apart: the time that a node has been idle."""
_BOUNDS_S = np.array(AGES_S)
# A prior at each age: as if ten departures had been seen that are as frequent there as they are on the whole.
_DOUBT_LEFT = 10.0
_CPU_UNITS = 8
"""Number of parts into which a node without GPUs is divided."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Idle time and departures of nodes while their age was within the same bounds.

    Attributes:
        idle_node_s: node-seconds that were idle, fading.
        left: nodes that were taken, fading.
    """

    idle_node_s: float = 0.0
    left: float = 0.0


@dataclass(frozen=True)
class Stays:
    """Time that nodes have been idle, and number of them that the site has taken.

    Nodes that are idle still count with their time so far. On the whole the time until a node is taken is
    estimated as if it did not depend on how long it has been idle: idle time by departures. Of a node whose age
    is known more is known (:meth:`remaining_s`).

    Attributes:
        by_age: idle time and departures by the nodes' age, for each of the bounds of ``AGES_S``, without a prior.
        seen_s: the last instant that is known, UTC epoch seconds; None: there was none.
        since_s: node that was idle then → time since which it was.
    """

    idle_node_s: float = _PRIOR_S * _PRIOR_LEFT
    left: float = _PRIOR_LEFT
    by_age: tuple[Seen, ...] = (Seen(),) * (len(AGES_S) - 1)
    seen_s: float | None = None
    since_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def expected_s(self) -> float:
        """Further seconds that an idle node is expected to stay, a whole number."""
        return max(1.0, float(round(self.idle_node_s / self.left)))

    @property
    def expected_by_age_s(self) -> float:
        """Further seconds that nodes which are idle now are expected to stay on average, each by its age."""
        if self.seen_s is None or not self.since_s:
            return self.expected_s
        remaining_s = [self.remaining_s(self.seen_s - since_s) for since_s in self.since_s.values()]
        return max(1.0, float(round(sum(remaining_s) / len(remaining_s))))

    def remaining_s(self, age_s: float) -> float:
        """Further seconds that a node is expected to stay that has been idle for so long.

        Within each of the bounds nodes leave at a constant rate *h*: one that has *w* seconds to go there stays
        (1 − exp(−hw)) / h of them on average, and reaches the next bound with probability exp(−hw).
        """
        at = bisect_right(AGES_S, age_s) - 1
        return _stay_s(self._rates[at], AGES_S[at + 1] - age_s, self._from_bound_s[at + 1])

    def stays(self, age_s: float, ahead_s: float) -> float:
        """The probability that a node that has been idle for so long is idle still so many seconds later."""
        leaves = sum(
            rate * max(0.0, min(to_s, age_s + ahead_s) - max(from_s, age_s))
            for rate, (from_s, to_s) in zip(self._rates, pairwise(AGES_S), strict=True)
        )
        return exp(-leaves)

    def after(self, now_s: float, idle: Nodes) -> Stays:
        """The stays after an instant at which these nodes are idle, lent ones included."""
        # In order, so that sums over them come out the same to the last digit each time.
        came = sorted(idle.difference(self.since_s))
        has_left = len(self.since_s) + len(came) > len(idle)
        return self.after_changes(now_s, came, set(self.since_s).difference(idle) if has_left else ())

    def after_changes(self, now_s: float, came: Iterable[str], gone: Collection[str]) -> Stays:
        """The stays after an instant: ``came`` have become idle before, ``gone`` were taken, all others stayed."""
        since_s = {**self.since_s, **dict.fromkeys(came, now_s)}
        ages_s = [now_s - since_s.pop(name) for name in gone]
        if self.seen_s is None:
            return replace(self, seen_s=now_s, since_s=since_s)
        passed_s = now_s - self.seen_s
        fades = 0.5 ** (passed_s / HALF_LIFE_S)
        idle_node_s = _by_age(self.seen_s, now_s, self.since_s.values())
        left = Counter(bisect_right(AGES_S, age_s) - 1 for age_s in ages_s)
        by_age = (
            Seen(fades * before.idle_node_s + spent_s, fades * before.left + left[at])
            for at, (before, spent_s) in enumerate(zip(self.by_age, idle_node_s, strict=True))
        )
        return Stays(
            fades * self.idle_node_s + passed_s * len(self.since_s),
            fades * self.left + len(ages_s),
            tuple(by_age),
            now_s,
            since_s,
        )

    @cached_property
    def _rates(self) -> tuple[float, ...]:
        usual = self.left / self.idle_node_s
        doubt_s = _DOUBT_LEFT / usual
        return tuple((stay.left + _DOUBT_LEFT) / (stay.idle_node_s + doubt_s) for stay in self.by_age)

    @cached_property
    def _from_bound_s(self) -> tuple[float, ...]:
        """Further seconds that a node is expected to stay that has just reached a bound, for each bound."""
        expected_s = [0.0]
        for rate, (from_s, to_s) in reversed(list(zip(self._rates, pairwise(AGES_S), strict=True))):
            expected_s.append(_stay_s(rate, to_s - from_s, expected_s[-1]))
        return tuple(reversed(expected_s))


def _stay_s(rate: float, bound_s: float, then_s: float) -> float:
    """Seconds that a node is expected to stay, leaving at this rate until the bound, where ``then_s`` are left."""
    reaches = exp(-rate * bound_s)
    return (1.0 - reaches) / rate + reaches * then_s


def _by_age(from_s: float, to_s: float, since_s: Iterable[float]) -> list[float]:
    """Node-seconds between two instants, for each of the bounds of the nodes' ages."""
    nodes = Counter(since_s)
    began_s = np.fromiter(nodes, dtype=float, count=len(nodes))[:, None]
    reached_s = np.minimum(to_s - began_s, _BOUNDS_S) - np.minimum(from_s - began_s, _BOUNDS_S)
    # Seconds up to each bound; the differences of neighbours are those between two bounds.
    reached: list[float] = (np.fromiter(nodes.values(), dtype=float, count=len(nodes)) @ reached_s).tolist()
    return [this - before for before, this in pairwise(reached)]


def idle_for_the_site(facts: Facts, ours: FragmentQueue, rooms: Rooms | None, lent: LentParts) -> Nodes:
    """Nodes that none of the site's jobs has, idle or lent to fragments; of shared ones, names of units."""
    if rooms is None:
        snapshot, held = facts.snapshot, {fragment.node for fragment in facts.fragments}
        seen = snapshot.idle.union(held.intersection(snapshot.node))
        return ours.among(snapshot.partitions).nodes & (seen - snapshot.site_nodes(ours))
    # A unit is a GPU, or an eighth of the CPUs of a node without GPUs.
    units = set()
    for name, room in rooms.items():
        free = sum((part.amount for part in lent.get(name, ())), room.free)
        count = free.gpus if room.total.gpus else _CPU_UNITS * free.cpus // max(room.total.cpus, 1)
        # Which of a node's GPUs a job has is not known: the last one to come free is the first to be taken
        # again.
        units |= {f"{name}/{number}" for number in range(count)}
    return frozenset(units)


def sizes_now(facts: Facts) -> Mapping[str, int]:
    """Trainer that can rescale → number of its nodes."""
    rescaling = {request.id for request in facts.requests if request.trainer.rescales}
    return Counter(
        fragment.trainer for fragment in facts.fragments if fragment.goes_on and fragment.trainer in rescaling
    )


# A prior: as if one trainer had changed its size after twenty minutes.
_PRIOR_CHANGES = 1.0


@dataclass(frozen=True, slots=True)
class SizeChanges:
    """Time that trainers have had nodes, and number of changes of their sizes, whatever the reason.

    Attributes:
        trainer_s: trainer-seconds with nodes, fading.
        changes: number of times that a trainer that had nodes got more of them or lost some, or all, fading.
        seen_s: the last instant that is known, UTC epoch seconds; None: there was none.
        sizes: trainer → number of nodes that it had then; those without nodes are left out.
    """

    trainer_s: float = _PRIOR_S * _PRIOR_CHANGES
    changes: float = _PRIOR_CHANGES
    seen_s: float | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def within(self, horizon_s: float) -> float:
        """Number of size changes that are expected of a trainer within a horizon, at least 1."""
        return max(1.0, horizon_s * self.changes / self.trainer_s)

    def after(self, now_s: float, sizes: Mapping[str, int]) -> SizeChanges:
        """The record after an instant at which trainers have so many nodes."""
        passed_s = 0.0 if self.seen_s is None else now_s - self.seen_s
        fades = 0.5 ** (passed_s / HALF_LIFE_S)
        changed = sum(sizes.get(trainer, 0) != nodes for trainer, nodes in self.sizes.items())
        return SizeChanges(
            fades * self.trainer_s + passed_s * len(self.sizes),
            fades * self.changes + changed,
            now_s,
            {trainer: nodes for trainer, nodes in sizes.items() if nodes},
        )
