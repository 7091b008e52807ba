"""How the pause grows with the model, which a newcomer gets from a survivor's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.elastic.events import Conditions, Event, Outcome, measure
from benchmarks.elastic.systems import FREETRAIN

PARAMETERS = (1_000_000, 10_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000)
GROW = Event("grow 2→3", 2, 3, "join")
LEAVE = Event("leave 3→2", 3, 2, "leave")
NO_MEMORY = "not enough memory"

_BYTES_PER_PARAMETER = 12
"""Of each rank: four for the value, four for the gradient, the rest for buffers on the way."""


def measure_sizes(repeats: int) -> Iterator[Outcome]:
    """Let a third rank come and go, model by model; plain SGD, so that the state is the parameters alone."""
    for parameters in PARAMETERS:
        if parameters * _BYTES_PER_PARAMETER * GROW.after > _free_bytes():
            yield from (Outcome(FREETRAIN.name, event.name, 0, parameters, NO_MEMORY) for event in (GROW, LEAVE))
            continue
        conditions = Conditions(parameters, device_s=0.0, settle_steps=4, timeout_s=180.0)
        yield from measure(FREETRAIN, (GROW, LEAVE), repeats, conditions)


def _free_bytes() -> int:
    """Memory that can be had without swapping."""
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(facts["MemAvailable"].split()[0])
