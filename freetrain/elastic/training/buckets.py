"""Which gradients are added up together: ranks that differ in this would add up what does not belong together."""

from __future__ import annotations

from typing import NamedTuple


class Buckets(NamedTuple):
    """The buckets that a model's wrapper has for good.

    Attributes:
        made_in: number of the world whose ranks made them, all alike.
        places: of each bucket's parameters among the model's, bucket by bucket as they are added up.
    """

    made_in: int
    places: list[list[int]]
