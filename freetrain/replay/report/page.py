"""The page: content of a report, assumptions behind its figures, and all of it put into one HTML file.

Likewise the page of runs side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from freetrain import __version__
from freetrain.config import Prices
from freetrain.core.aim import read_aim
from freetrain.core.trainer import Trainer
from freetrain.errors import StateError, explained
from freetrain.replay.comparison import RunComparison
from freetrain.replay.logs.model import SiteLog
from freetrain.replay.logs.times import find_zone
from freetrain.replay.outcome import ReplayOutcome, definitions
from freetrain.replay.report import pictures, sentences
from freetrain.replay.report.pictures import NARROW, WIDE, Format
from freetrain.replay.report.sentences import about_plateau, about_site
from freetrain.replay.report.series import (
    about_weeks,
    find_rhythm,
    find_weeks,
    hole_lengths,
    node_grid,
    nodes_over_time,
    samples_over_time,
)
from freetrain.replay.report.tables import (
    daemon_beside_holes,
    forecast_tables,
    group_tables,
    shown_shares,
    trainer_kinds,
    trainer_rows,
    with_and_without,
)
from freetrain.replay.study import DaemonSetup, Study
from freetrain.replay.worth import worth_rows
from freetrain.showing import pages, palette
from freetrain.showing.words import NOTHING, FigureLine, brief_duration, count, number

_FORESIGHT = {
    "none": "nodes are expected to stay as long as holes have lasted on average",
    "plan": "it is known when waiting jobs are planned to start there, as far as plans came true",
    "perfect": "as the holes allow the ends of holes are known, as nobody can know them",
}


@dataclass(frozen=True, slots=True)
class ReplaySetting:
    """Settings by which the log was replayed, as far as the figures of the replay do not tell them.

    Attributes:
        horizon_s: seconds ahead for which value is counted; 0: as long as idle nodes are expected to stay.
        poll_s: seconds between looks for idle nodes in the replay of what the holes allow; 0: seen at once.
        published_losses: whether evictions are charged whole.
        foresight: knowledge of the ends of holes: none, learned, plan, or perfect.
    """

    policy: str
    objective: str
    horizon_s: float
    poll_s: float
    trainers: str
    max_running: int
    published_losses: bool = False
    foresight: str = "learned"


def assumptions(
    setting: ReplaySetting, trainers: Sequence[Trainer], daemon: DaemonSetup | None
) -> tuple[FigureLine, ...]:
    """Assumptions that the figures rest on, in the order to be shown."""
    return (*_deciding(setting, trainers), *_costs(setting, trainers, daemon), *_pace(setting, trainers, daemon))


def _deciding(setting: ReplaySetting, trainers: Sequence[Trainer]) -> Iterator[FigureLine]:
    yield FigureLine("who decides", setting.policy, "the policy")
    yield FigureLine("what is maximised", setting.objective, "the objective, in whose unit work is counted")
    if setting.horizon_s:
        yield FigureLine("looks ahead", _seconds([setting.horizon_s]))
    else:
        yield FigureLine("looks ahead", "learned", "as long as idle nodes of their ages have stayed so far")
    if setting.foresight != "learned":
        yield FigureLine("foresight", setting.foresight, _FORESIGHT[setting.foresight])
    yield FigureLine("trainers", setting.trainers)
    sizes = [trainer.min_nodes for trainer in trainers], [trainer.most_nodes for trainer in trainers]
    each = f"of {number(min(sizes[0]))} to {count(max(sizes[1]), 'node')} each" if trainers else ""
    yield FigureLine("at once", f"at most {count(setting.max_running, 'trainer')}", each)


def _costs(
    setting: ReplaySetting, trainers: Sequence[Trainer], daemon: DaemonSetup | None
) -> Iterator[FigureLine]:
    if not trainers:
        return
    of_all = "training lost each time, by the trainer that changes"
    yield FigureLine("growing costs", _seconds(trainer.scale_up_s for trainer in trainers), of_all)
    yield FigureLine("shrinking costs", _seconds(trainer.scale_down_s for trainer in trainers))
    at_most = "" if setting.published_losses else ", but no more than was trained since its last change"
    yield FigureLine(
        "losing nodes to the site costs",
        _seconds(trainer.eviction_s for trainer in trainers),
        f"each time{at_most}",
    )
    starting_s = [trainer.start_s for trainer in trainers]
    booting = "beside the boot, see below" if daemon is not None else "" if any(starting_s) else "--start sets it"
    yield FigureLine("starting costs", _seconds(starting_s), booting)


def _pace(setting: ReplaySetting, trainers: Sequence[Trainer], daemon: DaemonSetup | None) -> Iterator[FigureLine]:
    boots_s = [trainer.boot_s for trainer in trainers]
    seen = f"by looks {_seconds([setting.poll_s])} apart" if setting.poll_s else "at once"
    trains = f"train {_seconds(boots_s)} later" if any(boots_s) else "" if setting.poll_s else "train at once"
    yield FigureLine("as the holes allow: idle nodes are seen", ", and ".join(filter(None, (seen, trains))))
    if daemon is None:
        return
    timing, nodes = daemon.timing, daemon.rules.nodes
    woken = ", and when a job comes or ends" if timing.wakes is not None else ""
    yield FigureLine("as daemon: it looks", f"every {_seconds([timing.poll_s])}{woken}")
    yield FigureLine("a fragment starts", f"{_seconds([timing.launch_s])} after the order", "where no job waits")
    cycle = f"{_seconds([nodes.backfill.interval_s])} apart"
    yield FigureLine("while one waits", "with Slurm’s next backfill cycle", f"cycles are {cycle}")
    booting = _seconds([boot_s or timing.boot_s for boot_s in boots_s] or [timing.boot_s])
    yield FigureLine("its node trains", f"{booting} later", "the boot")
    yield FigureLine("it has left", f"{_seconds([timing.leave_s])} after the order", "")
    yield FigureLine("or", f"{_seconds([timing.evict_s])} after Slurm took the node", "for a job of the site’s")
    yield from _limits(daemon)


def _limits(daemon: DaemonSetup) -> Iterator[FigureLine]:
    nodes, fragments = daemon.rules.nodes, daemon.rules.fragments
    yield FigureLine("margin", _seconds([nodes.margin_s]), "nodes are given back so long before they are wanted")
    yield FigureLine("shortest hole", _seconds([nodes.shortest_hole_s]), "holes expected to be shorter are left")
    yield FigureLine("rest", _seconds([nodes.cool_down_s]), "a node that was taken back is left alone")
    yield FigureLine("longest fragment", brief_duration(fragments.longest_s))
    if nodes.reserve_nodes:
        yield FigureLine("kept back", count(nodes.reserve_nodes, "idle node"))
    if nodes.most_nodes:
        yield FigureLine("lent at most", count(nodes.most_nodes, "node"))


def _seconds(values: Iterable[float]) -> str:
    """Seconds in words: one value, or a range from least to most; ``nothing`` for 0."""
    least, most = min(distinct := set(values)), max(distinct)
    if most == 0:
        return "nothing"
    return f"{number(least)} s" if least == most else f"{number(least)} to {number(most)} s"


@dataclass(frozen=True, slots=True)
class ReportInput:
    """Content of a report.

    Attributes:
        title: name of the machine, or of the log.
        study: study of the replay. Where it tells what the daemon would have got, the report shows that.
        prices: equipment and costs of the site's nodes; None: the site did not give them.
    """

    title: str
    log: SiteLog
    study: Study
    setting: ReplaySetting
    version: str
    command: str
    prices: Prices | None = None


def write_page(path: Path, page: str) -> None:
    """Write a page as one HTML file that needs no network and no script.

    Raises:
        StateError: the file cannot be written.
    """
    hint = "Name a file in a directory that exists and that you may write to."
    with explained(f"The report cannot be written to {path}", hint, StateError):
        path.write_text(page, encoding="utf-8")


def render(report: ReportInput) -> str:
    """The report as HTML."""
    record, daemon = report.study.shown.record, report.study.as_daemon
    kinds = trainer_kinds(record.runs)
    rows = () if kinds else trainer_rows(record.runs)
    plateau = about_plateau(record.holes, record.runs, report.setting.max_running)
    # The style sheet shows one of the two.
    wide, narrow = _drawn(report, WIDE), _drawn(report, NARROW)
    return fill(
        "report.html.j2",
        report=report,
        shown=report.study.shown.outcome,
        record=record,
        holes=record.holes,
        pictures={name: Markup("\n".join((wide[name], narrow[name]))) for name in wide},
        kinds=kinds,
        rows=rows,
        coloured=_colours(report) != [palette.LENT],
        total_lost_h=sum(run.lost_hours for run in record.runs),
        headline=sentences.headline(report.study),
        remarks=list(filter(None, (*report.log.warnings, sentences.ran_out(record), plateau))),
        tiles=sentences.tiles(report.study, read_aim(report.setting.objective).objective),
        parts=sentences.parts_of_idle_time(report.study.shown.outcome, record),
        empty_hours=with_and_without(record, report.log.empty),
        daemon=daemon_beside_holes(daemon.outcome, report.study.outcome) if daemon else (),
        about_site=about_site(daemon.site) if daemon else "",
        forecast=forecast_tables(record.forecast),
        worth=worth_rows(report.study.worth(report.prices), report.prices) if report.prices else (),
        shares=shown_shares(report.log, report.study.on_shares),
        groups=group_tables(report.log),
        about_weeks=about_weeks(find_weeks(record.holes, record.timeline, find_zone(report.log.timezone))),
        about_grid=sentences.about_grid(record, report.log.packed),
        about_holes=sentences.about_holes(record.holes),
        about_trainers=sentences.about_trainers(record, len(rows), len(kinds)),
        about_rows=sentences.about_rows(report.log.rows),
        assumptions=assumptions(
            report.setting, [run.trainer for run in record.runs], daemon.how if daemon else None
        ),
        figures=_figures(report.study),
    )


def fill(template: str, **values: Any) -> str:
    """A page of one of this package's templates, with the style of all reports."""
    return pages.fill(__package__, template, pages.style_of(__package__, "report.css"), **values)


