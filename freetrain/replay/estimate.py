"""An estimate of what the daemon would get of a long log, from blocks of hours spread over it, with its interval.

Blocks of equal length are replayed twice: as the holes allow, and as the daemon would have gone, both with
trainers that begin from nothing. The estimate is what the daemon got of what the holes allowed, over all blocks (a
ratio estimate), times what the holes allow in the whole log, which is known. Hours in which much was idle count
for more that way, and what all blocks have in common, such as the trainers' start, falls out.

The interval is that of a ratio estimate at 95 % (W. G. Cochran, Sampling Techniques, 1977, ch. 6): Student's t
times the standard deviation of the blocks' residuals. The blocks are taken for drawn at random, although they are
spread more evenly, which errs to the cautious side.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt

from freetrain.core.holes import Holes, cut
from freetrain.replay.course import ReplayRecord
from freetrain.replay.logs import SiteLog
from freetrain.replay.outcome import ReplayOutcome

BLOCK_S = 4 * 3600.0
_MIN_BLOCK_S = 1800.0
_BLOCKS_OF_SHORT_LOGS = 24
"""Logs of less than four days are cut into so many blocks, if these are half an hour long at least."""

_GOLDEN = (sqrt(5.0) - 1.0) / 2.0
"""Of its multiples, without the whole part, any number lie far apart, and they follow no period of days."""

_PROBES = 4
"""After so many blocks it is known whether the whole log can be replayed instead."""
MIN_BLOCKS = 8
"""An interval from fewer would say more about chance than about the log."""

_T_95 = (
    inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11,
    2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05,
)  # fmt: skip
"""Student's t for two-sided 95 % intervals, by degrees of freedom."""
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Estimated:
    """A figure with its 95 % interval: ``value`` ± ``within``."""

    value: float
    within: float

    def times(self, factor: float) -> Estimated:
        """The figure in another unit."""
        return Estimated(self.value * factor, self.within * factor)


Figures = tuple[float, float, float]
"""What a replay came to: work, seconds × nodes lent, and trained in."""
BlockPair = tuple[Figures, Figures]
"""One block as the holes allow, and as the daemon would have gone."""


