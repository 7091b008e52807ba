"""The bounds of values: the least and the most that is taken, wherever a value comes in or is read back.

Tags, trainers' files, settings, progress and records use the same table, so that what is accepted once can be read
again. The bounds lie far beyond anything real, and such that no sum or product of a few values is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field


@dataclass(frozen=True, slots=True)
class Bound:
    """An interval of numbers; where it is open, ``least`` itself is outside."""

    least: float
    most: float
    is_open: bool = False

    def __contains__(self, value: float) -> bool:
        """Whether a number lies within; NaN does not."""
        return self.least <= value <= self.most and not (self.is_open and value == self.least)

    def __str__(self) -> str:
        """The bound in words, as the end of a sentence that begins with ``must be``."""
        least, most = _number(self.least), _number(self.most)
        return f"more than {least} and at most {most}" if self.is_open else f"from {least} to {most}"

    @property
    def field(self) -> Any:
        """The bound in the form of pydantic, for annotations."""
        if self.is_open:
            return Field(gt=self.least, le=self.most, allow_inf_nan=False)
        return Field(ge=self.least, le=self.most, allow_inf_nan=False)


def _number(value: float) -> str:
    return f"{value:g}" if value < 1e6 else f"{value:.0e}".replace("e+", "e").replace("e0", "e")


SECONDS = Bound(0, 1e9)
"""Costs, periods and limits of time."""
INSTANT = Bound(-1e11, 1e11)
"""UTC epoch seconds."""
NODES = Bound(1, 100_000)
"""Nodes of one trainer: tables hold a number for each size."""
RATE = Bound(0, 1e18)
"""Samples/s of a point of a curve."""
SEEN_RATE = Bound(1e-9, 1e12)
"""Samples/s in a trainer's progress."""
SEEN_WEIGHT = Bound(1e-9, 1e9)
"""Weight of an observation."""
SAMPLES = Bound(0, 1e18)
"""Samples trained, or to be trained."""
WEIGHT = Bound(0, 1e9, is_open=True)
"""Weight of a trainer."""
OWNERS_WEIGHT = Bound(0.01, 100)
"""Weight of a trainer among its owner's; the speed of a kind of nodes, too."""
SPEED = Bound(0, 1e6, is_open=True)
"""Speed of a trainer on a kind of nodes, relative to its curve."""
SERVERS = Bound(1, 16)
"""Parameter servers of one trainer: their nodes have to fit into a comment of Slurm's."""
STEP_COEFFICIENT_S = Bound(0, 1e6)
"""Seconds of a step by nodes and servers."""
BYTES_PER_SAMPLE = Bound(0, 1e15)
"""Bytes of gradients for each sample of a node."""
MEGABYTES = Bound(1, 99_999_999)
"""Memory of a node."""
WATTS = Bound(0, 1e7)
"""Draw of a node."""
