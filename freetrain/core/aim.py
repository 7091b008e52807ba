"""Aims: what a site wants maximised, as it writes it: ``weighted,evictions=60,deadlines=3,energy=1200``.

An objective says what training is worth (``freetrain.core.objectives``). Behind it may stand, in any order and
each once, what decisions weigh besides. What was trained is counted by the objective alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from types import MappingProxyType

from freetrain.errors import InputError

_JOULES_PER_KWH = 3.6e6

WEIGHTED = frozenset({"throughput", "weighted", "fair-completion"})
"""Objectives that count each trainer by its weight."""


@dataclass(frozen=True, slots=True)
class Aim:
    """Aim: an objective with the parts behind it.

    Attributes:
        evictions_s: seconds that each loss of nodes at a known time counts for besides what is lost.
        deadlines: factor by which it counts more what a trainer has to train in order to meet its deadline.
        energy: training that each kWh of a lent node has to bring at least, in the objective's unit.
    """

    objective: str
    evictions_s: float = 0.0
    deadlines: float = 0.0
    energy: float = 0.0

    @property
    def per_joule(self) -> float:
        """Price of a joule in training."""
        return self.energy / _JOULES_PER_KWH

    def scale_of(self, weight: float) -> float:
        """Weight of a trainer in deadlines.

        Electricity counts as many times, too: a weight is its owner's word, and must not make it cheaper.
        """
        return weight if self.objective in WEIGHTED else 1.0


@dataclass(frozen=True, slots=True)
class AimPart:
    """A part that may stand behind an objective: a field of :class:`Aim`, its largest value, a clause on it."""

    field: str
    most: float
    means: str


PARTS: Mapping[str, AimPart] = MappingProxyType(
    {
        "evictions": AimPart(
            "evictions_s", 1e9, "seconds that each loss of nodes at a known time counts for besides what is lost"
        ),
        "deadlines": AimPart(
            "deadlines", 1e3, "how many times more it counts what a training must do to meet its deadline"
        ),
        "energy": AimPart(
            "energy", 1e12, "how much must be trained for each kWh of a lent node, in the objective's unit"
        ),
    }
)
"""Word → the part of an objective that it names."""


@lru_cache(maxsize=64)
def read_aim(name: str) -> Aim:
    """The aim of a name such as ``weighted,evictions=60``.

    Raises:
        InputError: a part behind the objective's name is none.
    """
    objective, *parts = name.split(",")
    values: dict[str, float] = {}
    for text in parts:
        word, _, number = text.partition("=")
        part = PARTS.get(word)
        try:
            value = float(number)
        except ValueError:
            value = nan
        if part is None or part.field in values or not 0.0 <= value <= part.most:
            known = ", ".join(f"{word}=0 … {part.most:g}" for word, part in PARTS.items())
            raise InputError(f"The objective {name!r} cannot be: {text!r}.", f"Each of {known} may follow once.")
        values[part.field] = value
    return Aim(objective, **values)


def no_watts(name: str) -> InputError:
    """The error of an objective that counts electricity where the draw of nodes is unknown."""
    return InputError(
        f"The objective {name!r} counts electricity, and nobody says what nodes take.",
        "Set watts_per_node, or watts_of for some kinds of nodes, in the table [prices].",
    )


def without(name: str, word: str) -> str:
    """The aim without one of its parts."""
    objective, *parts = name.split(",")
    return ",".join((objective, *(part for part in parts if part.partition("=")[0] != word)))