@dataclass(frozen=True, slots=True)
class DaemonEstimate:
    """What the daemon would have got, as estimated.

    Attributes:
        work: of a dedicated machine's work.
        lent_node_hours: lent by it.
        useful_node_hours: trained in.
        blocks: how many blocks were replayed.
        of_blocks: of how many.
        block_s: how long each is.
        seed: what they were drawn with.
        wall_s: seconds that it took.
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


def block_length_s(duration_s: float) -> float:
    """How long the blocks of a log are."""
    return min(BLOCK_S, max(_MIN_BLOCK_S, duration_s / _BLOCKS_OF_SHORT_LOGS))


def blocks_in_turn(from_s: float, until_s: float, block_s: float, seed: int) -> list[tuple[float, float]]:
    """The blocks of a log: every beginning of their order is spread over the log, and over the hours of the day.

    Each comes a golden section of the log after the one before it, from a place that is drawn.
    """
    count = max(1, ceil((until_s - from_s) / block_s))
    first = random.Random(seed).random()
    places = ((first + number * _GOLDEN) % 1.0 for number in range(4 * count))
    order = dict.fromkeys((*(int(place * count) for place in places), *range(count)))
    starts_s = (from_s + number * block_s for number in order)
    return [(start_s, min(start_s + block_s, until_s)) for start_s in starts_s]


def ratio_of(parts: Sequence[float], wholes: Sequence[float], of_blocks: int) -> Estimated:
    """The sum of the one by the sum of the other, with its interval; the unknown rest counts.

    Args:
        parts: what the daemon got, block by block.
        wholes: what the holes allowed.
        of_blocks: how many blocks the log has.
    """
    count, total = len(parts), sum(wholes)
    if total <= 0:
        return Estimated(0.0, inf)
    ratio = sum(parts) / total
    if count == of_blocks:
        return Estimated(ratio, 0.0)
    if count < 2:
        return Estimated(ratio, inf)
    spread = sum((part - ratio * whole) ** 2 for part, whole in zip(parts, wholes, strict=True)) / (count - 1)
    t = _T_95[count - 1] if count - 1 < len(_T_95) else _NORMAL_95 + 2.4 / (count - 1)
    return Estimated(ratio, t * sqrt(spread * (1 - count / of_blocks) / count) * count / total)


def estimate_daemon(
    window: tuple[float, float],
    allowed: tuple[float | None, float, float],
    replay_block: Callable[[float, float], BlockPair],
    budget_s: float,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None],
    seed: int = 0,
) -> DaemonEstimate | None:
    """Replay blocks until the time is over; None: the whole log would not take longer than that.

    Args:
        window: of the log.
        allowed: what the holes allow in it: part of a dedicated machine's work, node-hours lent, and trained in.
        replay_block: replays one block both ways.
        budget_s: how long it may take; a few blocks are replayed in any case.
        stopwatch_s: running seconds.
        progress: is called with the part of the time that is over.
        seed: what is drawn.
    """
    from_s, until_s = window
    block_s = block_length_s(until_s - from_s)
    blocks = blocks_in_turn(from_s, until_s, block_s, seed)
    began_s, pairs = stopwatch_s(), list[BlockPair]()
    for number, block in _until_over(blocks, began_s + budget_s, stopwatch_s):
        pairs.append(replay_block(*block))
        whole_s = (stopwatch_s() - began_s) / number * len(blocks)
        progress(max((stopwatch_s() - began_s) / budget_s, 0.0))
        # Where the whole log would take no longer than the estimate, exact figures are better.
        if number == _PROBES and whole_s <= budget_s:
            return None
    ratios = [
        ratio_of([daemon[figure] for _, daemon in pairs], [holes[figure] for holes, _ in pairs], len(blocks))
        for figure in range(len(allowed))
    ]
    work, lent, useful = (
        None if whole is None else ratio.times(whole) for ratio, whole in zip(ratios, allowed, strict=True)
    )
    assert lent is not None
    assert useful is not None
    took_s = stopwatch_s() - began_s
    return DaemonEstimate(work, lent, useful, len(pairs), len(blocks), block_s, seed, took_s, whole_s)


def _until_over(
    blocks: Sequence[tuple[float, float]], over_s: float, stopwatch_s: Callable[[], float]
) -> Iterator[tuple[int, tuple[float, float]]]:
    """The blocks with their numbers, from 1, until the time is over."""
    for number, block in enumerate(blocks, 1):
        # On a slow machine the time may be over before; an interval needs these blocks all the same.
        if number > MIN_BLOCKS and stopwatch_s() >= over_s:
            return
        yield number, block


def study_estimated(
    log: SiteLog,
    allowed: ReplayOutcome,
    allow: Callable[[Holes], ReplayRecord],
    go_as_daemon: Callable[[SiteLog], ReplayRecord],
    budget_s: float,
    stopwatch_s: Callable[[], float],
    progress: Callable[[float], None] = lambda part: None,
) -> DaemonEstimate | None:
    """What the daemon would have got of a long log, from some hours of it; None: all of it is replayed as soon.

    Args:
        log: what is replayed.
        allowed: what its holes allow.
        allow: replays some hours of it as the holes allow.
        go_as_daemon: replays them as the daemon would have gone.
        budget_s: how long that may take.
        stopwatch_s: running seconds.
        progress: is called with the part of that time that is over.
    """

    def replay_block(from_s: float, until_s: float) -> BlockPair:
        holes = cut(log.holes, from_s, until_s)
        if not len(holes):
            return _NOTHING, _NOTHING
        return _figures(allow(holes)), _figures(go_as_daemon(replace(log, holes=holes)))

    known = allowed.u_work, allowed.lent_node_hours, allowed.useful_node_hours
    window = log.holes.from_s, log.holes.until_s
    return estimate_daemon(window, known, replay_block, budget_s, stopwatch_s, progress)


_NOTHING = 0.0, 0.0, 0.0


def _figures(record: ReplayRecord) -> Figures:
    return record.work, record.lent_node_s, record.useful_node_s
