"""The nodes of a log: when each becomes idle or is taken back, its holder, its group, and its watts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freetrain.core.classes import AlikeNodes
from freetrain.core.holes import Holes
from freetrain.core.place import Place, node_of
from freetrain.core.power import PowerDraw
from freetrain.replay.logs.model import LoggedJobs, SiteLog


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Nodes that change at one instant.

    Attributes:
        joined: nodes that become idle → when they are taken back; inf: not within the window.
    """

    at_s: float
    joined: dict[str, float]
    left: list[str]


def node_changes(holes: Holes) -> Iterator[NodeChange]:
    """Every instant at which a node's state changes, in order; the window's end is none."""
    joined: defaultdict[float, dict[str, float]] = defaultdict(dict)
    left: defaultdict[float, list[str]] = defaultdict(list)
    # An end at the window's end is no event: nobody knows whether the hole ended there.
    end_s = np.where(holes.end_s < holes.until_s, holes.end_s, np.inf)
    for node, at_s, until_s in zip(holes.node, holes.start_s.tolist(), end_s.tolist(), strict=True):
        joined[at_s][holes.node_names[node]] = until_s
    by_end = np.lexsort((holes.node, end_s))
    for node, at_s in zip(holes.node[by_end], end_s[by_end].tolist(), strict=True):
        if at_s < np.inf:
            left[at_s].append(holes.node_names[node])
    for at_s in sorted(joined.keys() | left.keys()):
        yield NodeChange(at_s, joined.get(at_s, {}), left.get(at_s, []))


class IdleNodes:
    """The idle nodes, lent ones included.

    Attributes:
        holder: name → who has it; None: nobody.
        came: nodes that have become idle since :meth:`note_seen`, and are.
        gone: nodes that were idle then, and are not any more.
    """

    def __init__(self) -> None:
        self.holder: dict[str, str | None] = {}
        self.came: dict[str, None] = {}
        self.gone: set[str] = set()
        self._end_s: dict[str, float] = {}
        # Dictionaries as sets that keep their order: that of a set of names differs from run to run.
        self._names: defaultdict[str | None, dict[str, None]] = defaultdict(dict)
        self._unchanged: dict[str | None, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.holder)

    @property
    def free_nodes(self) -> int:
        """Number of idle nodes that nobody has."""
        return len(self._names.get(None, ()))

    @property
    def alike(self) -> AlikeNodes:
        """The idle nodes as alike ones, where no feature and no known end distinguishes them."""
        known = self._unchanged
        # Names of holders that have not changed are made once: a replay asks at each event.
        known |= {holder: tuple(names) for holder, names in self._names.items() if holder not in known}
        return AlikeNodes(dict(known))

    @property
    def offers(self) -> tuple[Place, ...]:
        """The idle nodes as offers, with the ends that are known."""
        return tuple(Place(name, self._end_s.get(name), holder) for name, holder in self.holder.items())

    def of(self, holder: str) -> tuple[str, ...]:
        """Nodes of a trainer, in the order in which it got them."""
        return tuple(self._names.get(holder, ()))

    def join(self, name: str, end_s: float | None) -> None:
        """Let a node become idle, until then; None: that is not known."""
        self._give(name, None)
        if end_s is not None:
            self._end_s[name] = end_s
        if name in self.gone:
            self.gone.remove(name)
        else:
            self.came[name] = None

    def leave(self, name: str) -> str | None:
        """Take a node away; the trainer that had it, None: nobody."""
        self._take(name)
        holder = self.holder.pop(name)
        self._end_s.pop(name, None)
        if name in self.came:
            del self.came[name]
        else:
            self.gone.add(name)
        return holder

    def hold(self, names: Iterable[str], holder: str | None) -> None:
        """Give these nodes to a trainer; None: nobody has them any more."""
        for name in names:
            self._take(name)
            self._give(name, holder)

    def note_seen(self) -> None:
        """Take all changes until now as known: forget what has come and gone."""
        self.came, self.gone = {}, set()

    def _give(self, name: str, holder: str | None) -> None:
        self.holder[name] = holder
        self._names[holder][name] = None
        self._unchanged.pop(holder, None)

    def _take(self, name: str) -> None:
        holder = self.holder[name]
        del self._names[holder][name]
        self._unchanged.pop(holder, None)
        if not self._names[holder]:
            del self._names[holder]


def nodes_by_partition(logged: LoggedJobs) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The nodes on which each partition's jobs ran."""
    of_row = np.repeat(logged.partition, np.diff(logged.begin))
    for number, name in enumerate(logged.partition_names):
        yield name, np.unique(logged.node[of_row == number]).astype(np.intp)


def node_groups(log: SiteLog) -> Mapping[str, Sequence[tuple[str, NDArray[np.intp]]]]:
    """Groups of the log's nodes by kind, and by partition, where its jobs ran; none where there is one only."""
    of_node = np.array([log.holes.kind_of.get(name, "") for name in log.holes.node_names])
    groups = {
        "kind of node": [(kind, np.flatnonzero(of_node == kind)) for kind in sorted({*of_node.tolist()} - {""})],
        "partition": list(nodes_by_partition(log.logged)) if log.logged else [],
    }
    return {what: found if len(found) > 1 else [] for what, found in groups.items()}


def watts_of(holes: Holes, draw: PowerDraw) -> Mapping[str, float]:
    """Node → watts; empty: unknown. The places of a node take equal parts of its watts."""
    if not draw.is_known:
        return {}
    places = Counter(map(node_of, holes.node_names)) if holes.in_parts else Counter[str]()
    return {
        name: draw.of((holes.kind_of.get(name, ""),)) / max(places[node_of(name)], 1) for name in holes.node_names
    }
