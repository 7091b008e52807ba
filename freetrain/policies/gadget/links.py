"""Links: what those between nodes and switches carry, and the bandwidth that rings reserve on them.

Reservations are in freetrain's books only: no switch enforces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

from freetrain.core.problem import Question
from freetrain.core.topology import FLAT, Topology
from freetrain.policies.stages import Placer, Policy

_BYTES_OF_A_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True)
class Links:
    """Bandwidth of the links, each way.

    Attributes:
        link_bytes_per_s: of a node's link to its switch; infinite: unknown.
        uplink_bytes_per_s: of a leaf switch's links to the others, all together; infinite: unknown.
    """

    link_bytes_per_s: float = inf
    uplink_bytes_per_s: float = inf
    topology: Topology = FLAT

    @classmethod
    def of_gbit(cls, node_gbit: float, uplink_gbit: float, topology: Topology) -> Links:
        """Links of so many Gbit/s; 0: unknown."""
        # A link of which nothing is known carries anything.
        return cls(node_gbit * _BYTES_OF_A_GBIT or inf, uplink_gbit * _BYTES_OF_A_GBIT or inf, topology)

    @property
    def are_known(self) -> bool:
        """Whether anything can be reserved."""
        return min(self.link_bytes_per_s, self.uplink_bytes_per_s) < inf


UNKNOWN_LINKS = Links()


def in_gbit(bytes_per_s: float) -> str:
    """The bandwidth in Gbit/s, as text."""
    return f"{bytes_per_s / _BYTES_OF_A_GBIT:.3g}"


class Reserving(Policy, Placer, Protocol):
    """Decides the nodes with their number, since bandwidth is reserved on the links of just these."""


@runtime_checkable
class CanReserve(Protocol):
    """A policy that can reserve bandwidth."""

    def reserving(self, links: Links, questions: Sequence[Question]) -> Reserving:
        """The same policy with bandwidth reserved, for one look; all of its questions may share links."""


def with_links(
    policy: Policy, placer: Placer, links: Links, questions: Sequence[Question]
) -> tuple[Policy, Placer]:
    """The policy and the placer to use: one that reserves bandwidth is both."""
    if not links.are_known or not isinstance(policy, CanReserve):
        return policy, placer
    both = policy.reserving(links, questions)
    return both, both


@dataclass(frozen=True, slots=True)
class RingServer:
    """A server with places for so many workers."""

    name: str
    places: int
    leaf: str = ""


@dataclass(frozen=True, slots=True)
class PlacedRing:
    """A ring that has found its servers.

    Attributes:
        workers: (server, workers on it), in the order of their ranks: servers of a leaf follow each other, so that
            the ring enters and leaves each leaf once.
        bytes_per_s: reserved on the link of each server, and on the uplink of each leaf; 0: none is needed.
    """

    workers: tuple[tuple[str, int], ...]
    leaves: int
    bytes_per_s: float

    @property
    def width(self) -> int:
        """Number of workers."""
        return sum(workers for _, workers in self.workers)

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.workers)


class LinkBooks:
    """The free places and the free bandwidth at one moment."""

    def __init__(self, servers: Iterable[RingServer], link_bytes_per_s: float, uplink_bytes_per_s: float) -> None:
        self.servers = {server.name: server for server in servers}
        self.free = {server.name: server.places for server in self.servers.values()}
        self.link = dict.fromkeys(self.servers, link_bytes_per_s)
        self.uplink = dict.fromkeys(sorted({server.leaf for server in self.servers.values()}), uplink_bytes_per_s)
        self.link_bytes_per_s = link_bytes_per_s

    def copied(self) -> LinkBooks:
        """Books of their own with the same reservations."""
        books = copy(self)
        books.free, books.link, books.uplink = dict(self.free), dict(self.link), dict(self.uplink)
        return books

    def reserve(self, ring: PlacedRing) -> None:
        """A ring takes its places and its bandwidth."""
        self._book(ring, 1)

    def has_room(self, ring: PlacedRing) -> bool:
        """Whether the ring could have its places and its bandwidth."""
        if any(workers > self.free[name] for name, workers in ring.workers):
            return False
        if any(ring.bytes_per_s > self.link[name] for name, _ in ring.workers):
            return False
        return ring.leaves == 1 or all(ring.bytes_per_s <= self.uplink[leaf] for leaf in self._leaves(ring))

    def release(self, ring: PlacedRing) -> None:
        """Give back the places and the bandwidth of a ring."""
        self._book(ring, -1)

    def _book(self, ring: PlacedRing, times: int) -> None:
        for name, workers in ring.workers:
            self.free[name] -= times * workers
            self.link[name] -= times * ring.bytes_per_s
        if ring.leaves > 1:
            for leaf in self._leaves(ring):
                self.uplink[leaf] -= times * ring.bytes_per_s

    def _leaves(self, ring: PlacedRing) -> set[str]:
        return {self.servers[name].leaf for name, _ in ring.workers}


class RingCosts:
    """Costs of rings: their shares of all places, links and uplinks."""

    def __init__(self, books: LinkBooks) -> None:
        self._places = max(sum(books.free.values()), 1)
        self._links, self._uplinks = sum(books.link.values()), sum(books.uplink.values())

    def of(self, ring: PlacedRing | None) -> float:
        """The cost of one ring; of none, 0."""
        if ring is None:
            return 0.0
        cost = ring.width / self._places
        if ring.bytes_per_s:
            cost += ring.servers * ring.bytes_per_s / max(self._links, ring.bytes_per_s)
            if ring.leaves > 1:
                cost += ring.leaves * ring.bytes_per_s / max(self._uplinks, ring.bytes_per_s)
        return cost