def _figures(study: Study) -> list[tuple[str, list[str], str]]:
    outcomes: list[ReplayOutcome] = [study.outcome, *([study.as_daemon.outcome] if study.as_daemon else [])]
    return [
        (name, [sentences.shown_figure(name, getattr(outcome, name)) for outcome in outcomes], meaning)
        for name, meaning in definitions().items()
    ]


def _colours(report: ReportInput) -> list[str]:
    """The colours of the trainers in the picture of nodes; one for all where there are too many to distinguish."""
    few = len(report.study.shown.record.runs) <= len(palette.TRAINERS)
    return list(palette.TRAINERS) if few else [palette.LENT]


def _drawn(report: ReportInput, size: Format) -> dict[str, str]:
    """Every picture that has something to show, by name."""
    record = report.study.shown.record
    if not len(record.holes):
        return {}
    colours = _colours(report)
    drawn = {
        "nodes": pictures.idle_and_lent(nodes_over_time(record.holes, record.timeline, size.bins), size),
        "grid": pictures.nodes_by_trainer(node_grid(record, size.width, len(colours)), colours, size),
        "lengths": pictures.lengths_of_holes(hole_lengths(record.holes), size),
    }
    rhythm = find_rhythm(record.holes, record.timeline, find_zone(report.log.timezone))
    if rhythm is not None:
        drawn["rhythm"] = pictures.nodes_by_time_of_week(rhythm, size)
    samples = samples_over_time(report.study, size.bins)
    if max(samples.allowed.max(), samples.dedicated.max()) > 0:
        drawn["samples"] = pictures.samples_trained(samples, size)
    return drawn


def render_comparison(comparison: RunComparison) -> str:
    """The comparison as HTML; runs that have the first of what is varied in common, mostly a log, are a group."""
    runs, axes = comparison.runs, comparison.axes
    works = [figures.work for run in runs for figures in (run.allowed, run.daemon) if figures and figures.work]
    top = max([1.0, *works])
    first = axes[0] if axes else ""

    def percent(work: float | None) -> float:
        """Length of a bar in percent; a full one is the greatest work of all."""
        return round(100 * min(max((work or 0.0) / top, 0.0), 1.0), 2)

    return fill(
        "comparison.html.j2",
        comparison=comparison,
        groups=[(name, list(group)) for name, group in groupby(runs, key=lambda run: run.labels.get(first, ""))],
        percent=percent,
        nothing=NOTHING,
        with_daemon=any(run.daemon for run in runs),
        with_parts=any(run.parts for run in runs),
        with_energy=any(run.energy_kwh is not None for run in runs),
        version=__version__,
    )
