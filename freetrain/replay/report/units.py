"""Work in the objective's unit, in words."""

from __future__ import annotations

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.showing.words import amount, large


def work_done(objective: str, work: float) -> str:
    """So much work as a reader understands it.

    Args:
        objective: name of what is maximised.
        work: worth per second × seconds, losses subtracted.
    """
    hours = amount(work / SECONDS_PER_HOUR)
    match objective:
        case "speedup":
            return f"as much training as one node does in {hours} hours"
        case "weighted":
            return f"as much training as one node does in {hours} hours, weights counted in"
        case "throughput":
            return f"{large(work)} samples, weights counted in"
        case _:
            return f"{large(work)} in the unit of {objective}"
