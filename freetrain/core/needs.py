"""Needs: what one task of a trainer asks of its node, and which nodes have it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter

from freetrain.core.amounts import GPU, Amount, Gres, count_gres, times_in
from freetrain.core.grouping import grouped
from freetrain.core.node import Node, Nodes


@dataclass(frozen=True)
class Needs:
    """Needs of one task. What is 0 or empty is not asked for.

    Attributes:
        features: its constraint, in Slurm's words.
        cpus: CPUs that its processes need together.
        threads_per_core: threads of each core that it uses; the node may have more.
        is_whole: whether Slurm gives it whole nodes without further options.
        in_parts: reason why Slurm would give it only part of a node, whatever its options; empty: it would not.
        unclear: part of the request that cannot be understood, so that no node is known to meet it; empty: none.
        held_back: resource in its request that Slurm takes from no job by preemption; it is lent nothing then.
        in_part: whether it is lent just what Slurm gives it, rather than whole nodes.
        given_cpus: CPUs that Slurm gives it by itself, where it says so; that may be more than it asks for. Where
            whole nodes are lent, this and the next make no difference.
        given_memory_mb: memory that Slurm gives it, whether or not it asks for any.
        takes_memory: whether what it has of the memory no other has.
    """

    features: str = ""
    gres: Gres = ()
    cpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    excluded: Nodes = frozenset()
    is_whole: bool = True
    in_parts: str = ""
    unclear: str = ""
    held_back: str = ""
    in_part: bool = False
    processes: int = field(default=1, compare=False)
    given_cpus: int = field(default=0, compare=False)
    given_memory_mb: int = field(default=0, compare=False)
    takes_memory: bool = True

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self) if field.compare))

    def __hash__(self) -> int:
        # Found out once: each trainer's needs are looked up again and again.
        return self._hash

    def met_by(self, node: Node) -> bool:
        """Whether a task can run on the node, and hold all of it where it is not lent a part."""
        # Slurm gives a process of one CPU all CPUs of the node. To several, or larger ones, some versions give
        # what they asked for, and the rest to others.
        return self.fits(node) and (
            self.in_part
            or self.is_whole
            or (not self.in_parts and (self.cpus <= 1 or self.cpus == self.usable_cpus(node)))
        )

    def amount_on(self, node: Node) -> Amount:
        """The amount of the node that a task gets; Slurm gives whole cores."""
        if not self.in_part:
            return node.total
        cpus, threads = max(self.cpus, 1), max(node.threads_per_core, 1)
        return Amount(-(-cpus // threads) * threads, self.memory_mb if self.takes_memory else 0, self.gres)

    def lent_in_part(self, takes_memory: bool = True) -> Needs:
        """The needs of the same task if it is lent just what Slurm gives it by itself.

        Where Slurm does not share a node's memory out (``takes_memory``), it shows each task with all of it.
        """
        cpus = max(self.cpus, self.given_cpus)
        memory_mb = max(self.memory_mb, self.given_memory_mb) if takes_memory else self.memory_mb
        return replace(self, in_part=True, cpus=cpus, memory_mb=memory_mb, takes_memory=takes_memory)

    def fits(self, node: Node) -> bool:
        """Whether a task can run on the node, on all of it or on a part."""
        return (
            not self.unclear
            and not self.held_back
            and node.name not in self.excluded
            # None, a constraint that is not understood, admits no node.
            and meets_constraint(self.features, node.features) is True
            and all(count_gres(node.gres, name) >= count for name, count in self.gres)
            and self.cpus <= self.usable_cpus(node)
            and self.memory_mb <= node.memory_mb
            and self.disk_mb <= node.disk_mb
            and self.sockets <= node.sockets
            and self.cores_per_socket <= node.cores_per_socket
            and self.threads_per_core <= node.threads_per_core
        )

    def usable_cpus(self, node: Node) -> int:
        """CPUs of the node that the task could use: a task may ask for one thread of each core only."""
        if not 0 < self.threads_per_core < node.threads_per_core:
            return node.cpus
        return node.cpus * self.threads_per_core // node.threads_per_core

    @cached_property
    def gpus(self) -> int:
        """GPUs of all types that it asks for."""
        return count_gres(self.gres, GPU)

    @cached_property
    def named_features(self) -> frozenset[str]:
        """The features that its constraint names."""
        return frozenset(re.findall(r"[^&|()\[\]\s*!,]+", self.features))

    @property
    def request(self) -> str:
        """The needs in words."""
        amounts = (
            *((f"{count} × {name}", count) for name, count in self.gres),
            (f"{self.cpus} CPUs", self.cpus > 1),
            (f"{self.memory_mb} MB of memory", self.memory_mb),
            (f"{self.disk_mb} MB of disk", self.disk_mb),
            (f"{self.sockets} sockets", self.sockets),
            (f"{self.cores_per_socket} cores per socket", self.cores_per_socket),
            (f"{self.threads_per_core} threads per core", self.threads_per_core),
            (f"constraint {self.features}", self.features),
            (f"{len(self.excluded)} nodes excluded", self.excluded),
        )
        return ", ".join(words for words, given in amounts if given)


NO_NEEDS = Needs()
"""The needs of a task that asks for nothing."""

_hardware = attrgetter(
    "features", "gres", "cpus", "memory_mb", "disk_mb", "sockets", "cores_per_socket", "threads_per_core"
)
"""Equal for nodes that can run the same tasks."""

NodeKinds = Sequence[Sequence[Node]]
"""Nodes of equal hardware together: one of each is looked at, however many there are."""


def kinds_of(nodes: Iterable[Node]) -> NodeKinds:
    """The nodes by their hardware."""
    return list(grouped((_hardware(node), node) for node in nodes).values())


def nodes_meeting(needs: Needs, kinds: NodeKinds) -> Nodes:
    """The names of those nodes on which such a task can run."""
    # Nodes of a kind differ in their names alone, so excluded names are taken off in the end.
    anywhere = replace(needs, excluded=frozenset())
    return frozenset(node.name for kind in kinds if anywhere.met_by(kind[0]) for node in kind) - needs.excluded


def most_places(needs: Needs, kinds: NodeKinds) -> int:
    """The number of such tasks that could run on these nodes if nothing else did."""
    return sum(times_in(kind[0].total, needs.amount_on(kind[0])) * len(kind) for kind in kinds)


def find_misfit(needs: Needs, kinds: NodeKinds) -> str:
    """Reason why none of these nodes can ever run such a task, a clause for its owner; empty: some can."""
    if meets_constraint(needs.features, frozenset()) is None:
        return f"freetrain cannot tell which nodes meet --constraint={needs.features}: join names by & or | only"
    if needs.unclear:
        return f"freetrain cannot tell which nodes can run it: {needs.unclear}"
    if needs.held_back:
        why = "freetrain gives back nodes alone, so the site's jobs would wait for it"
        return f"it asks for {needs.held_back}: {why}"
    admitted = [next((node for node in kind if node.name not in needs.excluded), None) for kind in kinds]
    nodes = [node for node in admitted if node is not None]
    if any(map(needs.met_by, nodes)):
        return ""
    if any(map(needs.fits, nodes)):
        why = needs.in_parts or f"{needs.cpus} CPUs do not fill one"
        return f"Slurm would lend it parts of nodes ({why}): submit it with --exclusive"
    return f"no node of the partition can run it: it asks for {needs.request} of one node"


def has_gpus(node: Node) -> bool:
    """Whether the node has GPUs."""
    return bool(node.gres) and count_gres(node.gres, GPU) > 0


def meets_constraint(text: str, present: frozenset[str]) -> bool | None:
    """Whether one node with these features meets a constraint; None: the constraint is not understood.

    Names joined by ``&`` and ``|`` are, from left to right as Slurm takes them, with parentheses. Brackets, which
    tell the nodes of a job apart from each other, mean the same for a job of one node. Counts and ``!`` are not.
    """
    tokens = re.findall(r"[^&|()\[\]\s]+|[&|()]", text.replace("[", "(").replace("]", ")"))
    if not tokens:
        return True
    if any(re.search(r"[*!,]", token) for token in tokens):
        return None
    try:
        met = _any_or_all(tokens, present)
    except IndexError:
        return None
    return None if tokens else met


def _any_or_all(tokens: list[str], present: frozenset[str]) -> bool:
    met = _operand(tokens, present)
    while tokens and tokens[0] in "&|":
        joint = tokens.pop(0)
        # Read in any case: `and` and `or` would skip it, and leave its tokens.
        other = _operand(tokens, present)
        met = met and other if joint == "&" else met or other
    return met


def _operand(tokens: list[str], present: frozenset[str]) -> bool:
    token = tokens.pop(0)
    if token != "(":
        return token in present
    met = _any_or_all(tokens, present)
    if tokens.pop(0) != ")":
        raise IndexError
    return met
