"""GADGET as a policy for idle nodes: rings of whole nodes, by the concave utility of what has been done so far.

The utilities make a site's aim out of accumulated samples: their sum, or more for trainings that have done least.

The ring placer takes few leaves for each trainer, with ranks in the order of a ring that crosses each leaf once.
Where a site says what its links carry, sizes and nodes are decided together: rings get nodes whose links have room
for them, or fewer nodes, or none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from freetrain.core.decision import Allocation, NodeChooser, Placement, place, place_each
from freetrain.core.grouping import grouped
from freetrain.core.place import node_of
from freetrain.core.problem import Counts, Problem, Question
from freetrain.core.terms import Sizes, Table
from freetrain.core.topology import Topology, nodes_by_leaf, ring_order
from freetrain.core.trainer import Trainer
from freetrain.policies.ageing import PATIENCE_S, overdue_sizes, say_turns, serve_first
from freetrain.policies.aiming import HEEDED, asked_of
from freetrain.policies.gadget.links import LinkBooks, Links, PlacedRing, RingCosts, RingServer, in_gbit
from freetrain.policies.needs import TARGET, say_missing, work_of
from freetrain.policies.spread import best_by_tables
from freetrain.policies.stages import leaf_by_leaf, say_leaves

_MOST_ROUNDS = 8
# A ring that takes nothing costs nothing, and its gain per cost has to be finite.
_LEAST_COST = 1e-12


class RingPlacer:
    """Embeds each trainer's ring into the switches, in the method of GADGET (INFOCOM 2022).

    One leaf if one has room, the tightest that does; else as few as possible. Bandwidth is not considered here:
    :class:`ReservingGadget` does that.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """Nodes of each trainer on few leaves, in ring order."""
        placement = place(
            problem, counts, lambda there, count, beside: leaf_by_leaf(there, count, beside, self._topology, _rank)
        )
        return {trainer: ring_order(names, self._topology) for trainer, names in placement.items()}

    def explain(self, placement: Placement) -> Iterable[str]:
        """A sentence on trainers on several leaves."""
        return say_leaves(placement, self._topology)


def _rank(leaf: str, own: int, free: int, missing: int) -> tuple[int, bool, int, str]:
    """Sort key of a leaf: first those of the ring; then the tightest with room for the rest, else the roomiest."""
    return (-own, free < missing, free if free >= missing else -free, leaf)


class ReservingGadget:
    """GADGET for one look: sizes, nodes and bandwidth.

    1. The sizes are chosen that gain most utility, as if links carried anything, and each ring is embedded: on one
       leaf if one has room, else on few, on nodes whose links have room and leaves whose uplinks have.
    2. Trainers that get no new node reserve first, whatever they need: none is made smaller for bandwidth.
    3. The others follow in the order of utility per cost: their shares of nodes, of links and of uplinks. Who
       does not fit may have no more nodes than fit, and all sizes are chosen again.

    Args:
        weigh: utility of each trainer's sizes, and sentences on it.
        questions: all that is decided in this look: other rings keep their bandwidth until their turn.
    """

    needs_past = ("done_samples",)

    def __init__(
        self,
        weigh: Callable[[Problem], tuple[Table, tuple[str, ...]]],
        name: str,
        links: Links,
        questions: Sequence[Question],
    ) -> None:
        self._weigh, self._name, self._links = weigh, name, links
        self._places = Counter(offer.node for offers, _ in questions for offer in offers)
        self._rings = _standing(questions, links.topology)
        self._placement: Placement = {}

    def decide(self, problem: Problem) -> Allocation:
        """The sizes that gain most utility, of those whose rings fit."""
        self._placement = {}
        if not problem.held.size:
            return Allocation(problem.held, self._name)
        gains, notes = self._weigh(problem)
        refused: dict[str, str] = {}
        own = {trainer.id for trainer in problem.trainers}
        others = {id_: ring for id_, ring in self._rings.items() if id_ not in own}
        for number in range(_MOST_ROUNDS + len(own)):
            found = best_by_tables(problem, gains, self._name)
            turn = _Turn(problem, found.counts, self._books(others.values()), self._links.topology)
            limits = turn.book(gains)
            for row, (most, why) in limits.items():
                # Who is refused again and again gets no new node, so that this ends.
                most = most if number < _MOST_ROUNDS else int(problem.held_nodes[row])
                gains[row, most + 1 :] = -inf
                refused[problem.trainers[row].id] = why
            if not limits:
                break
        self._rings, self._placement = {**others, **turn.rings}, turn.placement
        return Allocation(found.counts, self._name, notes=(*notes, *refused.values()))

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """The nodes on whose links bandwidth was reserved when it was decided how many."""
        return self._placement

    def explain(self, placement: Placement) -> Iterable[str]:
        """Sentences on trainers on several leaves, and on the fullest links."""
        yield from say_leaves(placement, self._links.topology)
        books = self._books(self._rings.values())
        for what, left, most in (
            ("the link of", books.link, self._links.link_bytes_per_s),
            ("the uplink of", books.uplink, self._links.uplink_bytes_per_s),
        ):
            name = min(left, key=lambda name: (left[name], name), default="")
            if name and left[name] < most < inf:
                yield f"Reserved are up to {in_gbit(most - left[name])} of {in_gbit(most)} Gbit/s ({what} {name})."

    def _books(self, rings: Iterable[PlacedRing]) -> LinkBooks:
        leaf_of = self._links.topology.leaf_of
        servers = [RingServer(node, places, leaf_of(node)) for node, places in self._places.items()]
        books = LinkBooks(servers, self._links.link_bytes_per_s, self._links.uplink_bytes_per_s)
        for ring in rings:
            books.reserve(ring)
        return books


