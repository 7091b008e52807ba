"""``freetrain replay``: what would a site's idle nodes have trained?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from freetrain import __version__
from freetrain.cli.options import policy_options, store_option
from freetrain.cli.output import command_line, print_json, require_place
from freetrain.cli.progress_bars import estimating, reading, replaying
from freetrain.cli.replay_as_daemon import Afterwards, Beside, begin, daemons_record, how_as_daemon, is_long
from freetrain.cli.replay_as_options import as_options
from freetrain.cli.replay_document import Result, result_document
from freetrain.cli.replay_options import (
    aim_options,
    costs,
    draw,
    links,
    log_options,
    output_options,
    prices,
    read_options,
    topology,
    trainer_options,
    warn_of_unheeded,
)
from freetrain.cli.replay_shapes import check_own_tasks, replay_shapes
from freetrain.cli.replay_share import share_options, task_asked
from freetrain.cli.replay_summary import print_definitions, print_first, print_summary
from freetrain.core.holes import Holes
from freetrain.core.objectives import find_objective
from freetrain.core.topology import Topology
from freetrain.core.trainer import Trainer
from freetrain.errors import FreetrainError
from freetrain.loop.cycle import Goal, Journal, NullJournal
from freetrain.policies import find_placer, find_policy
from freetrain.replay.course import ReplayRecord
from freetrain.replay.foresight import Foresight, Knows
from freetrain.replay.logs import LoggedJobs, SiteLog, read_site_log
from freetrain.replay.study import Study, study, study_as_daemon, study_estimated
from freetrain.replay.trainers import find_trainers, with_own_tasks

if TYPE_CHECKING:
    from freetrain.cli.replay_recording import Recorder

_ESTIMATE_S = 40.0
"""So long some hours are replayed, that of a month of 200 nodes an estimate is there within a minute."""
DEFAULT_REPORT = Path("freetrain-report.html")


def _definitions(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        print_definitions()
        context.exit()


@click.command("replay")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG…")
@log_options
@trainer_options
@policy_options
@aim_options
@as_options
@share_options
@output_options
@store_option
@click.option(
    "--definitions",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_definitions,
    help="Print what each figure of the outcome means, and end.",
)
def replay_command(logs: tuple[Path, ...], **given: Any) -> None:
    """Replay a scheduler's log and show what its idle nodes would have trained.

    The idle node × time holes are shared among elastic trainers with FreeTrain's mixed-integer programme.

    LOG is the output of 'sacct -P' (see docs/logs.md for the fields), an SWF file, or node events as CSV
    (t,node,idle), gzipped or not; several files are read as one log, - is standard input.
    """
    # Everything that can be wrong is found out before the long work begins.
    policy = find_policy(given["policy"], given["solver"], given["time_limit_s"])
    find_placer(given["place"])
    goal = Goal.of(policy, given["objective"])
    find_objective(goal.objective)
    how_as_daemon(given)
    warn_of_unheeded(given)
    trainers = find_trainers(given["trainers_source"])
    report_path = _report_path(given)
    costs_of_site = prices(given)
    task = task_asked(given)
    check_own_tasks(trainers, given)
    recorder = _recorder(given)
    with reading(given["quiet"]) as stage:
        log = read_site_log(logs, replace(read_options(given), task=task), stage)
    switches = topology(given, log.holes.node_names)
    goal = replace(goal, placer=find_placer(given["place"], switches), links=links(given, switches))
    settings = {"logs": [path.name for path in logs], **_settings(given)}
    with recorder.journal(log.holes, settings) as journal:
        is_estimated = how_as_daemon(given) is not None and not given["exact"] and is_long(log)
        with nullcontext() if is_estimated else _asked_daemon(given, log) as pending:
            done = _replay(log.holes, log.logged, trainers, goal, given, journal, switches)
            if not given["as_json"]:
                print_first(log, done)
            done = _with_daemon(done, pending, log, given)
        if is_estimated:
            done = _estimated(done, log, trainers, goal, given, switches)
        if log.places is not None:  # when waiting jobs would take these only the daemon knows
            places = log.places.holes
            with _asked_daemon(given, log, in_parts=True) as pending:
                if with_own_tasks(trainers):
                    on_shares = replay_shapes(log, trainers, goal, given, switches)
                else:
                    on_shares = _replay(places, None, trainers, goal, given, NullJournal(), switches)
                done = replace(done, on_shares=_with_daemon(on_shares, pending, log, given, in_parts=True))
        run_id = recorder.finish(done, log)
    result = Result(logs, log, settings, done, run_id, report_path, costs_of_site)
    if report_path is not None:
        _write_report(report_path, result, given)
    if given["as_json"]:
        print_json(result_document(result))
    else:
        print_summary(result)


def _replay(
    holes: Holes,
    logged: LoggedJobs | None,
    trainers: Iterable[Trainer],
    goal: Goal,
    given: Mapping[str, Any],
    journal: Journal,
    switches: Topology,
) -> Study:
    with replaying(holes.from_s, holes.until_s, given["quiet"]) as progress:
        return study(
            holes,
            trainers,
            costs(given),
            goal,
            Foresight(given["horizon_s"], Knows(given["foresight"])),
            given["max_running"],
            journal,
            time.perf_counter,
            progress,
            given["poll_s"],
            logged,
            switches,
            draw(given),
        )


def _estimated(
    done: Study,
    log: SiteLog,
    trainers: Iterable[Trainer],
    goal: Goal,
    given: Mapping[str, Any],
    switches: Topology,
) -> Study:
    """With what the daemon would have got, from some hours; from all of them where that is as quick."""
    quietly = {**given, "quiet": True}

    def allow(holes: Holes) -> ReplayRecord:
        return _replay(holes, log.logged, trainers, goal, quietly, NullJournal(), switches).record

    def go_as_daemon(some_hours: SiteLog) -> ReplayRecord:
        return daemons_record(given, some_hours)

    with estimating(given["quiet"]) as progress:
        found = study_estimated(log, done.outcome, allow, go_as_daemon, _ESTIMATE_S, time.perf_counter, progress)
    if found is not None:
        return replace(done, estimate=found)
    with _asked_daemon(given, log) as pending:
        return _with_daemon(done, pending, log, given)


def _asked_daemon(
    given: Mapping[str, Any], log: SiteLog, in_parts: bool = False
) -> Afterwards | Beside | AbstractContextManager[None]:
    return nullcontext() if how_as_daemon(given) is None else begin(given, log, in_parts)


def _with_daemon(
    done: Study,
    pending: Afterwards | Beside | None,
    log: SiteLog,
    given: Mapping[str, Any],
    in_parts: bool = False,
) -> Study:
    """With what the daemon would have got, where that is asked."""
    how = how_as_daemon(given, in_parts)
    if how is None or pending is None:
        return done
    with replaying(log.holes.from_s, log.holes.until_s, given["quiet"]) as progress:
        return replace(done, as_daemon=study_as_daemon(how, pending.wait(progress), done.dedicated))


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the replay depends on, as the store keeps it and the report shows it."""
    chosen = {
        "policy": given["policy"],
        "place": given["place"],
        "solver": given["solver"],
        "objective": given["objective"],
        "horizon_s": given["horizon_s"],
        "foresight": given["foresight"],
        "poll_s": given["poll_s"],
        "trainers": given["trainers_source"],
        "max_running": given["max_running"],
        "as": given["played_as"],
    }
    if given["share"] is not None:
        chosen |= {"share": given["share"], "task": given["task"] or ""}
    for name in ("scale_up", "scale_down", "forced_loss", "start", "boot"):
        if given[name] is not None:
            chosen[f"{name}_s"] = given[name]
    if given["as_published"]:
        chosen["losses"] = "published"
    return chosen


