"""How fast models are with more or less CPUs and memory, as Synergy's authors published it for their servers."""

from __future__ import annotations

from freetrain.policies.synergy.sensitivity import Profile

_CPUS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 12.0, 24.0)
_MEMORY_GB = (20.83, 62.5, 125.0, 187.5)
_TOO_LITTLE = (0.1,) * len(_CPUS)
"""Where the data set is not cached."""


def _by_cpus(*rates: float) -> Profile:
    """Faster with CPUs, the last rate from there on, and as fast as that with the share of memory."""
    row = (*rates, *(rates[-1],) * (len(_CPUS) - len(rates)))
    return Profile(_CPUS, _MEMORY_GB, (_TOO_LITTLE, row, row, row))


def _cached(best: float) -> Profile:
    """Faster still with twelve CPUs, if twice the share of memory holds the data set."""
    few = (0.3, 0.66, 1.0, 1.25, 1.53, 1.75, 2.0)
    low, high = (*few, 2.0, 2.0), (*few, best, best)
    return Profile(_CPUS, _MEMORY_GB, (_TOO_LITTLE, low, high, high))


def _m5() -> Profile:
    """Faster with memory, if there are six CPUs."""
    few = (0.3, 0.66, 1.0, 1.2, 1.4)
    rows = tuple((*few, *(rate,) * 4) for rate in (1.5, 2.0, 2.5))
    return Profile(_CPUS, _MEMORY_GB, (_TOO_LITTLE, *rows))


_SAME = Profile(_CPUS, _MEMORY_GB, ((1.0,) * len(_CPUS),) * len(_MEMORY_GB))

PROFILES = {
    "resnet18": _by_cpus(0.37, 0.72, 1.0, 1.3, 1.53, 1.75, 2.4),
    "resnet50": _by_cpus(0.4, 0.74, 1.0, 1.15),
    "mobilenet": _by_cpus(0.37, 0.72, 1.0, 1.3, 1.49, 1.55),
    "alexnet": _cached(2.94),
    "shufflenet": _cached(2.89),
    "m5": _m5(),
    "deepspeech": _by_cpus(0.3, 0.66, 1.0),
    "gnmt": _SAME,
    "transformer": _SAME,
    "lstm": _SAME,
    "bert": _SAME,
}

KINDS = {
    "image": ("resnet18", "resnet50", "mobilenet", "alexnet", "shufflenet"),
    "language": ("gnmt", "transformer", "lstm", "bert"),
    "speech": ("m5", "deepspeech"),
}
