"""When to look next. Pure."""

from __future__ import annotations

from math import floor

_LEAD_S = 1.0
"""How long before a plan of Slurm's a look must be over: nodes given back need that to be idle."""


def next_look_s(now_s: float, poll_s: float, last_plan_s: float | None, interval_s: float, look_s: float) -> float:
    """The usual time, or better a moment before Slurm plans.

    What is given back just before Slurm plans is idle when it does. For what is given back later it has evicted,
    and the job that wants it starts only with the next plan.

    Args:
        now_s: UTC epoch seconds.
        poll_s: the usual time between two looks.
        last_plan_s: when Slurm last planned; None: unknown.
        interval_s: Slurm's time between two plans.
        look_s: how long a look takes.
    """
    usual_s = now_s + poll_s
    if last_plan_s is None or last_plan_s + interval_s <= now_s:
        return usual_s  # with nothing to do Slurm does not plan, and later does so whenever there is something
    next_plan_s = last_plan_s + interval_s - _LEAD_S - min(look_s, interval_s / 3)
    before_plan_s = next_plan_s + floor((usual_s - next_plan_s) / interval_s) * interval_s
    return before_plan_s if before_plan_s > now_s else usual_s
