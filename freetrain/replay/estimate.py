"""An estimate of what the daemon would get of a long log, from blocks of hours spread over it, with its interval.

Blocks of equal length are replayed twice: as the holes allow, and as the daemon would have gone, with trainers
that begin from nothing. The estimate is what the daemon got of what the holes allowed, times what the holes allow
in the whole log, which is known. Hours in which much was idle count for more that way, and what all blocks have in
common, such as the trainers' start, falls out.

How much of the holes the daemon gets depends most on how much is idle, which is known of all blocks. So there are
two strata, the half in which less was idle and the half in which more was; each counts by its idle time.

The interval is that of a separate ratio estimate at 95 % (W. G. Cochran, Sampling Techniques, 1977, ch. 6):
Student's t times the standard deviation of the blocks' residuals. The blocks are taken for drawn at random within
their stratum, although they are spread more evenly, which errs to the cautious side.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import ceil, inf, sqrt

import numpy as np

from freetrain.core.holes import Holes, cut, idle_until
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs import SiteLog
from freetrain.replay.outcome import ReplayOutcome

BLOCK_S = 4 * 3600.0
_MIN_BLOCK_S = 1800.0
_BLOCKS_OF_SHORT_LOGS = 24
"""Number of blocks of a log of less than four days, if these are half an hour long at least."""

_GOLDEN = (sqrt(5.0) - 1.0) / 2.0
"""Golden section: any number of its multiples, without the whole part, lie far apart, in no period of days."""
_STRATA = 2
"""Number of strata: with more, each has too few blocks for an interval of its own."""

_PROBES = 4
"""Number of blocks after which it is known whether the whole log can be replayed instead."""
MIN_BLOCKS = 8
"""Fewest blocks of an estimate: an interval from fewer would say more about chance than about the log."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """A figure with its 95 % interval: ``value`` ± ``within``."""

    value: float
    within: float

    def times(self, factor: float) -> Estimated:
        """The figure in another unit."""
        return Estimated(self.value * factor, self.within * factor)


Figures = tuple[float, float, float]
"""Figures of a replay: work, seconds × nodes lent, and trained in."""
BlockPair = tuple[Figures, Figures]
"""One block as the holes allow, and as the daemon would have gone."""


@dataclass(frozen=True, slots=True)
class DaemonEstimate:
    """Estimated figures of a replay as the daemon would have gone.

    Attributes:
        work: share of a dedicated machine's work.
        whole_s: seconds that the whole log would take, on this machine.
    """

    work: Estimated | None
    lent_node_hours: Estimated
    useful_node_hours: Estimated
    blocks: int
    of_blocks: int
    block_s: float
    seed: int
    wall_s: float
    whole_s: float


@dataclass(frozen=True, slots=True)
class Block:
    """Some hours of a log.

    Attributes:
        idle_s: seconds × nodes that are idle in them.
    """

    from_s: float
    until_s: float
    idle_s: float
    stratum: int


def blocks_in_turn(holes: Holes, block_s: float, seed: int) -> list[Block]:
    """The blocks of a log: any first ones of them are spread over the strata, the log and the hours of the day.

    The strata take turns. Within one, each block comes a golden section after the one before it, from a place that
    is drawn.
    """
    count = max(1, ceil(holes.duration_s / block_s))
    edges_s = np.append(holes.from_s + block_s * np.arange(count), holes.until_s)
    idle_s = np.diff(idle_until(holes, edges_s))
    first = random.Random(seed).random()
    strata = np.array_split(np.argsort(idle_s, kind="stable"), _STRATA)
    turns = zip_longest(*(_spread(sorted(stratum.tolist()), first) for stratum in strata))
    return [
        Block(float(edges_s[number]), float(edges_s[number + 1]), float(idle_s[number]), stratum)
        for turn in turns
        for stratum, number in enumerate(turn)
        if number is not None
    ]


def _spread(numbers: list[int], first: float) -> list[int]:
    # Four times as many places as numbers meet nearly all of them; the rest follows in order.
    places = ((first + number * _GOLDEN) % 1.0 for number in range(4 * len(numbers)))
    order = dict.fromkeys((*(int(place * len(numbers)) for place in places), *range(len(numbers))))
    return [numbers[place] for place in order]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Replayed blocks that are alike, with the number and weight of all such blocks.

    Attributes:
        parts: figure as the daemon would have gone, block by block.
        wholes: figure as the holes allow.
        of_blocks: number of such blocks of the log.
        weight: idle time of all of them.
    """

    parts: Sequence[float]
    wholes: Sequence[float]
    of_blocks: int
    weight: float = 1.0

    @property
    def ratio(self) -> float:
        """The sum of the parts by the sum of the wholes."""
        return sum(self.parts) / sum(self.wholes) if sum(self.wholes) > 0 else 0.0

    @property
    def variance(self) -> float:
        """Variance of the ratio; the unknown rest of the blocks counts."""
        count, total = len(self.parts), sum(self.wholes)
        if count == self.of_blocks:
            return 0.0
        if count < 2 or total <= 0:
            return inf
        residuals = (part - self.ratio * whole for part, whole in zip(self.parts, self.wholes, strict=True))
        spread = sum(residual**2 for residual in residuals) / (count - 1)
        # Corrected for a finite population: blocks that were replayed are known, not estimated.
        return spread * (1 - count / self.of_blocks) * count / total**2


