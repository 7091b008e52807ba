"""What the stamps of a training's steps tell: pauses, steps done twice, step times. Pure arithmetic."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile


@dataclass(frozen=True, slots=True)
class Step:
    """One completed step, as rank 0 of its world stamped it.

    Attributes:
        number: from 1; repeated if the step is done again.
        world: which world did it.
        ranks: how large that world was.
        pid: its rank 0.
        began_s: when it began, on the machine's monotonic clock.
        ended_s: when its backward pass ended.
    """

    number: int
    world: str
    ranks: int
    pid: int
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """How a training got from one world to another.

    Attributes:
        pauses_s: for each new world on the way, from the end of the last step before it to the end of its first.
        redone_steps: completed steps that had to be done again.
        step_before_s: median time of a step in the first of the worlds; None if it did too few.
        step_after_s: the same in the last.
        slowest_before_s: longest step in the first, those included in which a newcomer was fed.
    """

    pauses_s: tuple[float, ...]
    redone_steps: int
    step_before_s: float | None
    step_after_s: float | None
    slowest_before_s: float | None = None

    @property
    def pause_s(self) -> float:
        """All of the pause."""
        return sum(self.pauses_s)


def parse_steps(text: str) -> list[Step]:
    """Steps from the lines that the scripts write."""
    return [Step(**json.loads(line)) for line in text.splitlines()]


def change_in(steps: Sequence[Step]) -> Change:
    """The change of the world that these steps went through."""
    steps = sorted(steps, key=lambda step: step.ended_s)
    changes = [(last, first) for last, first in pairwise(steps) if last.world != first.world]
    before = list(takewhile(lambda step: step.world == steps[0].world, steps))
    return Change(
        pauses_s=tuple(first.ended_s - last.ended_s for last, first in changes),
        redone_steps=sum(max(0, last.number + 1 - first.number) for last, first in changes),
        step_before_s=step_time_s(before),
        step_after_s=step_time_s(steps_of_last_world(steps)),
        slowest_before_s=max((after.ended_s - one.ended_s for one, after in pairwise(before)), default=None),
    )


def steps_of_last_world(steps: Sequence[Step]) -> list[Step]:
    """The last of the steps, as far as one world did them: a name may come again after another world's."""
    last = takewhile(lambda step: step.world == steps[-1].world, reversed(steps))
    return list(last)[::-1]


def step_time_s(steps: Sequence[Step]) -> float | None:
    """Median time from one step's end to the next one's, in one world; None if that is not known."""
    times_s = [after.ended_s - before.ended_s for before, after in pairwise(steps)]
    return statistics.median(times_s) if times_s else None


def settled(steps: Sequence[Step], ranks: int, count: int) -> bool:
    """Whether the last steps were all done by one world of this size."""
    tail = steps[-count:]
    return len(tail) == count and tail[-1].ranks == ranks and len({step.world for step in tail}) == 1


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies, interpolated."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = ordered[math.floor(place)]
    return below + (place % 1) * (ordered[math.ceil(place)] - below)
