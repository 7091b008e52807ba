"""The page: everything a report says and shows, put into one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from freetrain.errors import StateError
from freetrain.replay.course import ReplayRecord
from freetrain.replay.dedicated import DedicatedRecord
from freetrain.replay.logs.model import SiteLog
from freetrain.replay.outcome import Outcome, definitions
from freetrain.replay.report import as_daemon, charts, palette, sentences, words
from freetrain.replay.report.figures import hole_lengths, nodes_over_time, samples_over_time, trainer_rows
from freetrain.replay.report.node_grid import node_grid
from freetrain.replay.report.svg import NARROW, WIDE, Format
from freetrain.replay.study import DaemonStudy


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What a report is made of.

    Attributes:
        title: name of the log or machine.
        log: the log that was replayed.
        record: what came of the replay.
        dedicated: what a dedicated machine trains.
        outcome: the figures.
        settings: how it was replayed, in the order to be shown.
        version: of freetrain.
        command: the command line that was run.
        as_daemon: what the daemon would have got; None: it was not asked.
    """

    title: str
    log: SiteLog
    record: ReplayRecord
    dedicated: DedicatedRecord
    outcome: Outcome
    settings: Mapping[str, str]
    version: str
    command: str
    as_daemon: DaemonStudy | None = None


def write_report(path: Path, report: ReportInput) -> None:
    """Write a report as one HTML file that needs no network and no script.

    Raises:
        StateError: the file cannot be written.
        FreetrainError: matplotlib is not installed.
    """
    page = render(report)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StateError(
            f"The report cannot be written to {path}: {error.strerror or error}.",
            "Name a file in a directory that exists and that you may write to.",
        ) from error


def render(report: ReportInput) -> str:
    """The report as HTML."""
    environment = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(count=words.count, number=words.number, share=words.share, moment=words.moment)
    environment.globals.update(
        large=words.large, brief_duration=words.brief_duration, colour=palette.trainer_colour
    )
    rows = trainer_rows(report.record.runs)
    package = files(__package__)
    template = environment.from_string(package.joinpath("report.html.j2").read_text(encoding="utf-8"))
    style = package.joinpath("report.css").read_text(encoding="utf-8")
    return template.render(
        report=report,
        holes=report.record.holes,
        style=Markup(style),
        palette=palette,
        pictures=_pictures(report),
        rows=rows,
        figures=_figures(report.outcome),
        total_lost_s=sum(sum(run.lost_s.values()) for run in report.record.runs),
        headline=sentences.headline(report.outcome, report.record.holes.duration_s),
        tiles=sentences.tiles(report.outcome, report.record.holes),
        parts=sentences.parts_of_idle_time(report.outcome),
        about_holes=sentences.about_holes(report.record.holes),
        about_trainers=sentences.about_trainers(report.record, len(rows)),
        ran_out=sentences.ran_out(report.record),
        about_rows=sentences.about_rows(report.log.rows),
        daemon=_daemon(report),
    )


def _daemon(report: ReportInput) -> dict[str, Any] | None:
    if report.as_daemon is None:
        return None
    return {
        "promise": as_daemon.promise(report.as_daemon),
        "price": as_daemon.price(report.as_daemon.site),
        "compared": as_daemon.compared(report.outcome, report.as_daemon.outcome),
    }


def _figures(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [
        (name, sentences.shown_figure(name, getattr(outcome, name)), meaning)
        for name, meaning in definitions().items()
    ]


def _pictures(report: ReportInput) -> dict[str, Markup]:
    """Every picture that has something to show, by name, for wide screens and for narrow ones.

    The style sheet shows one of the two.
    """
    wide, narrow = _drawn(report, WIDE), _drawn(report, NARROW)
    return {name: Markup("\n".join((wide[name], narrow[name]))) for name in wide}


def _drawn(report: ReportInput, size: Format) -> dict[str, str]:
    record = report.record
    if not len(record.holes):
        return {}
    pictures = {
        "nodes": charts.idle_and_lent(nodes_over_time(record.holes, record.timeline, size.bins), size),
        "grid": charts.nodes_by_trainer(node_grid(record, size.width, len(palette.TRAINERS)), size),
        "lengths": charts.lengths_of_holes(hole_lengths(record.holes), size),
    }
    samples = samples_over_time(record, report.dedicated, size.bins)
    if max(samples.replayed.max(), samples.dedicated.max()) > 0:
        pictures["samples"] = charts.samples_trained(samples, size)
    return pictures
