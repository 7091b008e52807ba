"""A trainer as it runs in a replay: its progress, what every change of size costs it, and the places it had."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from types import MappingProxyType

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.core.needs import Needs
from freetrain.core.place import Lease, node_of
from freetrain.core.terms import Table
from freetrain.core.trainer import Trainer, TrainerPast
from freetrain.lending.facts import Request


@dataclass(slots=True)
class PlaceLeases:
    """The leases of a replay, in order of their ends."""

    all: list[Lease] = field(default_factory=list)
    _open: dict[str, tuple[str, float]] = field(default_factory=dict)

    def note(self, place: str, trainer: str | None, now_s: float) -> None:
        """Note that from now on a trainer has this place; None: nobody has."""
        before = self._open.pop(place, None)
        if before is not None and now_s > before[1]:
            self.all.append(Lease(place, before[0], before[1], now_s))
        if trainer is not None:
            self._open[place] = (trainer, now_s)

    def finish(self, until_s: float) -> None:
        """End all leases, since the window ends."""
        for place in list(self._open):
            self.note(place, None, until_s)


class Loss(StrEnum):
    """Reasons for which a trainer lost training time."""

    EVICTION = "eviction"
    EVICTION_PAUSE = "eviction_pause"
    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    START = "start"


@dataclass(frozen=True, slots=True)
class _ChargedPause:
    """A pause as it was charged: why, until when, and what a second of it cost."""

    why: Loss
    until_s: float
    seconds: float
    rate: float
    worth_per_s: float
    nodes: float


class TrainerRun:
    """One admitted trainer. Progress is linear between changes, so it is brought up to date only then.

    A change of size costs a pause: seconds × the rate before the change, charged at once (for a start: × the rate
    that it has then). An eviction costs two things:

    1. The pause of any change of size, always and whole. A pause that has not passed yet ends there: its rest
       is given back.
    2. Work: what was trained since the last save, which every change is, at most the rest of ``eviction_s``.

    The published method charges all of ``eviction_s`` instead. Of an independent trainer only that part pays which
    the nodes are that come or go, and no pause. What a change costs is charged when new nodes have booted: until
    then the others go on, and they cost nothing to lose.

    Args:
        as_published: charge evictions as the published method does.
        kind_of: node → its kind; what it has may be places on nodes.
        watts_of: node → what it takes while it is lent; empty: nobody says.

    Attributes:
        request: its request as the daemon's rules see it; trainers that name no owner are one user's.
        counts_as: number of nodes that one of its nodes counts as, where nodes are places that differ in size.
        booting_s: other nodes that it has → when they will have booted.
        samples: samples done as of ``as_of_s``, losses subtracted.
        work: work as of ``as_of_s``, in the objective's unit: worth of the nodes it trained on, losses subtracted.
        node_s: node-seconds lent to it as of ``as_of_s``.
        booting_node_s: node-seconds of them in which nodes booted.
        lost_node_s: node-seconds of the others that went into losses.
        completes_s: time at which it will have its target samples if nothing changes; inf: never.
        evicted_nodes: nodes that jobs took, or that failed, so far.
        waited_s: seconds that it has had no node by now; 0: it has one, or is complete.
    """

    def __init__(
        self,
        trainer: Trainer,
        worth: Table,
        admitted_s: float,
        as_published: bool = False,
        kind_of: Mapping[str, str] = MappingProxyType({}),
        watts_of: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.trainer = trainer
        self.request = _daemons_request(trainer)
        self.counts_as = 1.0
        self._kind_of = kind_of
        self._watts_of = watts_of
        self._worth = worth
        self._as_published = as_published
        self._trains_since_s = admitted_s
        self._last_pause: _ChargedPause | None = None
        self.admitted_s = admitted_s
        self.as_of_s = admitted_s
        self.started_s: float | None = None
        self.completed_s: float | None = None
        self.nodes: set[str] = set()
        self.booting_s: dict[str, float] = {}
        self.rate = 0.0
        self.worth_per_s = 0.0
        self.samples = 0.0
        self.work = 0.0
        self.node_s = 0.0
        self.booting_node_s = 0.0
        self.joules = 0.0
        self.lost_node_s = 0.0
        self.losses: Counter[Loss] = Counter()
        self.lost_s: defaultdict[Loss, float] = defaultdict(float)
        self.evicted_nodes = 0
        self.waited_s = 0.0
        self.longest_wait_s = 0.0
        self.completes_s = inf

    def samples_at(self, now_s: float) -> float:
        """Samples that it will have done at a time if nothing changes until then."""
        return self.samples + self.rate * (now_s - self.as_of_s)

    def past_at(self, now_s: float) -> TrainerPast:
        """Past of the trainer as of a time: what it will have done and had if nothing changes until then."""
        nodes = len(self.nodes) + len(self.booting_s)
        node_s = self.node_s + nodes * self.counts_as * (now_s - self.as_of_s)
        waiting_since_s = None if nodes else self.as_of_s - self.waited_s
        return TrainerPast(self.samples_at(now_s), node_s, self.started_s, waiting_since_s)

    def settle(self, now_s: float) -> None:
        """Bring the progress up to date."""
        elapsed_s = now_s - self.as_of_s
        self.samples = self.samples_at(now_s)
        self.work += self.worth_per_s * elapsed_s
        self.node_s += (len(self.nodes) + len(self.booting_s)) * self.counts_as * elapsed_s
        self.booting_node_s += len(self.booting_s) * self.counts_as * elapsed_s
        if self._watts_of:
            self.joules += sum(self._watts_of[name] for name in (*self.nodes, *self.booting_s)) * elapsed_s
        has_none = not self.nodes and not self.booting_s and self.completed_s is None
        self.waited_s = self.waited_s + elapsed_s if has_none else 0.0
        self.longest_wait_s = max(self.longest_wait_s, self.waited_s)
        self.as_of_s = now_s

    def boot(self, nodes: Collection[str], now_s: float) -> None:
        """Get nodes that train only when they have booted."""
        self.settle(now_s)
        self.booting_s.update(dict.fromkeys(nodes, now_s + self.trainer.boot_s))

    def finish_boots(self, now_s: float) -> bool:
        """Train on the nodes that have booted by now; whether there are any."""
        booted = [name for name, at_s in self.booting_s.items() if at_s <= now_s]
        if booted:
            self.grow(booted, now_s)
        return bool(booted)

    def grow(self, nodes: Collection[str], now_s: float) -> None:
        """Get nodes that train at once."""
        self._save(now_s)
        self._drop_booting(nodes)
        was_running, before = self.rate > 0, len(self.nodes)
        if was_running and not self.trainer.independent:
            self._lose(Loss.SCALE_UP, self.trainer.scale_up_s)
        self._resize(self.nodes.union(nodes))
        if self.rate > 0 and (self.trainer.independent or not was_running):
            self.started_s = now_s if self.started_s is None else self.started_s
            self._lose(Loss.START, self.trainer.start_s * self._part(len(self.nodes) - before))

    def shrink(self, nodes: Collection[str], now_s: float) -> None:
        """Give up nodes because freetrain decided so."""
        self.settle(now_s)
        self._drop_booting(nodes)
        left = self.nodes.difference(nodes)
        # Only nodes that still booted were given up: nothing trained on them, so nothing is lost.
        if left == self.nodes:
            return
        self._save(now_s)
        if self.rate > 0:
            self._lose(Loss.SCALE_DOWN, self.trainer.scale_down_s * self._part(len(self.nodes) - len(left)))
        self._resize(left)

    def evict(self, nodes: set[str], now_s: float, was_known: bool = False) -> None:
        """Lose nodes to jobs, or since they fail; ``was_known``: it has saved before, where that costs less."""
        self.evicted_nodes += len(nodes)
        self.lose_unasked(nodes, now_s, was_known)

    def lose_unasked(self, nodes: set[str], now_s: float, was_known: bool = False) -> None:
        """Lose nodes unasked, at the end of a time limit, too: no eviction is counted."""
        self.settle(now_s)
        self._drop_booting(nodes)
        # What boots has not trained yet, and costs nothing to lose.
        nodes = nodes & self.nodes
        if not nodes:
            return
        if self.rate > 0 and self._as_published:
            lost_s = self.trainer.known_end_s if was_known else self.trainer.eviction_s
            self._lose(Loss.EVICTION, lost_s * self._part(len(nodes)))
        elif self.rate > 0:
            # Since the last save, or since the end of the pause that came with it.
            unsaved_s = max(0.0, self.as_of_s - self._trains_since_s)
            self._end_pause(now_s)
            pause_s = self.trainer.known_end_s if self.trainer.rescales else 0.0
            work_s = 0.0 if was_known and self.trainer.rescales else self.trainer.eviction_s - pause_s
            # No more can be undone than was trained since the last save.
            self._lose(Loss.EVICTION, min(work_s, unsaved_s) * self._part(len(nodes)))
            self._lose(Loss.EVICTION_PAUSE, pause_s)
        self._resize(self.nodes - nodes)

    def rename(self, place: str, other: str) -> None:
        """Call one of its places by the name of another one on the same node, which is as good."""
        if place in self.booting_s:
            self.booting_s[other] = self.booting_s.pop(place)
        else:
            # A new set: others see by its identity whether the nodes have changed.
            self.nodes = self.nodes - {place} | {other}

    def complete(self, now_s: float) -> None:
        """Reach the target: all samples done, all nodes given back, nothing lost."""
        self.settle(now_s)
        if self.trainer.target_samples is not None:
            # Exactly: sums of rates × seconds are off in the last place.
            self.samples = self.trainer.target_samples
        self.completed_s = now_s
        self.booting_s.clear()
        self._resize(set())

    @property
    def node_hours(self) -> float:
        """Node-hours lent to it."""
        return self.node_s / SECONDS_PER_HOUR

    @property
    def lost_hours(self) -> float:
        """Hours of training that it lost to evictions, rescales and starts."""
        return sum(self.lost_s.values()) / SECONDS_PER_HOUR

    @property
    def rescales(self) -> int:
        """Times it paid for a change of size that freetrain decided."""
        return self.losses[Loss.SCALE_UP] + self.losses[Loss.SCALE_DOWN]

    @property
    def done(self) -> float | None:
        """Share of its target that it has done; None: it has no target."""
        target = self.trainer.target_samples
        return None if target is None else self.samples / target

    def _end_pause(self, now_s: float) -> None:
        """Give back the rest of a pause that has not passed yet: another one begins."""
        pause, self._last_pause = self._last_pause, None
        if pause is not None and pause.until_s > now_s:
            # A pause is charged when it begins, so its rest would be paid for twice.
            rest_s = min(pause.until_s - now_s, pause.seconds)
            self.samples += rest_s * pause.rate
            self.work += rest_s * pause.worth_per_s
            self.lost_node_s -= rest_s * pause.nodes
            self.lost_s[pause.why] -= rest_s

    def _part(self, nodes: int) -> float:
        """Part of it that pays for so many of its nodes that come or go: all, unless they work each by itself."""
        return nodes / len(self.nodes) if self.trainer.independent else 1.0

    def _drop_booting(self, nodes: Collection[str]) -> None:
        for name in nodes:
            self.booting_s.pop(name, None)

    def _save(self, now_s: float) -> None:
        self.settle(now_s)
        # Each change of size in good order saves what was trained.
        self._trains_since_s = now_s

    def _lose(self, why: Loss, seconds: float) -> None:
        self.samples -= seconds * self.rate
        self.work -= seconds * self.worth_per_s
        nodes = len(self.nodes) * self.counts_as
        self.lost_node_s += seconds * nodes
        self.losses[why] += 1
        self.lost_s[why] += seconds
        # An eviction undoes work; what sets when training goes on is the pause that comes with it.
        if why is not Loss.EVICTION:
            self._trains_since_s = self.as_of_s + seconds
            if not self.trainer.independent:
                until_s = self._trains_since_s
                self._last_pause = _ChargedPause(why, until_s, seconds, self.rate, self.worth_per_s, nodes)
        self._look_ahead()

    def _resize(self, nodes: set[str]) -> None:
        self.nodes = nodes
        speed = self.trainer.speed_on(set(map(self._kind, nodes))) if self.trainer.choices else 1
        self.rate = self.trainer.rate(len(nodes)) * speed
        self.worth_per_s = float(self._worth[min(len(nodes), len(self._worth) - 1)]) * speed
        self._look_ahead()

    def _kind(self, place: str) -> str:
        return self._kind_of.get(place) or self._kind_of.get(node_of(place), "")

    def _look_ahead(self) -> None:
        target = self.trainer.target_samples
        if target is None or self.rate == 0:
            self.completes_s = inf
        else:
            self.completes_s = self.as_of_s + (target - self.samples) / self.rate


def _daemons_request(trainer: Trainer) -> Request:
    """Request as the daemon would have read it: kinds of nodes are features there, which its owner asks for."""
    owner = trainer.owner or "everybody"
    if trainer.choices is None:
        return Request(trainer, owner, trainer.account)
    speeds = tuple((kind, choice.speed) for choice in trainer.choices for kind in choice.kinds if kind)
    any_kind = any(not kind for choice in trainer.choices for kind in choice.kinds)
    return Request(
        replace(trainer, choices=None),
        owner,
        trainer.account,
        needs=Needs("" if any_kind else "|".join(kind for kind, _ in speeds)),
        speeds=speeds,
        mixed=any(len(choice.kinds) > 1 for choice in trainer.choices),
    )
