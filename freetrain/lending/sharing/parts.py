"""Parts: who gets which part of the offered nodes at a look, and what became of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain

from freetrain.core.aim import read_aim
from freetrain.core.deadlines import hurries_of
from freetrain.core.demand import demands
from freetrain.core.needs import has_gpus
from freetrain.core.place import Place, node_of
from freetrain.core.plan import Release
from freetrain.core.trainer import Trainer
from freetrain.lending.electricity import with_watts
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rules import Rules
from freetrain.lending.sharing.claimants import Eligible, bounded, claimants_of, shares_of
from freetrain.lending.sharing.dealing import Claimant, Deal, Shares, deal
from freetrain.lending.sharing.one_kind import keep_to_kinds
from freetrain.lending.sharing.soon_over import with_settled
from freetrain.lending.sharing.tasks import Tasks

_CONTENT_S = 600.0
"""So long a claimant is not asked again whether it wants nodes that it has just left."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a claimant took when it left some of its nodes.

    Attributes:
        trainers: that it had then, with their smallest sizes; with others it is asked again.
        took: nodes.
        until_s: how long that counts.
    """

    trainers: tuple[tuple[str, int], ...]
    took: int
    until_s: float


Together = tuple[Claimant, ...]
"""Claimants whose nodes are divided among them in one decision."""

LeftNodes = Mapping[Hashable, Left]
"""Claimant → what it took when it left some of its nodes."""


@dataclass(frozen=True)
class Served:
    """What became of a claimant at a look.

    Attributes:
        claimant: who.
        sizes: its trainers, and its owner's others among which the nodes were divided → how many each was given.
        dealt: how many nodes the policy could give them.
        caps: limit that counts its nodes → most nodes.
        has_rivals: whether others were dealt nodes that it may use.
        counts_power: whether a node is lent only for what is worth its electricity.
    """

    claimant: Claimant
    sizes: Mapping[str, int]
    dealt: int
    caps: Mapping[str, int]
    has_rivals: bool = False
    counts_power: bool = False

    @cached_property
    def lent_to(self) -> str:
        """Who has the nodes, in words."""
        others = [trainer for trainer, size in self.sizes.items() if size]
        if not others:
            return ""
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        return f", lent to {shown}"


@dataclass(frozen=True)
class Parts:
    """Who was dealt what.

    Claimants get what they are dealt together with others of the same owner that may use some of it.

    Attributes:
        claimants: who share with each other.
        shares: how.
        dealt: claimant → its nodes, and which nodes must change hands.
        offered: all nodes by name.
        left: claimants that left nodes lately.
        counts_power: whether a node is lent only for what is worth its electricity.
    """

    claimants: tuple[Claimant, ...] = ()
    shares: Shares = field(default_factory=Shares)
    dealt: Deal = field(default_factory=lambda: Deal({}, {}))
    offered: Mapping[str, Place] = field(default_factory=dict)
    left: LeftNodes = field(default_factory=dict)
    counts_power: bool = False

    def __iter__(self) -> Iterator[tuple[Together, tuple[Place, ...]]]:
        """Claimants that were dealt nodes, and these; those that others are giving up are held by nobody here."""
        for some in self.together:
            if names := [name for claimant in some for name in self.dealt.parts[claimant.key]]:
                yield some, _as_seen_by(some, [self.offered[name] for name in names])

    @cached_property
    def together(self) -> Sequence[Together]:
        """The claimants, those together whose nodes are divided among them in one decision.

        They are of one owner, and there are nodes that several of them may use.
        """
        found: list[Together] = []
        for claimant in self.claimants:
            joined = [some for some in found if any(map(partial(_compete, claimant), some))]
            others = [some for some in found if some not in joined]
            found = [*others, (*chain.from_iterable(joined), claimant)]
        order = {one.key: number for number, one in enumerate(self.claimants)}
        return sorted(found, key=lambda some: order[some[0].key])

    @property
    def releases(self) -> list[Release]:
        """Nodes that must be given up before anything is decided."""
        path_of = {claimant.key: claimant.path for claimant in self.claimants}
        own = {
            claimant.key: {want.trainer for claimant in some for want in claimant.wants}
            for some in self.together
            for claimant in some
        }
        names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for name, key in sorted(self.dealt.leaving.items()):
            if self.offered[name].holder in own.get(key, ()):  # that is decided
                continue
            path = path_of.get(key, ())
            why = "it cannot use them" if key is None else f"the share of {path[-1] if path else 'others'}"
            names[str(self.offered[name].holder), why].append(name)
        return [Release(tuple(nodes), why, trainer) for (trainer, why), nodes in names.items()]

    def with_left(self, sizes: Mapping[str, int], now_s: float) -> LeftNodes:
        """After all decisions: which claimants left nodes, and what they took.

        Args:
            sizes: trainer → how many nodes it has been given in all.
            now_s: UTC epoch seconds.
        """
        left = dict(self.left)
        for some in self.together:
            dealt = {claimant.key: len(self.dealt.parts[claimant.key]) for claimant in some}
            took = {claimant.key: sum(sizes.get(want.trainer, 0) for want in claimant.wants) for claimant in some}
            if sum(took.values()) < sum(dealt.values()):
                left |= {
                    claimant.key: Left(_trainers_of(claimant), took[claimant.key], now_s + _CONTENT_S)
                    for claimant in some
                    if took[claimant.key] < dealt[claimant.key]
                }
        return left

    def served(self, sizes: Mapping[str, int]) -> Iterator[Served]:
        """What became of each claimant.

        Args:
            sizes: trainer → how many nodes it has been given in all.
        """
        for some in self.together:
            keys = {claimant.key for claimant in some}
            dealt = sum(len(self.dealt.parts[key]) for key in keys)
            own = {want.trainer: sizes.get(want.trainer, 0) for claimant in some for want in claimant.wants}
            others = (names for key, names in self.dealt.parts.items() if key not in keys)
            theirs = set(map(node_of, chain.from_iterable(others)))
            for claimant in some:
                caps = {name: self.shares.caps[name] for name in claimant.capped_by}
                has_rivals = not claimant.eligible.isdisjoint(theirs)
                yield Served(claimant, own, dealt, caps, has_rivals, self.counts_power)


def deal_parts(
    facts: Facts,
    offered: Sequence[Place],
    competing: Sequence[Request],
    eligible: Eligible,
    left: LeftNodes,
    rules: Rules,
    tasks: Tasks,
) -> Parts:
    """Deal the offered nodes.

    A claimant gets more than it took when it left some only where nobody else wants more.

    Args:
        facts: of the look.
        offered: the nodes.
        competing: trainers that may have them.
        eligible: needs → the nodes that meet them.
        left: who left nodes, and how many it took.
        rules: how the site wants it done.
        tasks: how much of a node each of their tasks takes.
    """
    now_s, sharing = facts.snapshot.time_s, rules.sharing
    # Who needs no GPU takes nodes with GPUs last.
    gpus = {node.name for node in facts.snapshot.nodes if node.gres and has_gpus(node)}
    offered = sorted(offered, key=lambda one: one.node in gpus) if gpus else list(offered)
    held = Counter(offer.holder for offer in offered if offer.holder is not None)
    demand = _demand(facts, offered, [request.trainer for request in competing], held, rules, tasks)
    claimants = claimants_of(competing, demand, eligible, offered, sharing, tasks)
    claimants = keep_to_kinds(claimants, competing, offered, facts.snapshot, tasks)
    claimants = with_settled(claimants, facts, offered, rules.nodes)
    partition_nodes = len(rules.nodes.queue.among(facts.snapshot.partitions).nodes)
    shares = shares_of(claimants, facts.used_hours, partition_nodes, sharing)
    left = _still(left, claimants, now_s)
    most = {key: one.took for key, one in left.items()} if len(claimants) > 1 else {}
    dealt = deal(offered, bounded(claimants, most), shares, tasks.rooms, sharing.topology)
    spare = _places(claimants, tasks, len(offered)) - sum(map(len, dealt.parts.values()))
    if most and spare > 0:
        dealt = deal(offered, bounded(claimants, most, spare), shares, tasks.rooms, sharing.topology)
    every = {offer.name: offer for offer in (*offered, *dealt.new)}
    return Parts(tuple(claimants), shares, dealt, every, left, read_aim(rules.objective).energy > 0)


def _demand(
    facts: Facts,
    offered: Sequence[Place],
    trainers: Sequence[Trainer],
    held: Mapping[str, int],
    rules: Rules,
    tasks: Tasks,
) -> Mapping[str, int]:
    """Trainer → most nodes that it would take; parts of nodes as if they took no electricity."""
    aim, now_s = read_aim(rules.objective), facts.snapshot.time_s
    hurries = hurries_of(trainers, facts.done_samples, now_s, aim.deadlines)
    taking = with_watts(offered if tasks.rooms is None else (), facts.snapshot, rules.draw, rules.objective)
    watts = min((offer.watts for offer in taking), default=0.0)
    return demands(
        trainers, held, rules.objective, rules.horizon_s, hurries=hurries, watts=watts, changes=rules.changes
    )


def _places(claimants: Iterable[Claimant], tasks: Tasks, offered: int) -> int:
    """How many places there may be to deal; with nodes in parts, no more than all would take."""
    return offered if tasks.rooms is None else sum(claimant.places or 0 for claimant in claimants)


def _still(left: LeftNodes, claimants: Iterable[Claimant], now_s: float) -> LeftNodes:
    """Those that left nodes not long ago and have the same trainers."""
    if not left:
        return {}
    trainers = {claimant.key: _trainers_of(claimant) for claimant in claimants}
    return {key: one for key, one in left.items() if one.until_s > now_s and trainers.get(key) == one.trainers}


def _trainers_of(claimant: Claimant) -> tuple[tuple[str, int], ...]:
    return tuple((want.trainer, want.min_nodes) for want in claimant.wants)


def _compete(one: Claimant, other: Claimant) -> bool:
    """Whether one owner's claimants can take nodes from each other."""
    is_one_owner = one.decided_with is not None and one.decided_with == other.decided_with
    return is_one_owner and not one.eligible.isdisjoint(other.eligible)


def _as_seen_by(claimants: Together, nodes: Sequence[Place]) -> tuple[Place, ...]:
    own = {None, *(want.trainer for claimant in claimants for want in claimant.wants)}
    if own.issuperset([node.holder for node in nodes]):
        return tuple(nodes)
    return tuple(node if node.holder in own else replace(node, holder=None) for node in nodes)
