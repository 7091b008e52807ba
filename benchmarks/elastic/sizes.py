"""Whether the pause grows with the model, which a newcomer gets from a survivor's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.elastic.events import Conditions, Event, Outcome, measure
from benchmarks.elastic.systems import System

PARAMETERS = (1_000_000, 10_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000)
NO_MEMORY = "not enough memory"

_BYTES_PER_PARAMETER = {"sgd": 12, "adam": 24}
"""Of each rank at its most: value and gradient four each, Adam's state eight, the rest for copies (measured)."""


def events_at(ranks: int) -> tuple[Event, ...]:
    """One more rank comes and leaves, comes and is killed."""
    grow = Event(f"grow {ranks}→{ranks + 1}", ranks, ranks + 1, "join")
    leave = Event(f"leave {ranks + 1}→{ranks}", ranks + 1, ranks, "leave")
    kill = Event(f"kill -9, {ranks + 1}→{ranks}", ranks + 1, ranks, "kill")
    return grow, leave, grow, kill


def measure_sizes(
    system: System, repeats: int, optimizer: str, sizes: Sequence[int] = PARAMETERS, ranks: int = 2
) -> Iterator[Outcome]:
    """Let another rank come and go, model by model."""
    events = events_at(ranks)
    for parameters in sizes:
        if parameters * _BYTES_PER_PARAMETER[optimizer] * (ranks + 1) > _free_bytes():
            yield from (Outcome(system.name, event.name, 0, parameters, NO_MEMORY) for event in events)
            continue
        conditions = Conditions(parameters, 0.0, settle_steps=4, timeout_s=180.0, optimizer=optimizer)
        yield from measure(system, events, repeats, conditions)


def _free_bytes() -> int:
    """Memory that can be had without swapping."""
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(facts["MemAvailable"].split()[0])
