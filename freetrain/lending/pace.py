"""Pace: the time of the next look. Pure."""

from __future__ import annotations

from math import floor

# Nodes that are given back need about this long to be idle when Slurm plans.
_LEAD_S = 1.0

LONGEST_RETRY_S = 60.0
"""Longest wait, in seconds, until a Slurm that does not answer is asked again, unless the usual time is later."""

# An outage may last for weeks, and 2.0 ** 1024 is an OverflowError.
_MOST_DOUBLINGS = 10


def next_look_s(now_s: float, poll_s: float, last_plan_s: float | None, interval_s: float, look_s: float) -> float:
    """Time of the next look, epoch seconds: the usual one, or better a moment before Slurm plans.

    What is given back just before Slurm plans is idle when it does. For what is given back later it has evicted,
    and the job that wants it starts only with the next plan.
    """
    usual_s = now_s + poll_s
    if last_plan_s is None or last_plan_s + interval_s <= now_s:
        # With nothing to do Slurm does not plan, and later does so whenever there is something.
        return usual_s
    next_plan_s = last_plan_s + interval_s - _LEAD_S - min(look_s, interval_s / 3)
    # The last plan before the usual time: a poll may be longer than several intervals.
    before_plan_s = next_plan_s + floor((usual_s - next_plan_s) / interval_s) * interval_s
    return before_plan_s if before_plan_s > now_s else usual_s


def retry_after_s(poll_s: float, failures: int) -> float:
    """Seconds until a Slurm that did not answer is asked again: as many as usual, then twice as many each time."""
    return min(poll_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), max(poll_s, LONGEST_RETRY_S))
