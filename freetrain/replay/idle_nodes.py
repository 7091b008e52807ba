"""Which nodes of a replayed machine are idle, and who has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from freetrain.core.classes import AlikeNodes, Offer
from freetrain.core.node import Nodes


class IdleNodes:
    """The idle nodes, lent ones included.

    Attributes:
        holder: name → who has it; None: nobody.
        came: those that have become idle since :meth:`note_seen`, and are.
        gone: those that were idle then, and are not any more.
    """

    def __init__(self) -> None:
        self.holder: dict[str, str | None] = {}
        self.came: dict[str, None] = {}
        self.gone: set[str] = set()
        self._end_s: dict[str, float] = {}
        self._names: defaultdict[str | None, dict[str, None]] = defaultdict(dict)
        self._unchanged: dict[str | None, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self.holder)

    @property
    def names(self) -> Nodes:
        """All of them."""
        return Nodes(self.holder)

    @property
    def alike(self) -> AlikeNodes:
        """All of them, where nothing tells them apart and no end is known."""
        known = self._unchanged
        known |= {holder: tuple(names) for holder, names in self._names.items() if holder not in known}
        return AlikeNodes(dict(known))

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All of them, with the ends that are known."""
        return tuple(Offer(name, self._end_s.get(name), holder) for name, holder in self.holder.items())

    def of(self, holder: str) -> tuple[str, ...]:
        """What somebody has, in the order in which he got it: that of a set would be another one each time."""
        return tuple(self._names.get(holder, ()))

    def join(self, name: str, end_s: float | None) -> None:
        """A node becomes idle, until then; None: that is not known."""
        self._give(name, None)
        if end_s is not None:
            self._end_s[name] = end_s
        if name in self.gone:
            self.gone.remove(name)
        else:
            self.came[name] = None

    def leave(self, name: str) -> str | None:
        """A node is taken; who had it."""
        self._take(name)
        holder = self.holder.pop(name)
        self._end_s.pop(name, None)
        if name in self.came:
            del self.came[name]
        else:
            self.gone.add(name)
        return holder

    def hold(self, names: Iterable[str], holder: str | None) -> None:
        """Somebody gets these nodes, or nobody has them any more."""
        for name in names:
            self._take(name)
            self._give(name, holder)

    def note_seen(self) -> None:
        """What has come and gone until now is known."""
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
