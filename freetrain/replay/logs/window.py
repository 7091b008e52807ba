"""The window that a log is read for: the time that its rows are sure to cover."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.errors import InputError
from freetrain.replay.logs.parsed import TIMES
from freetrain.replay.logs.times import iso

_DAY_S = 86_400.0
_MIN_OTHERS = 5
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class CoveredTime:
    """Time that the log covers, as its rows prove it.

    Attributes:
        latest_end_s: end of the last run, or the last start if that is later.
        earliest_end_s: the first end. A dump from X on holds no row that ended before X.
        latest_submit_s: the last submission (start, where there is none). None is after the dump's end.
        notes: times that were left out because they lie far from all others, in sentences.
    """

    earliest_start_s: float
    latest_end_s: float
    earliest_end_s: float
    latest_submit_s: float
    notes: tuple[str, ...] = ()


def covered_time(seen: pl.DataFrame) -> CoveredTime | None:
    """The time that the rows cover; None if no job started."""
    at_s = {name: np.sort(seen[name].filter(seen[name].is_finite()).to_numpy()) for name in TIMES}
    if not len(at_s["start_s"]):
        return None
    ends, submits = (name if len(at_s[name]) else "start_s" for name in ("end_s", "submit_s"))
    earliest_end_s, latest_submit_s = _first_s(at_s[ends]), _last_s(at_s[submits])
    return CoveredTime(
        earliest_start_s=_first_s(at_s["start_s"]),
        latest_end_s=max(_last_s(at_s["start_s"]), _last_s(at_s[ends])),
        earliest_end_s=earliest_end_s,
        latest_submit_s=latest_submit_s,
        notes=(
            *_named(seen, ends, pl.col(ends) < earliest_end_s, "ended"),
            *_named(seen, submits, pl.col(submits) > latest_submit_s, "was submitted"),
        ),
    )


def time_covered_by_events(events: pl.DataFrame) -> CoveredTime:
    """The time that node events cover; columns ``file``, ``line``, ``t_s``, ``node``."""
    at_s = np.sort(events["t_s"].to_numpy())
    first_s, last_s = _first_s(at_s), _last_s(at_s)
    seen = events.rename({"node": "job"})
    notes = (
        *_named(seen, "t_s", pl.col("t_s") < first_s, "changed", "Node"),
        *_named(seen, "t_s", pl.col("t_s") > last_s, "changed", "Node"),
    )
    return CoveredTime(first_s, last_s, first_s, last_s, notes)


def _last_s(in_order_s: NDArray[np.float64]) -> float:
    """The last time that can be right, of ascending or descending ones: outliers behind it are passed over."""
    count = len(in_order_s)
    # Of many times 2 % may be outliers: more than that is no accident.
    few = max(2, count // 50)
    begin = max(count - few, _MIN_OTHERS)
    if begin >= count:
        return float(in_order_s[-1])
    gaps_s = np.abs(np.diff(in_order_s[begin - 1 :]))
    # The first may be outliers as well.
    covered_s = np.abs(in_order_s[begin - 1 : -1] - in_order_s[min(few, begin - 1)])
    # Outliers are separated by a gap of more than a day that is longer than all that the other times cover.
    far = np.flatnonzero(gaps_s > np.maximum(covered_s, _DAY_S))
    return float(in_order_s[begin + int(far[0]) - 1 if len(far) else -1])


def _first_s(ascending_s: NDArray[np.float64]) -> float:
    return _last_s(ascending_s[::-1])


def _named(seen: pl.DataFrame, column: str, is_odd: pl.Expr, did: str, what: str = "Job") -> list[str]:
    odd = seen.filter(is_odd & pl.col(column).is_finite()).sort("file", "line")
    if odd.is_empty():
        return []
    named = odd.head(_MAX_NAMED).select("job", column).iter_rows()
    shown = ", ".join(f"{what.lower()} {name} {did} {iso(at_s)}" for name, at_s in named)
    more = f" (and {len(odd) - _MAX_NAMED:,} more)" if len(odd) > _MAX_NAMED else ""
    return [f"Far from all other times, so the window leaves it out: {shown}{more}."]


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Window in which holes are looked for, with notes on how it was chosen."""

    from_s: float
    until_s: float
    notes: tuple[str, ...] = ()

    @property
    def span(self) -> str:
        """Start and end of the window, for people."""
        return f"{iso(self.from_s)} to {iso(self.until_s)}"


def choose_window(proof: CoveredTime, from_s: float | None, until_s: float | None) -> LogWindow:
    """The window asked for, or the tightest that the log itself proves.

    A dump of the time from X to Y holds every job that overlaps it. So each row ends after X and was submitted
    before Y: the first end and the last submission lie within, and a machine that seems to fill up before or to
    drain after them does so only in the log.

    Raises:
        InputError: if the window is empty or has nothing to do with the log.
    """
    proven = _proven(proof)
    chosen = LogWindow(proven.from_s if from_s is None else from_s, proven.until_s if until_s is None else until_s)
    covered = LogWindow(proof.earliest_start_s, proof.latest_end_s).span
    if chosen.until_s <= chosen.from_s:
        raise InputError(
            f"The window from {chosen.span} is empty.",
            f"The log covers {covered}: choose --from and --until within.",
        )
    if chosen.from_s >= proof.latest_end_s or chosen.until_s <= proof.earliest_start_s:
        raise InputError(
            f"The window from {chosen.span} lies outside the log, which covers {covered}.",
            "Choose --from and --until within the log, or leave them out.",
        )
    if from_s is None and until_s is None:
        return replace(chosen, notes=(*proven.notes, *proof.notes))
    notes = proof.notes if from_s is None or until_s is None else ()
    if chosen.from_s < proven.from_s or chosen.until_s > proven.until_s:
        beyond = (
            f"The window {chosen.span} reaches beyond the time that the log is sure to cover ({proven.span}): "
            "nodes near its edges may only look idle."
        )
        notes = (beyond, *notes)
    return replace(chosen, notes=notes)


def clock_hours(from_s: float, until_s: float) -> NDArray[np.float64]:
    """A window's ends and all full hours in between."""
    first, last = np.floor(from_s / SECONDS_PER_HOUR) + 1, np.ceil(until_s / SECONDS_PER_HOUR)
    return np.concatenate([[from_s], np.arange(first, last) * SECONDS_PER_HOUR, [until_s]])


def _proven(proof: CoveredTime) -> LogWindow:
    if proof.earliest_end_s < proof.latest_submit_s:
        window = LogWindow(proof.earliest_end_s, proof.latest_submit_s)
        note = (
            f"The window is {window.span}: from the first end of a job to the last submission, "
            "the time that the log is sure to cover."
        )
    else:
        window = LogWindow(proof.earliest_start_s, proof.latest_end_s)
        note = (
            f"The window is {window.span}, from the first start of a job to the last end: no job was submitted "
            "after another ended, so the log does not show what time it covers, and nodes at its edges may only "
            "look idle."
        )
    return replace(window, notes=(note,))
