"""Whether the pause grows with the model, which a newcomer gets from a survivor's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.elastic.events import Conditions, Event, Outcome, measure_by_turns
from benchmarks.elastic.systems import System

PARAMETERS = (1_000_000, 10_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000)
NO_MEMORY = "not enough memory"

_BYTES_PER_PARAMETER = {"sgd": 8, "adam": 16}
"""Of each rank: value and gradient four each, Adam's state eight."""

_BYTES_PER_PARAMETER_FED = 4
"""Of a newcomer besides: the others' gradients."""

_BYTES_BESIDES = 500 << 20
"""Of each rank: torch, and what an update takes for a moment."""

_SECONDS_PER_PARAMETER = 1e-6
"""A change may take so long: large models are fed in many steps, which are long."""


def events_at(ranks: int) -> tuple[Event, ...]:
    """One more rank comes and leaves, comes and is killed."""
    grow = Event(f"grow {ranks}→{ranks + 1}", ranks, ranks + 1, "join")
    leave = Event(f"leave {ranks + 1}→{ranks}", ranks + 1, ranks, "leave")
    kill = Event(f"kill -9, {ranks + 1}→{ranks}", ranks + 1, ranks, "kill")
    return grow, leave, grow, kill


def measure_sizes(
    systems: Sequence[System], optimizer: str, repeats: int, sizes: Sequence[int] = PARAMETERS, ranks: int = 2
) -> Iterator[Outcome]:
    """Let another rank come and go, model by model, the systems by turns."""
    events = events_at(ranks)
    for parameters in sizes:
        per_parameter = _BYTES_PER_PARAMETER[optimizer] * (ranks + 1) + _BYTES_PER_PARAMETER_FED
        if parameters * per_parameter + _BYTES_BESIDES * (ranks + 1) > _free_bytes():
            for system in systems:
                yield from (Outcome(system.name, event.name, 0, parameters, NO_MEMORY) for event in events)
            continue
        timeout_s = max(180.0, _SECONDS_PER_PARAMETER * parameters)
        conditions = Conditions(parameters, 0.0, settle_steps=4, timeout_s=timeout_s, optimizer=optimizer)
        yield from measure_by_turns(systems, events, repeats, conditions)


def _free_bytes() -> int:
    """Memory that can be had without swapping."""
    facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(facts["MemAvailable"].split()[0])
