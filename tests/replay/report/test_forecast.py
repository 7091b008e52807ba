from __future__ import annotations

from dataclasses import replace

from freetrain.replay.forecast_score import FARTHEST_S, Calibration, ForecastError, ForecastScore
from freetrain.replay.report import ReportInput
from freetrain.replay.report.page import render
from freetrain.replay.report.tables import forecast_tables

SCORE = ForecastScore(
    calibration=(
        Calibration(300.0, 40, 0.95, 1.0),
        Calibration(1200.0, 80, 0.93, 0.5),
        Calibration(3600.0, 30, 0.1, 0.0),
        Calibration(3600.0, 29, 0.95, 0.0),
        Calibration(3600.0, 14, 0.55, 0.0),
    ),
    learned=(ForecastError(3600.0, 9, 1800.0, 1500.0, 600.0),),
    planned=(ForecastError(None, 1, 20_000.0, 100.0, 19_900.0),),
)


def test_what_was_said_alike_stands_in_one_line_and_what_was_hardly_said_is_left_open() -> None:
    tables = forecast_tables(SCORE)
    assert tables is not None
    assert [row.forecast for row in tables.calibration] == ["90 to 100 %", "10 to 20 %"]
    assert [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row.came] for row in tables.calibration] == [
        ["100 %", "50.0 %", "–"],
        ["–", "–", "0 %"],
    ]
    assert [(row.kind, row.forecasts) for row in tables.errors] == [("learned", "9"), ("planned", "1")]


def test_forecasts_of_one_kind_are_told_apart_by_how_long_they_were() -> None:
    learned = tuple(ForecastError(up_to_s, 9, 200.0, 150.0, 60.0) for up_to_s in FARTHEST_S[:-1])
    longest = ForecastError(None, 1, 20_000.0, 100.0, 19_900.0)
    tables = forecast_tables(replace(SCORE, learned=(*learned, longest), planned=learned[:1]))
    assert tables is not None
    assert [(row.kind, row.length.replace("\N{NO-BREAK SPACE}", " ")) for row in tables.errors] == [
        ("learned", "up to 5 min"),
        ("learned", "5 min to 20 min"),
        ("learned", "20 min to 60 min"),
        ("learned", "60 min to 4 h"),
        ("learned", "over 4 h"),
        ("planned", "up to 5 min"),
    ]


def test_where_nothing_was_forecast_there_is_nothing_to_show() -> None:
    assert forecast_tables(ForecastScore()) is None
    assert forecast_tables(replace(SCORE, calibration=SCORE.calibration[3:])) is None


def test_the_page_says_how_well_idle_time_could_be_forecast(report: ReportInput) -> None:
    page = render(report)
    assert "How well idle time could be forecast" in page
    assert '<th scope="row">learned, 60\N{NO-BREAK SPACE}min to 4\N{NO-BREAK SPACE}h</th>' in page
