"""What the rows of a log prove about the time that it covers, and which of their times cannot be right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freetrain.replay.logs.times import iso

_DAY_S = 86_400.0
_FEWEST_OTHERS = 5
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Proof:
    """What the rows prove about the time that the log covers.

    Attributes:
        earliest_start_s: when the first job started.
        latest_end_s: when the last one ended, or started if that is later.
        earliest_end_s: the first end. A dump from X on holds no row that ended before X.
        latest_submit_s: the last submission (start, where there is none). None is after the dump's end.
        notes: times that were left out because they lie far from all others, in sentences.
    """

    earliest_start_s: float
    latest_end_s: float
    earliest_end_s: float
    latest_submit_s: float
    notes: tuple[str, ...] = ()


def prove(seen: pl.DataFrame) -> Proof | None:
    """The time that the rows cover; None if no job started.

    Args:
        seen: columns ``job``, ``submit_s``, ``start_s``, ``end_s``.
    """
    starts, ends, submits = (_known(seen, name) for name in ("start_s", "end_s", "submit_s"))
    if starts.is_empty():
        return None
    ends = ends if len(ends) else starts
    submits = submits if len(submits) else starts
    first_end, odd_ends = _without_low(ends)
    last_submit, odd_submits = _without_high(submits)
    return Proof(
        earliest_start_s=_without_low(starts)[0],
        latest_end_s=max(_without_high(starts)[0], _without_high(ends)[0]),
        earliest_end_s=first_end,
        latest_submit_s=last_submit,
        notes=(*_named(odd_ends, "ended"), *_named(odd_submits, "was submitted")),
    )


def prove_by_events(at_s: NDArray[np.float64], node: pl.Series) -> Proof:
    """The time that node events cover."""
    events = pl.DataFrame({"job": node, "at_s": at_s})
    first_s, early = _without_low(events)
    last_s, late = _without_high(events)
    notes = (*_named(early, "changed", "Node"), *_named(late, "changed", "Node"))
    return Proof(first_s, last_s, first_s, last_s, notes)


def _known(seen: pl.DataFrame, column: str) -> pl.DataFrame:
    """Columns ``job`` and ``at_s`` of the rows that have this time."""
    return seen.select("job", pl.col(column).alias("at_s")).filter(pl.col("at_s").is_finite())


def _without_high(times: pl.DataFrame) -> tuple[float, pl.DataFrame]:
    """The last time that can be right, and the rows with later ones."""
    at_s = np.sort(times["at_s"].to_numpy())
    last_s = float(at_s[_outliers_from(at_s) - 1])
    return last_s, times.filter(pl.col("at_s") > last_s)


def _without_low(times: pl.DataFrame) -> tuple[float, pl.DataFrame]:
    """The first time that can be right, and the rows with earlier ones."""
    backwards = np.sort(-times["at_s"].to_numpy())
    first_s = -float(backwards[_outliers_from(backwards) - 1])
    return first_s, times.filter(pl.col("at_s") < first_s)


def _outliers_from(ascending_s: NDArray[np.float64]) -> int:
    """Where the outliers among the latest times begin; the number of times where there are none.

    A few times are outliers if a gap of more than a day separates them from all others, and is longer than the
    whole time that these cover.
    """
    count = len(ascending_s)
    few = max(2, count // 50)
    begin = max(count - few, _FEWEST_OTHERS)
    if begin >= count:
        return count
    gaps_s = np.diff(ascending_s[begin - 1 :])
    # The earliest may be outliers as well.
    covered_s = ascending_s[begin - 1 : -1] - ascending_s[min(few, begin - 1)]
    far = np.flatnonzero(gaps_s > np.maximum(covered_s, _DAY_S))
    return begin + int(far[0]) if len(far) else count


def _named(odd: pl.DataFrame, did: str, what: str = "Job") -> list[str]:
    if odd.is_empty():
        return []
    shown = ", ".join(
        f"{what.lower()} {name} {did} {iso(at_s)}" for name, at_s in odd.head(_MOST_NAMED).iter_rows()
    )
    more = f" (and {len(odd) - _MOST_NAMED:,} more)" if len(odd) > _MOST_NAMED else ""
    return [f"Far from all other times, so the window leaves it out: {shown}{more}."]
