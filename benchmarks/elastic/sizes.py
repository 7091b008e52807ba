"""Whether the pause grows with the model, which a newcomer gets from a survivor's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.elastic.events import Conditions, Event, Outcome, measure
from benchmarks.elastic.systems import FREETRAIN

PARAMETERS = (1_000_000, 10_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000)
GROW = Event("grow 2→3", 2, 3, "join")
LEAVE = Event("leave 3→2", 3, 2, "leave")
KILL = Event("kill -9, 3→2", 3, 2, "kill")
NO_MEMORY = "not enough memory"

_BYTES_PER_PARAMETER = {"sgd": 12, "adam": 24}
"""Of each rank: four for the value, four for the gradient, eight for Adam's state, the rest for copies."""


def measure_sizes(repeats: int, optimizer: str, sizes: Sequence[int] = PARAMETERS) -> Iterator[Outcome]:
    """Let a third rank come and leave, come and be killed, model by model."""
    events = (GROW, LEAVE, GROW, KILL)
    for parameters in sizes:
        if parameters * _BYTES_PER_PARAMETER[optimizer] * GROW.after > _free_bytes():
            yield from (Outcome(FREETRAIN.name, event.name, 0, parameters, NO_MEMORY) for event in events)
            continue
        conditions = Conditions(parameters, 0.0, settle_steps=4, timeout_s=180.0, optimizer=optimizer)
        yield from measure(FREETRAIN, events, repeats, conditions)


def _free_bytes() -> int:
    """Memory that can be had without swapping."""
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(facts["MemAvailable"].split()[0])
