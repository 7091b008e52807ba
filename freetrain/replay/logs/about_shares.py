"""What the idle parts of used nodes rest on, in sentences for the report."""

from __future__ import annotations

from collections.abc import Iterator

from freetrain.core.amounts import Amount
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.logs.idle_parts import IdlePart, IdleShares

_WORTH_SAYING = 0.005


def about_shares(shares: IdleShares) -> list[str]:
    """Notes; where no node was partly used at most that no task fits on any: nodes without jobs show that, too."""
    is_told = shares.partly_used_s.any() or shares.cpus.unknown_s.any()
    return [*_too_large(shares), *(_notes(shares) if is_told else ())]


def _too_large(shares: IdleShares) -> Iterator[str]:
    room = shares.room
    if room is not None and not room.on_empty.any():
        kept = f" and {room.task.keep} are kept back (lend.keep)" if room.task.keep != Amount() else ""
        yield (
            f"No node is known to have as much as a task asks for: {room.task.words}{kept}. Where the log does "
            "not show all that nodes have, --machine tells it."
        )


def _notes(shares: IdleShares) -> Iterator[str]:
    parts: dict[str, IdlePart | None] = {"CPUs": shares.cpus, "memory": shares.memory_bytes, "GPUs": shares.gpus}
    known = {name: part for name, part in parts.items() if part is not None}
    least = [name for name, part in known.items() if part.is_least]
    if least:
        yield (
            f"How much nodes have ({', '.join(least)}) is taken to be the most that jobs held there at once: what "
            "lies idle on used nodes is at least what is shown, if the nodes of each job are alike. "
            "--machine tells more."
        )
    if shares.spread >= _WORTH_SAYING:
        yield (
            f"{100 * shares.spread:.0f} % of the CPU time was held by jobs on several nodes. The log tells their "
            "sums alone: they count as if they held as much of each node."
        )
    for name in shares.room.ignored if shares.room else ():
        yield f"The log says of no job how much {name} it held: what --task asks for of it is not heeded."
    for name, part in known.items():
        hours = float(part.unknown_s.sum()) / SECONDS_PER_HOUR
        if hours >= 1:
            yield (
                f"For {hours:,.0f} node-hours the log does not say how much of the {name} the jobs held: "
                "nothing of it counts as idle there."
            )
