"""The dealer: who gets which part of the nodes at each look, and what became of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from freetrain.core.dealing import Claimant, Deal, Shares, deal
from freetrain.core.demand import demands
from freetrain.core.needs import has_gpus
from freetrain.core.problem import Offer
from freetrain.daemon.sharing.claimants import Eligible, bounded, claimants_of, shares_of
from freetrain.daemon.sharing.past_use import PastUse
from freetrain.daemon.sharing.why_waiting import Served, waits_for
from freetrain.daemon.sight import Manners, Sight
from freetrain.store.ledger import Ledger

_CONTENT_S = 600.0
"""So long a claimant is not asked again whether it wants nodes that it has just left."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a claimant was dealt.

    Attributes:
        claimant: who.
        nodes: its nodes; those that others are giving up for it are held by nobody here.
    """

    claimant: Claimant
    nodes: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Nodes that a trainer must give up.

    Attributes:
        trainer: who has them.
        nodes: which.
        why: for the audit.
    """

    trainer: str
    nodes: frozenset[str]
    why: str


@dataclass(frozen=True, slots=True)
class _Left:
    """What a claimant took when it left some of its nodes.

    Attributes:
        trainers: that it had then; with others it is asked again.
        took: nodes.
        until_s: how long that counts.
    """

    trainers: tuple[tuple[str, int], ...]
    took: int
    until_s: float


class Dealer:
    """Deals at each look, and keeps in mind who left nodes that he could have.

    Args:
        ledger: knows what everybody has had.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._past_use = PastUse(ledger)
        self._left: dict[Hashable, _Left] = {}
        self._claimants: Sequence[Claimant] = ()
        self._shares = Shares()
        self._deal = Deal({}, {})
        self._offered: Mapping[str, Offer] = {}
        self._sizes: Counter[str] = Counter()

    def hours(self, now_s: float, manners: Manners) -> Mapping[str, float]:
        """User → node-hours that he had, faded."""
        return self._past_use.hours(now_s, manners.sharing.half_life_s)

    def deal(self, sight: Sight, eligible: Eligible, manners: Manners) -> list[Move]:
        """Deal the offered nodes; what has to change hands before anything is decided.

        A claimant gets more than it took when it left some only where nobody else wants more.

        Args:
            sight: with the nodes and the trainers.
            eligible: needs → the nodes that meet them.
            manners: how the site wants it done.
        """
        now_s, facts = sight.snapshot.time_s, sight.snapshot.node
        # Who needs no GPU takes nodes with GPUs last.
        offered = sorted(sight.lendable.offered, key=lambda node: has_gpus(facts[node.name]))
        held = Counter(node.held_by for node in offered if node.held_by is not None)
        trainers = [trainer for _, trainer in sight.competing]
        demand = demands(trainers, held, manners.objective, manners.horizon_s)
        claimants = claimants_of(sight.competing, demand, eligible, offered, manners.sharing)
        partition_nodes = len(sight.snapshot.partitions[manners.rules.partition].nodes)
        self._shares = shares_of(claimants, self.hours(now_s, manners), partition_nodes, manners.sharing)
        self._claimants = claimants
        self._offered = {node.name: node for node in offered}
        self._sizes = Counter()
        most = self._still_left(now_s)
        self._deal = deal(offered, bounded(claimants, most), self._shares)
        spare = len(offered) - sum(map(len, self._deal.parts.values()))
        if most and spare:
            self._deal = deal(offered, bounded(claimants, most, spare), self._shares)
        return self._moves()

    @property
    def parts(self) -> list[Part]:
        """Claimants that were dealt nodes, and these."""
        return [
            Part(one, _as_seen_by(one, map(self._offered.__getitem__, names)))
            for one in self._claimants
            if (names := self._deal.parts[one.key])
        ]

    def note_change(self, trainer: str, nodes: int) -> None:
        """A decision gave a trainer so many nodes more, or less."""
        self._sizes[trainer] += nodes

    def conclude(self, now_s: float) -> Mapping[str, str]:
        """After all decisions: what each trainer that competed and got nothing waits for."""
        before = Counter(node.held_by for part in self.parts for node in part.nodes if node.held_by is not None)
        waiting: dict[str, str] = {}
        for one in self._claimants:
            dealt = len(self._deal.parts[one.key])
            sizes = {want.trainer: before[want.trainer] + self._sizes[want.trainer] for want in one.wants}
            took = sum(sizes.values())
            if took < dealt:
                self._left[one.key] = _Left(_trainers_of(one), took, now_s + _CONTENT_S)
            caps = {name: self._shares.caps[name] for name in one.capped_by}
            waiting.update(waits_for(Served(one, sizes, dealt, caps)))
        return waiting

    def _still_left(self, now_s: float) -> Mapping[Hashable, int]:
        """Claimant → how many nodes it took when it left some, if that is not long ago."""
        trainers = {one.key: _trainers_of(one) for one in self._claimants}
        self._left = {
            key: left
            for key, left in self._left.items()
            if left.until_s > now_s and trainers.get(key) == left.trainers
        }
        return {key: left.took for key, left in self._left.items()}

    def _moves(self) -> list[Move]:
        path_of = {one.key: one.path for one in self._claimants}
        names: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for name, key in self._deal.leaving.items():
            path = path_of.get(key, ())
            why = "it cannot use them" if key is None else f"the share of {path[-1] if path else 'others'}"
            names[str(self._offered[name].held_by), why].add(name)
        return [Move(trainer, frozenset(nodes), why) for (trainer, why), nodes in names.items()]


def _trainers_of(claimant: Claimant) -> tuple[tuple[str, int], ...]:
    return tuple((want.trainer, want.fewest) for want in claimant.wants)


def _as_seen_by(claimant: Claimant, nodes: Iterable[Offer]) -> tuple[Offer, ...]:
    own = {want.trainer for want in claimant.wants}
    return tuple(
        node if node.held_by is None or node.held_by in own else replace(node, held_by=None) for node in nodes
    )