class _NullRecorder:
    """Keeps nothing of a replay."""

    @contextmanager
    def journal(self, holes: Holes, settings: Mapping[str, Any]) -> Iterator[NullJournal]:
        """Nowhere for decisions to go."""
        yield NullJournal()

    def finish(self, done: Study, log: SiteLog) -> None:
        """Forget what came of it."""


def _recorder(given: Mapping[str, Any]) -> _NullRecorder | Recorder:
    if given["no_store"]:
        return _NullRecorder()
    from freetrain.cli.replay_recording import Recorder  # with it comes SQLAlchemy

    return Recorder(given["store_path"])


def _report_path(given: Mapping[str, Any]) -> Path | None:
    """Where a report can go; a missing matplotlib is an error only for who asked for one."""
    if given["no_report"]:
        return None
    path = Path(given["report_path"] or DEFAULT_REPORT)
    from freetrain.replay.report import require_matplotlib  # here and below: with it comes Jinja

    try:
        require_matplotlib()
    except FreetrainError as error:
        if given["report_path"] is not None:
            raise
        click.echo(f"freetrain: no report: {error.what} {error.hint}", err=True)
        return None
    require_place(path, "Name another place with --report, or give --no-report.")
    return path


def _write_report(path: Path, result: Result, given: Mapping[str, Any]) -> None:
    from freetrain.replay.report import ReportInput, Setting, write_report

    files = ", ".join(log.name for log in result.logs)
    write_report(
        path,
        ReportInput(
            title=given["title"] or result.log.machine or files,
            log=result.log,
            study=result.study,
            setting=Setting(
                policy=given["policy"],
                objective=given["objective"],
                horizon_s=given["horizon_s"],
                poll_s=given["poll_s"],
                trainers=given["trainers_source"],
                max_running=given["max_running"],
                published_losses=given["as_published"],
                foresight=given["foresight"],
            ),
            version=__version__,
            command=command_line(),
            prices=result.prices,
        ),
    )
