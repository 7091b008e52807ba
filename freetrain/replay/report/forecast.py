"""How good the forecasts of idle time were, as the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from freetrain.replay.forecast_score import AHEAD_S, FARTHEST_S, Calibration, Error, ForecastScore
from freetrain.showing.words import NOTHING, brief_duration, number, share

LEAST_FORECASTS = 30
"""A share of fewer says nothing: a dozen nodes that leave together make 0 % of what was thought certain."""


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """Forecasts that said about the same, and what came; one cell for each time ahead, if there were enough."""

    said: str
    came: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Forecasts of one kind that were about as long.

    Attributes:
        kind: what they came from.
        length: between which bounds they were.
        said: their mean.
        came: how long these nodes really stayed, on average.
        off: by how much each was wrong, on average.
        forecasts: how many there were.
    """

    kind: str
    length: str
    said: str
    came: str
    off: str
    forecasts: str


@dataclass(frozen=True, slots=True)
class ForecastTables:
    """Both tables.

    Attributes:
        ahead: how far ahead the cells of the calibration look.
        calibration: what was said that a node would be idle still, and the share of nodes that was.
        errors: by how much the expected time was wrong.
        least: of fewer forecasts no share is shown.
    """

    ahead: tuple[str, ...]
    calibration: tuple[CalibrationRow, ...]
    errors: tuple[ErrorRow, ...]
    least: int = LEAST_FORECASTS


def forecast_tables(score: ForecastScore) -> ForecastTables | None:
    """The tables; None where next to nothing was forecast."""
    enough = [one for one in score.calibration if one.forecasts >= LEAST_FORECASTS]
    if not enough:
        return None
    bands = sorted({_band(one) for one in enough}, reverse=True)
    rows = tuple(CalibrationRow(f"{10 * band} to {10 * band + 10} %", _came(enough, band)) for band in bands)
    errors = (*_errors("learned", score.learned), *_errors("planned", score.planned))
    return ForecastTables(tuple(map(brief_duration, AHEAD_S)), rows, errors)


def _band(one: Calibration) -> int:
    return min(int(10 * one.said), 9)


def _came(calibration: Sequence[Calibration], band: int) -> tuple[str, ...]:
    found = {one.ahead_s: share(one.came) for one in calibration if _band(one) == band}
    return tuple(found.get(ahead_s, NOTHING) for ahead_s in AHEAD_S)


def _errors(kind: str, errors: Sequence[Error]) -> tuple[ErrorRow, ...]:
    return tuple(
        ErrorRow(
            kind,
            _length(one),
            brief_duration(one.said_s),
            brief_duration(one.came_s),
            brief_duration(one.off_s),
            number(one.forecasts),
        )
        for one in errors
    )


def _length(errors: Error) -> str:
    """Between which bounds these forecasts were."""
    if errors.up_to_s is None:
        return f"over {brief_duration(FARTHEST_S[-2])}"
    at = FARTHEST_S.index(errors.up_to_s)
    up_to = brief_duration(errors.up_to_s)
    return f"{brief_duration(FARTHEST_S[at - 1])} to {up_to}" if at else f"up to {up_to}"