class _Turn:
    def __init__(self, problem: Problem, counts: Counts, books: LinkBooks, topology: Topology) -> None:
        self.rings: dict[str, PlacedRing] = {}
        self._problem, self._books, self._topology = problem, books, topology
        self._costs = RingCosts(books)
        self._sizes = counts.sum(axis=1).tolist()
        sized = zip(problem.trainers, self._sizes, strict=True)
        self._needs = {trainer.id: trainer.link_bytes_per_s(size) for trainer, size in sized}
        growing = np.flatnonzero((counts > problem.held).any(axis=1)).tolist()
        self._grows = {problem.trainers[row].id for row in growing}
        self._hoped = books.copied()
        for trainer, names in problem.held_names.items():
            self._take(names, self._needs.get(trainer, 0.0), ())
        self.placement = place_each(problem, counts, self._choice_of)

    def book(self, gains: Table) -> dict[int, tuple[int, str]]:
        """Reserve what fits; the row of each that does not → the most nodes that it may have, and why no more."""

        def order(row: int) -> tuple[bool, float, int]:
            gain = gains[row, self._sizes[row]] - gains[row, self._problem.held_nodes[row]]
            cost = max(self._costs.of(self._ring(row)), _LEAST_COST)
            return self._problem.trainers[row].id in self._grows, -float(gain) / cost, row

        limits = {}
        for row in sorted((row for row, size in enumerate(self._sizes) if size), key=order):
            trainer = self._problem.trainers[row]
            ring = self._ring(row)
            if trainer.id not in self._grows or self._books.has_room(ring):
                self._books.reserve(ring)
                self.rings[trainer.id] = ring
            else:
                most = self._fitting(row, ring)
                limits[row] = most, self._why(trainer, ring, most)
        return limits

    def _ring(self, row: int) -> PlacedRing:
        trainer = self._problem.trainers[row].id
        return _ring(self.placement.get(trainer, ()), self._needs[trainer], self._topology)

    def _choice_of(self, trainer: Trainer) -> NodeChooser:
        need = self._needs[trainer.id]
        if trainer.id not in self._grows:
            return self._few

        def choose(there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
            own = set(map(node_of, beside))
            roomy = [name for name in there if node_of(name) in own or self._hoped.link[node_of(name)] >= need]
            chosen = self._few(roomy if len(roomy) >= count else there, count, beside)
            if len(nodes_by_leaf((*beside, *chosen), self._topology)) > 1:
                leaves = set(map(self._topology.leaf_of, beside))
                leaves |= {leaf for leaf, left in self._hoped.uplink.items() if left >= need}
                reachable = [name for name in roomy if self._topology.leaf_of(name) in leaves]
                chosen = self._few(reachable, count, beside) if len(reachable) >= count else chosen
            self._take(chosen, need, beside)
            return chosen

        return choose

    def _few(self, there: Sequence[str], count: int, beside: Sequence[str]) -> Sequence[str]:
        """Places on few leaves and on few nodes of each: those on which it is, then those with most places."""
        own, places = set(map(node_of, beside)), Counter(map(node_of, there))
        in_order = {
            node: rank for rank, node in enumerate(sorted(places, key=lambda n: (n not in own, -places[n])))
        }
        by_node = sorted(there, key=lambda name: in_order[node_of(name)])
        return leaf_by_leaf(by_node, count, beside, self._topology, _rank)

    def _take(self, names: Iterable[str], need: float, beside: Sequence[str]) -> None:
        """Remember what these nodes of a ring, beside others of it, take of their links while others choose."""
        # The ring changes as a whole: as long as it is on one node it needs no link.
        self._hoped.release(_ring(beside, need, self._topology))
        self._hoped.reserve(_ring((*beside, *names), need, self._topology))

    def _fitting(self, row: int, ring: PlacedRing) -> int:
        """The number of its nodes that fit: at least those that it has, and less than it was to have."""
        trainer, books = self._problem.trainers[row], self._books
        held, need = self._problem.held_names.get(trainer.id, ()), ring.bytes_per_s
        own, leaf_of = set(map(node_of, held)), self._topology.leaf_of
        own_leaves = set(map(leaf_of, own))
        fitting = [count for node, count in ring.workers if own <= {node}]
        if all(books.link[node] >= need for node in own):
            names = (name for name in self.placement[trainer.id] if books.link[node_of(name)] >= need)
            fits = nodes_by_leaf(names, self._topology)
            reachable = {leaf for leaf in fits if books.uplink[leaf] >= need}
            fitting += [count for leaf, count in fits.items() if own_leaves <= {leaf}]
            fitting += [sum(fits[leaf] for leaf in reachable)] if own_leaves <= reachable else []
        most = min(max(fitting, default=0), ring.width - 1)
        return most if most >= max(trainer.min_nodes, len(held)) else len(held)

    def _why(self, trainer: Trainer, ring: PlacedRing, most: int) -> str:
        full = [f"the link of {name}" for name, _ in ring.workers if self._books.link[name] < ring.bytes_per_s]
        if ring.leaves > 1:
            leaves = sorted({self._topology.leaf_of(name) for name, _ in ring.workers})
            full += [f"the uplink of {leaf}" for leaf in leaves if self._books.uplink[leaf] < ring.bytes_per_s]
        return (
            f"{trainer.id} gets at most {most} instead of {ring.width} nodes: its ring would need "
            f"{in_gbit(ring.bytes_per_s)} Gbit/s, which {next(iter(full), 'a link')} does not have left."
        )


def _ring(names: Iterable[str], need: float, topology: Topology) -> PlacedRing:
    """The ring of these nodes, or parts of nodes; on one node it needs no link."""
    workers = Counter(map(node_of, ring_order(names, topology)))
    leaves = len(set(map(topology.leaf_of, workers)))
    return PlacedRing(tuple(workers.items()), leaves, need if len(workers) > 1 else 0.0)


def _standing(questions: Sequence[Question], topology: Topology) -> dict[str, PlacedRing]:
    held = grouped((offer.holder, offer.name) for offers, _ in questions for offer in offers)
    trainers = {trainer.id: trainer for _, asking in questions for trainer in asking}
    return {
        id_: _ring(names, trainers[id_].link_bytes_per_s(len(names)), topology)
        for id_, names in held.items()
        if id_ is not None and id_ in trainers
    }


_STEEPNESS = 9.0
"""Ratio of the slopes of the logarithm's utility at the start and at the target, less one."""
_HURRY = 1e-6
"""Weight of being done sooner beside being done by the horizon."""


@dataclass(frozen=True, slots=True)
class Utility:
    """A member of the alpha-fair family, 0 at the start and ``weight`` at the target, flat beyond it.

    With x the share of the target that is done it is the integral of 1/(1+9x)^alpha, scaled to 1.

    Attributes:
        alpha: 0: linear, so that nothing counts but the sum of what is done; 1: the logarithm, which is
            proportionally fair; the larger, the more those count that have done least.
    """

    alpha: float = 0.0

    def of(self, samples: float, target_samples: float, weight: float = 1.0) -> float:
        """Utility of so many samples; samples beyond the target count nothing."""
        reach = 1 + _STEEPNESS * min(max(samples / target_samples, 0.0), 1.0)
        # The limit of the family at 1, where its formula would divide by 0.
        if self.alpha == 1:
            return weight * math.log(reach) / math.log(1 + _STEEPNESS)
        power = 1 - self.alpha
        return float(weight * (reach**power - 1) / ((1 + _STEEPNESS) ** power - 1))


LINEAR = Utility(0.0)
LOG = Utility(1.0)
UTILITIES = {"linear": LINEAR, "log": LOG, "fair": Utility(2.0)}
"""Word → utility, the default first."""


class Gadget:
    """Each decision fills the time until the horizon with what adds most utility, rescaling costs taken off.

    The slot of GADGET (INFOCOM 2022) is the horizon here. How fast a ring is, is the trainer's own curve. Of
    divisions that gain the same utility until the horizon it takes the one that is done sooner: the horizon may be
    hours away, and it is decided again as soon as a trainer is complete.

    Args:
        utility: of the part of its target that a trainer has done, a word of ``UTILITIES``.
        patience: seconds after which a trainer that has not had its turn comes first; 0: never.
    """

    needs_past = ("done_samples",)
    heeds = HEEDED
    weighs = "the utility gained until the horizon"

    def __init__(self, utility: str = "linear", patience: float = PATIENCE_S, name: str = "gadget") -> None:
        self._utility = UTILITIES[utility]
        self._patience_s = patience
        self._name = name

    def decide(self, problem: Problem) -> Allocation:
        """Sizes that gain most utility together."""
        if not problem.held.size:
            return Allocation(problem.held, self._name)
        values, notes = self._values(problem)
        return best_by_tables(problem, values, self._name, notes)

    def reserving(self, links: Links, questions: Sequence[Question]) -> ReservingGadget:
        """The same policy with bandwidth reserved on the links, for one look."""
        return ReservingGadget(self._values, self._name, links, questions)

    def weigh(self, problem: Problem) -> Table:
        """Utility gained until the horizon by size, shape (trainers, sizes); -inf: the size is not looked at."""
        terms, held_nodes, work = problem.terms, problem.held_nodes, work_of(problem)
        slot_s = float(np.average([node_class.life_s for node_class in problem.classes], weights=problem.capacity))
        gains = np.zeros(terms.worth.shape)
        for row, trainer in enumerate(problem.trainers):
            done, target = float(work.done_samples[row]), float(work.target_samples[row])
            before = self._utility.of(done, target, trainer.weight)
            held = int(held_nodes[row])
            rate_now = trainer.rate(held)
            for size in np.flatnonzero(terms.possible[row]).tolist():
                rate, lost_s = trainer.rate(size), trainer.change_s(held, size)
                more = rate * slot_s - rate_now * lost_s if rate_now else rate * max(slot_s - lost_s, 0.0)
                hurry = _HURRY * trainer.weight * more / target
                gains[row, size] = self._utility.of(done + more, target, trainer.weight) - before + hurry
        allowed = np.arange(terms.worth.shape[1]) <= work.most_nodes[:, None]
        return np.where(allowed, asked_of(problem).heed(gains), -np.inf)

    def _values(self, problem: Problem) -> tuple[Table, tuple[str, ...]]:
        values = self.weigh(problem)
        turns: Sizes = overdue_sizes(problem, problem.terms.possible & np.isfinite(values), self._patience_s)
        notes = (*say_missing((TARGET,), problem.trainers), *say_turns(problem, turns))
        return serve_first(values, turns), notes
