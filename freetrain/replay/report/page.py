"""The page: everything a report says and shows, put into one HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from freetrain.config import Prices
from freetrain.core.aim import read_aim
from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.errors import StateError
from freetrain.replay.logs.model import SiteLog
from freetrain.replay.logs.times import find_zone
from freetrain.replay.outcome import Outcome, definitions
from freetrain.replay.report import as_daemon, charts, sentences
from freetrain.replay.report.assumptions import Setting, assumptions
from freetrain.replay.report.empty_hours import with_and_without
from freetrain.replay.report.figures import hole_lengths, nodes_over_time, samples_over_time, trainer_rows
from freetrain.replay.report.forecast import forecast_tables
from freetrain.replay.report.groups import by_kind, by_partition
from freetrain.replay.report.kinds import trainer_kinds
from freetrain.replay.report.node_grid import node_grid
from freetrain.replay.report.plateau import about_plateau, find_plateau
from freetrain.replay.report.rhythm import about_weeks, find_rhythm, find_weeks
from freetrain.replay.report.shares import shown_shares
from freetrain.replay.report.svg import NARROW, WIDE, Format
from freetrain.replay.study import DaemonStudy, Study
from freetrain.replay.worth import WorthRow, worth_of, worth_rows
from freetrain.showing import pages, palette


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What a report is made of.

    Attributes:
        title: name of the machine, or of the log.
        log: the log that was replayed.
        study: what came of it. Where it tells what the daemon would have got, that is what the report shows.
        setting: how it was replayed.
        version: of freetrain.
        command: the command line that was run.
        prices: what the site's nodes have and cost; None: it did not say.
    """

    title: str
    log: SiteLog
    study: Study
    setting: Setting
    version: str
    command: str
    prices: Prices | None = None

    @property
    def shown(self) -> Study | DaemonStudy:
        """The replay that is shown: the daemon's, or, where that was not asked, what holes allow."""
        return self.study.as_daemon or self.study


def write_report(path: Path, report: ReportInput) -> None:
    """Write a report as one HTML file that needs no network and no script.

    Raises:
        StateError: the file cannot be written.
        FreetrainError: matplotlib is not installed.
    """
    write_page(path, render(report))


def write_page(path: Path, page: str) -> None:
    """Write a page.

    Raises:
        StateError: the file cannot be written.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StateError(
            f"The report cannot be written to {path}: {error.strerror or error}.",
            "Name a file in a directory that exists and that you may write to.",
        ) from error


def render(report: ReportInput) -> str:
    """The report as HTML."""
    record = report.shown.record
    kinds = trainer_kinds(record.runs)
    rows = () if kinds else trainer_rows(record.runs)
    return fill(
        "report.html.j2",
        report=report,
        shown=report.shown.outcome,
        record=record,
        holes=record.holes,
        pictures=_pictures(report),
        kinds=kinds,
        rows=rows,
        coloured=_colours(report) != [palette.LENT],
        total_lost_h=sum(sum(run.lost_s.values()) for run in record.runs) / SECONDS_PER_HOUR,
        headline=sentences.headline(report.study),
        remarks=_remarks(report),
        tiles=sentences.tiles(report.study, read_aim(report.setting.objective).objective),
        parts=sentences.parts_of_idle_time(report.shown.outcome, record),
        empty_hours=with_and_without(record, report.log.empty),
        daemon=_daemon(report.study),
        forecast=forecast_tables(record.forecast),
        worth=_worth(report),
        shares=shown_shares(report.log, report.study.on_shares),
        groups=[("kind of node", by_kind(report.log)), ("partition", by_partition(report.log))],
        about_weeks=about_weeks(find_weeks(record.holes, record.timeline, find_zone(report.log.timezone))),
        about_grid=sentences.about_grid(record, report.log.packed),
        about_holes=sentences.about_holes(record.holes),
        about_trainers=sentences.about_trainers(record, len(rows), len(kinds)),
        about_rows=sentences.about_rows(report.log.rows),
        assumptions=_assumptions(report),
        figures=_figures(report.study),
    )


def fill(template: str, **values: Any) -> str:
    """One of this package's templates, with the style of all reports."""
    return pages.fill(__package__, template, pages.style_of(__package__, "report.css"), **values)


def _remarks(report: ReportInput) -> list[str]:
    """What makes the figures doubtful or smaller than they could be, above them."""
    record = report.shown.record
    plateau = find_plateau(record.holes, record.runs, report.setting.max_running)
    said = [*report.log.warnings, sentences.ran_out(record), about_plateau(plateau) if plateau else ""]
    return [each for each in said if each]


def _daemon(study: Study) -> dict[str, Any] | None:
    if study.as_daemon is None:
        return None
    return {
        "price": as_daemon.price(study.as_daemon.site),
        "compared": as_daemon.compared(study.outcome, study.as_daemon.outcome),
    }


def _worth(report: ReportInput) -> tuple[WorthRow, ...]:
    outcome, prices = report.shown.outcome, report.prices
    if prices is None:
        return ()
    worth = worth_of(outcome.lent_node_hours, outcome.useful_node_hours, prices, outcome.lent_watts)
    return worth_rows(worth, prices)


def _assumptions(report: ReportInput) -> Any:
    daemon = report.study.as_daemon
    trainers = [run.trainer for run in report.shown.record.runs]
    return assumptions(report.setting, trainers, daemon.how if daemon else None)


def _figures(study: Study) -> list[tuple[str, list[str], str]]:
    """Every figure's name, its value in each of the replays, and its definition."""
    outcomes: list[Outcome] = [study.outcome, *([study.as_daemon.outcome] if study.as_daemon else [])]
    return [
        (name, [sentences.shown_figure(name, getattr(outcome, name)) for outcome in outcomes], meaning)
        for name, meaning in definitions().items()
    ]


def _colours(report: ReportInput) -> list[str]:
    """The colours of the trainers in the picture of nodes; one for all where they could not be told apart."""
    few = len(report.shown.record.runs) <= len(palette.TRAINERS)
    return list(palette.TRAINERS) if few else [palette.LENT]


def _pictures(report: ReportInput) -> dict[str, Markup]:
    """Every picture that has something to show, by name, for wide screens and for narrow ones.

    The style sheet shows one of the two.
    """
    wide, narrow = _drawn(report, WIDE), _drawn(report, NARROW)
    return {name: Markup("\n".join((wide[name], narrow[name]))) for name in wide}


def _drawn(report: ReportInput, size: Format) -> dict[str, str]:
    record = report.shown.record
    if not len(record.holes):
        return {}
    colours = _colours(report)
    pictures = {
        "nodes": charts.idle_and_lent(nodes_over_time(record.holes, record.timeline, size.bins), size),
        "grid": charts.nodes_by_trainer(node_grid(record, size.width, len(colours)), colours, size),
        "lengths": charts.lengths_of_holes(hole_lengths(record.holes), size),
    }
    rhythm = find_rhythm(record.holes, record.timeline, find_zone(report.log.timezone))
    if rhythm is not None:
        pictures["rhythm"] = charts.nodes_by_time_of_week(rhythm, size)
    samples = samples_over_time(report.study, size.bins)
    if max(samples.allowed.max(), samples.dedicated.max()) > 0:
        pictures["samples"] = charts.samples_trained(samples, size)
    return pictures
