"""Leaving: the time that fragments take to leave their nodes, and the nodes that a slow training gets. Pure.

The end time of a job in Slurm is the moment at which it was ordered to go. Its node is free only when its
processes have ended, its epilog included: until then squeue shows the job as COMPLETING.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freetrain.core.fragment import End, Fragment
from freetrain.core.place import Place
from freetrain.lending.facts import Bar, Facts

# Other ends are the program's own, and do not show how long it takes when it has to leave.
_BY_ORDER = frozenset((End.PREEMPTED, End.RELEASED, End.TIMED_OUT, End.CANCELLED))


@dataclass(frozen=True, slots=True)
class Leaving:
    """Fragments that leave, and the time that those of each training take for it.

    Attributes:
        seen_s: job of a fragment that leaves → the first and the last look that found it leaving.
        took_s: submission → seconds that its fragments take.
    """

    seen_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    took_s: Mapping[str, float] = field(default_factory=dict)

    def until_free(self, ended: Iterable[Fragment]) -> tuple[Fragment, ...]:
        """The fragments, where those that were seen on their nodes after their end have that look as their end."""
        return tuple(
            replace(fragment, ended_s=max(fragment.ended_s, self.seen_s[fragment.job][1]))
            if fragment.ended_s is not None and fragment.job in self.seen_s
            else fragment
            for fragment in ended
        )

    def after(self, facts: Facts) -> Leaving:
        """The record after a look."""
        now_s, bound_s = facts.snapshot.time_s, facts.leaving_bound_s
        leaving = [fragment for fragment in facts.fragments if fragment.is_leaving]
        seen_s = {fragment.job: (self.seen_s.get(fragment.job, (now_s, now_s))[0], now_s) for fragment in leaving}
        present = {*facts.to_tidy, *(request.submission_id for request in facts.requests)}
        took_s = {key: known_s for key, known_s in self.took_s.items() if key in present}
        for fragment in leaving:
            key, since_s = facts.submission_of(fragment), seen_s[fragment.job][0]
            # Slurm kills a fragment after the bound: a longer time is the fault of the node.
            took_s[key] = max(took_s.get(key, 0.0), min(now_s - since_s, bound_s))
        for fragment, free in zip(facts.ended, self.until_free(facts.ended), strict=True):
            if fragment.end in _BY_ORDER and fragment.started_s is not None:
                key, lasted_s = facts.submission_of(fragment), min(self._lasted_s(fragment, free), bound_s)
                # A longer time than before counts at once; a shorter one by half, since one quick end proves
                # little.
                took_s[key] = max(lasted_s, (took_s.get(key, lasted_s) + lasted_s) / 2)
        return Leaving(seen_s, took_s)

    def slow(self, facts: Facts, limit_s: float) -> Mapping[str, float]:
        """Trainer that takes longer than the limit to leave → seconds that it takes."""
        taking = ((request.id, self.took_s.get(request.submission_id, 0.0)) for request in facts.requests)
        return {trainer: took_s for trainer, took_s in taking if took_s > limit_s}

    def _lasted_s(self, fragment: Fragment, free: Fragment) -> float:
        """Seconds from the order to leave, which is its end time in Slurm, or from the first look that saw it."""
        ended_s = fragment.ended_s or 0.0
        first_s, _ = self.seen_s.get(fragment.job, (ended_s, ended_s))
        return (free.ended_s or 0.0) - min(ended_s, first_s)


def bars_of_slow(
    offered: Sequence[Place], slow: Mapping[str, float], now_s: float, shortest_hole_s: float
) -> Mapping[str, Bar]:
    """Trainer that takes long to leave → the offered nodes that are not known to be free for that long."""
    bars: dict[str, Bar] = {}
    for trainer, took_s in slow.items():
        needed_s = took_s + shortest_hole_s
        short = (offer for offer in offered if not _is_free_for(offer, needed_s, now_s))
        why = (
            f"it takes {took_s:.0f} s to leave a node when it has to, longer than harm.limit, so it gets only "
            "nodes that nobody will want before a time that is known so far ahead: let it end on SIGTERM"
        )
        bars[trainer] = Bar(frozenset(offer.name for offer in short), why)
    return bars


def due_of_slow(offered: Sequence[Place], slow: Mapping[str, float], now_s: float) -> Mapping[str, str]:
    """Lent place of a trainer that takes long to leave → why it is given back now."""
    due = {}
    for offer in offered if slow else ():
        took_s = slow.get(offer.holder or "")
        if took_s is not None and not _is_free_for(offer, took_s, now_s):
            due[offer.name] = f"trainer {offer.holder} takes {took_s:.0f} s to leave, longer than harm.limit"
    return due


def _is_free_for(offer: Place, seconds: float, now_s: float) -> bool:
    return offer.until_s is not None and offer.until_s - now_s > seconds
