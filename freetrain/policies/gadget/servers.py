"""Servers, what is free on them, and the bandwidth that rings reserve: books only, no switch enforces them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Server:
    """A server.

    Attributes:
        name: its name.
        places: how many workers it has room for.
        leaf: the switch that it is connected to.
    """

    name: str
    places: int
    leaf: str = ""


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring that has found its servers.

    Attributes:
        workers: (server, workers on it), in the order of their ranks: servers of a leaf follow each other, so that
            the ring enters and leaves each leaf once.
        leaves: how many leaves that are.
        bytes_per_s: reserved on the link of each server, and on the uplink of each leaf; 0: none is needed.
    """

    workers: tuple[tuple[str, int], ...]
    leaves: int
    bytes_per_s: float

    @property
    def width(self) -> int:
        """How many workers."""
        return sum(workers for _, workers in self.workers)

    @property
    def servers(self) -> int:
        """How many servers."""
        return len(self.workers)


class Books:
    """What is free at one moment, of places and of bandwidth.

    Args:
        servers: all there are.
        link_bytes_per_s: of each server's link to its leaf.
        uplink_bytes_per_s: of each leaf's link to the others.
    """

    def __init__(self, servers: Iterable[Server], link_bytes_per_s: float, uplink_bytes_per_s: float) -> None:
        self.servers = {server.name: server for server in servers}
        self.free = {server.name: server.places for server in self.servers.values()}
        self.link = dict.fromkeys(self.servers, link_bytes_per_s)
        self.uplink = dict.fromkeys(sorted({one.leaf for one in self.servers.values()}), uplink_bytes_per_s)
        self.link_bytes_per_s = link_bytes_per_s

    def embed(self, width: int, bytes_per_s: float) -> Ring | None:
        """Servers for a ring, nothing reserved yet: one server before one leaf before few leaves; None: no room.

        Within each, the tightest that has room, and few servers.
        """
        if fitting := [name for name, free in self.free.items() if free >= width]:
            name = min(fitting, key=lambda name: (self.free[name], name))
            return Ring(((name, width),), 1, 0.0)
        by_leaf: defaultdict[str, list[str]] = defaultdict(list)
        for name, server in self.servers.items():
            if self.free[name] and self.link[name] >= bytes_per_s:
                by_leaf[server.leaf].append(name)
        room = {leaf: sum(self.free[name] for name in names) for leaf, names in by_leaf.items()}
        if fitting := [leaf for leaf in room if room[leaf] >= width]:
            leaf = min(fitting, key=lambda leaf: (room[leaf], leaf))
            return Ring(self._fill(by_leaf[leaf], width), 1, bytes_per_s)
        chosen: list[tuple[str, int]] = []
        leaves, missing = 0, width
        for leaf in sorted(room, key=lambda leaf: (-room[leaf], leaf)):
            if missing and self.uplink[leaf] >= bytes_per_s:
                chosen += self._fill(by_leaf[leaf], missing)
                missing -= min(missing, room[leaf])
                leaves += 1
        return None if missing else Ring(tuple(chosen), leaves, bytes_per_s)

    def _fill(self, names: Iterable[str], width: int) -> tuple[tuple[str, int], ...]:
        """So many workers on these servers, those with most room first."""
        taken = []
        for name in sorted(names, key=lambda name: (-self.free[name], name)):
            workers = min(width, self.free[name])
            if workers:
                taken.append((name, workers))
            width -= workers
        return tuple(taken)

    def reserve(self, ring: Ring) -> None:
        """A ring takes its places and its bandwidth."""
        self._book(ring, 1)

    def has_room(self, ring: Ring) -> bool:
        """Whether the ring could have its places and its bandwidth."""
        if any(workers > self.free[name] for name, workers in ring.workers):
            return False
        if any(ring.bytes_per_s > self.link[name] for name, _ in ring.workers):
            return False
        return ring.leaves == 1 or all(ring.bytes_per_s <= self.uplink[leaf] for leaf in self._leaves(ring))

    def release(self, ring: Ring) -> None:
        """It gives them back."""
        self._book(ring, -1)

    def _book(self, ring: Ring, times: int) -> None:
        for name, workers in ring.workers:
            self.free[name] -= times * workers
            self.link[name] -= times * ring.bytes_per_s
        if ring.leaves > 1:
            for leaf in self._leaves(ring):
                self.uplink[leaf] -= times * ring.bytes_per_s

    def _leaves(self, ring: Ring) -> set[str]:
        return {self.servers[name].leaf for name, _ in ring.workers}
