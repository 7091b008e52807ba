r"""Deadlines: what a trainer must do from now on to reach its target in time, and what that is worth. Pure.

A deadline is its owner's word, so it is worth only as much as the site says (``deadlines=F`` behind the
objective), and only for as much of the training as it needs. With *R* samples and *D* seconds left, it needs

.. math:: r = \frac{R}{(1 - s)\,D}

samples/s, a part *s* of the time being spare. With :math:`n^*` the least nodes on which it is that fast, and *o*
the objective, a second on *N* nodes is worth

.. math:: o(N) + F\,o(\min(N, n^*)).

So a trainer that is ahead needs few nodes and gains little; one that falls behind needs more. One that cannot be
in time even on its fastest nodes, all time left counted, gains nothing: it would only take nodes from other
trainers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from freetrain.core.terms import Sizes, Terms
from freetrain.core.trainer import Trainer

_SPARE = 0.5
"""Part of the time left that is not counted on: idle nodes come and go, and some now do not mean some later."""
_ROUNDING = 1e-9


class Outlook(StrEnum):
    """Outlook of a trainer's deadline."""

    NONE = "none"
    """It names none, or no target, so that what is left is unknown."""
    DONE = "done"
    """Its target is reached."""
    OPEN = "open"
    """It can be met."""
    OUT_OF_REACH = "out of reach"
    """It cannot be met, even on the fastest nodes that the trainer can use."""
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class DeadlineRate:
    """Demand of a deadline: what the trainer must do from now on; 0: nothing that counts."""

    outlook: Outlook
    samples_per_s: float = 0.0


def deadline_rate_of(trainer: Trainer, done_samples: float, now_s: float) -> DeadlineRate:
    """The demand of a trainer's deadline now."""
    if trainer.deadline_s is None or trainer.target_samples is None or not trainer.can_run:
        return DeadlineRate(Outlook.NONE)
    left, left_s = trainer.target_samples - done_samples, trainer.deadline_s - now_s
    if left <= 0:
        return DeadlineRate(Outlook.DONE)
    if left_s <= 0:
        return DeadlineRate(Outlook.PASSED)
    fastest = float(_rates(trainer).max()) * best_speed(trainer)
    # All time left counts here, spare or not: a deadline is given up only where nothing could meet it.
    if left > fastest * left_s:
        return DeadlineRate(Outlook.OUT_OF_REACH)
    # With spare time taken off it may need more than its fastest: that cannot be asked for.
    return DeadlineRate(Outlook.OPEN, min(left / ((1 - _SPARE) * left_s), fastest))


def nodes_needed(trainer: Trainer, samples_per_s: float, speed: float = 1.0) -> int:
    """Smallest number of nodes on which the trainer is that fast; 0: on none, or nothing is asked for."""
    if samples_per_s <= 0:
        return 0
    # Rates between two points are interpolated, and may be off in the last place.
    fast_enough = _rates(trainer) * speed >= samples_per_s * (1 - _ROUNDING)
    return int(fast_enough.argmax()) if fast_enough.any() else 0


@dataclass(frozen=True, slots=True)
class DeadlineRates:
    """Demands of trainers' deadlines, which count ``factor`` times more; empty: no deadline counts."""

    trainers: Sequence[Trainer] = ()
    samples_per_s: Sequence[float] = ()
    factor: float = 0.0

    def on(self, terms: Terms, owner: Iterable[int], speeds: Iterable[float]) -> Terms:
        """The terms with what deadlines need counted more; each row has an owner, by position, and a speed."""
        if not self.samples_per_s:
            return terms
        rows = zip(owner, speeds, strict=True)
        found = [nodes_needed(self.trainers[row], self.samples_per_s[row], speed) for row, speed in rows]
        needed = np.array(found, dtype=np.int64)[:, None]
        size = np.minimum(np.arange(terms.worth.shape[1]), needed)
        more = np.where(needed > 0, np.take_along_axis(terms.worth, size, axis=1), 0.0)
        return terms.with_worth(terms.worth + self.factor * more, needed[:, 0])

    def needed(self, kinds: frozenset[str], trainers: int) -> Sizes:
        """Least nodes of these kinds that each trainer needs, shape (trainers,); 0: none.

        On the kind on which it is fastest; 0, too, where it cannot be as fast as it must on any.
        """
        if not self.samples_per_s:
            return np.zeros(trainers, dtype=np.int64)
        found = [
            nodes_needed(trainer, samples_per_s, best_speed(trainer, kinds))
            for trainer, samples_per_s in zip(self.trainers, self.samples_per_s, strict=True)
        ]
        return np.array(found, dtype=np.int64)


def deadline_rates_of(
    trainers: Sequence[Trainer], done_samples: Mapping[str, float], now_s: float, factor: float
) -> DeadlineRates:
    """Demands of the deadlines of trainers, which count ``factor`` times more; 0: not at all."""
    if not factor or all(trainer.deadline_s is None for trainer in trainers):
        return DeadlineRates()
    rates = (deadline_rate_of(trainer, done_samples.get(trainer.id, 0.0), now_s) for trainer in trainers)
    found = tuple(rate.samples_per_s for rate in rates)
    return DeadlineRates(trainers, found, factor) if any(found) else DeadlineRates()


def _rates(trainer: Trainer) -> NDArray[np.float64]:
    """Samples/s by size, 0 where it may not have the size."""
    rates = trainer.samples_per_s.copy()
    rates[: trainer.min_nodes] = 0.0
    return rates


def best_speed(trainer: Trainer, kinds: frozenset[str] | None = None) -> float:
    """Speed of a trainer on the kind of nodes on which it is fastest, of those that it may have; None: of all."""
    choices = (choice for choice in trainer.choices or () if kinds is None or not kinds.isdisjoint(choice.kinds))
    return max((choice.speed for choice in choices), default=1.0)