def ratio_of(strata: Sequence[Stratum]) -> Estimated:
    """Share that the daemon got of what the holes allowed, over all strata, with its interval."""
    known = [stratum for stratum in strata if stratum.weight > 0]
    weight = sum(stratum.weight for stratum in known)
    if not weight:
        return Estimated(0.0, inf)
    free = sum(len(stratum.parts) for stratum in known) - len(known)
    t = student_975(free) if free > 0 else inf
    variance = sum((stratum.weight / weight) ** 2 * stratum.variance for stratum in known)
    return Estimated(
        sum(stratum.weight / weight * stratum.ratio for stratum in known), t * sqrt(variance) if variance else 0.0
    )


def estimate_daemon(
    holes: Holes,
    allowed: tuple[float | None, float, float],
    replay_block: Callable[[float, float], BlockPair],
    budget_s: float,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None],
    seed: int = 0,
) -> DaemonEstimate | None:
    """Replay blocks, each both ways, until the time is over; a few are replayed in any case.

    None: the whole log would not take longer than that. ``allowed`` is what the holes allow in it: part of a
    dedicated machine's work, node-hours lent, and trained in. ``progress`` gets the part of the time that is over.
    """
    block_s = min(BLOCK_S, max(_MIN_BLOCK_S, holes.duration_s / _BLOCKS_OF_SHORT_LOGS))
    blocks = blocks_in_turn(holes, block_s, seed)
    began_s, pairs = stopwatch_s(), list[BlockPair]()
    for number, block in enumerate(blocks, 1):
        # On a slow machine the time may be over before; an interval needs these blocks all the same.
        if number > MIN_BLOCKS and stopwatch_s() >= began_s + budget_s:
            break
        pairs.append(replay_block(block.from_s, block.until_s))
        whole_s = (stopwatch_s() - began_s) / number * len(blocks)
        progress(max((stopwatch_s() - began_s) / budget_s, 0.0))
        # Where the whole log would take no longer than the estimate, exact figures are better.
        if number == _PROBES and whole_s <= budget_s:
            return None
    ratios = [ratio_of(list(_strata(blocks, pairs, figure))) for figure in range(len(allowed))]
    work, lent, useful = (
        None if whole is None else ratio.times(whole) for ratio, whole in zip(ratios, allowed, strict=True)
    )
    assert lent is not None
    assert useful is not None
    took_s = stopwatch_s() - began_s
    return DaemonEstimate(work, lent, useful, len(pairs), len(blocks), block_s, seed, took_s, whole_s)


def _strata(blocks: Sequence[Block], pairs: Sequence[BlockPair], figure: int) -> Iterator[Stratum]:
    """Strata with one figure of the blocks that were replayed, which are the first ones."""
    for number in range(_STRATA):
        some = [pair for block, pair in zip(blocks, pairs, strict=False) if block.stratum == number]
        every = [block.idle_s for block in blocks if block.stratum == number]
        parts, wholes = [daemon[figure] for _, daemon in some], [holes[figure] for holes, _ in some]
        yield Stratum(parts, wholes, len(every), sum(every))


def study_estimated(
    log: SiteLog,
    allowed: ReplayOutcome,
    allow: Callable[[Holes], ReplayRecord],
    go_as_daemon: Callable[[SiteLog], ReplayRecord],
    budget_s: float,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None] = lambda part: None,
) -> DaemonEstimate | None:
    """Estimate of the daemon's figures of a long log, from some hours; None: all of it is replayed as soon."""

    def replay_block(from_s: float, until_s: float) -> BlockPair:
        holes = cut(log.holes, from_s, until_s)
        if not len(holes):
            return _NOTHING, _NOTHING
        return _figures(allow(holes)), _figures(go_as_daemon(replace(log, holes=holes)))

    known = allowed.u_work, allowed.lent_node_hours, allowed.useful_node_hours
    return estimate_daemon(log.holes, known, replay_block, budget_s, stopwatch_s, progress)


_NOTHING = 0.0, 0.0, 0.0


def _figures(record: ReplayRecord) -> Figures:
    return record.work, record.lent_node_s, record.useful_node_s


_NORMAL_975 = 1.959964
"""97.5 % quantile of the normal distribution."""
_STUDENT_975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060)
"""97.5 % quantiles of Student's distribution of 1, 2, … degrees of freedom."""


def student_975(degrees: int) -> float:
    """97.5 % quantile of Student's distribution of so many degrees of freedom, at least one."""
    if degrees <= len(_STUDENT_975):
        return _STUDENT_975[degrees - 1]
    # Cornish and Fisher's expansion of Student's quantile: off by less than 0.002 from 9 degrees of freedom on.
    z = _NORMAL_975
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
