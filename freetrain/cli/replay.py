"""``freetrain replay``: the training that a site's idle nodes would have done.

1. Whatever is wrong with the options is found out before any long work begins (``replay_options.py``).
2. The log is read, and replayed as its holes allow; beside that, as the daemon would have gone (in a process of
   its own where that takes long), or, of a long log, some hours of it both ways, from which an estimate is made.
3. With ``--share`` the trainers are replayed once more, on parts of nodes.
4. The results go into the store, into the report, and to standard output (``replay_output.py``).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from freetrain import __version__
from freetrain.cli.helping import command
from freetrain.cli.listing import command_line, print_json, require_place
from freetrain.cli.options import argument, option
from freetrain.cli.progress_bars import advancing, reading
from freetrain.cli.replay_options import (
    ReplayOptions,
    check_own_tasks,
    daemon_setup,
    daemons_place,
    on_machine,
    power_draw,
    read_options,
    site_prices,
    warn_of_unheeded,
)
from freetrain.cli.replay_output import (
    ReplayResult,
    beside_document,
    print_definitions,
    print_first,
    print_summary,
    result_document,
)
from freetrain.core.holes import Holes
from freetrain.core.objectives import find_objective
from freetrain.errors import FreetrainError
from freetrain.loop.cycle import Goal, Journal, NullJournal
from freetrain.policies import find_placer, find_policy
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.estimate import study_estimated
from freetrain.replay.logs import LoggedJobs, SiteLog, read_site_log
from freetrain.replay.study import Study, replay_as_daemon, study, study_as_daemon, study_shapes
from freetrain.replay.trainers import find_trainers, with_own_tasks

if TYPE_CHECKING:
    from freetrain.store import RunJournal

_ESTIMATE_S = 40.0
"""Seconds for which some hours are replayed: a month of 200 nodes is then estimated within a minute."""
DEFAULT_REPORT = Path("freetrain-report.html")


def _definitions(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        print_definitions()
        context.exit()


@command("replay", first=("--trainers", "--policy", "--objective", "--machine", "--report"))
def replay_command(
    *,
    logs: tuple[Path, ...] = argument(nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG…"),
    options: ReplayOptions,
    definitions: bool = option(
        "--definitions",
        "Print what each figure of the outcome means, and end.",
        is_eager=True,
        callback=_definitions,
    ),
) -> None:
    """Replay a scheduler's log and show what its idle nodes would have trained.

    The idle node × time holes are shared among elastic trainers with FreeTrain's mixed-integer programme.

    LOG is the output of 'sacct -P' (see docs/reference/logs.md for the fields), an SWF file, or node events as CSV
    (t,node,idle), gzipped or not; several files are read as one log, - is standard input.
    """
    policy = find_policy(options.policy, options.solver, options.time_limit_s)
    find_placer(options.place)
    goal = Goal.of(policy, options.objective)
    find_objective(goal.objective)
    setup = daemon_setup(options)
    warn_of_unheeded(options)
    trainers = find_trainers(options.trainers_source)
    report_path = _report_path(options)
    prices = site_prices(options)
    reading_options = read_options(options)
    check_own_tasks(trainers, options)
    recorder = _NullRecorder() if options.no_store else _Recorder(options.store_path)
    with reading(options.quiet) as stage:
        log = read_site_log(logs, reading_options, stage)
    goal = on_machine(goal, options, options.place, log.holes.node_names)
    settings = {"logs": [path.name for path in logs], **_settings(options)}
    asked = _ReplayCommand(
        log, ReplaySetup(trainers, goal, time.perf_counter, options.costs, goal.links.topology), options
    )
    with recorder.journal(log.holes, settings) as journal:
        is_estimated = setup is not None and not options.exact and is_long(log)
        with nullcontext() if is_estimated else begun(options, log) as wait:
            done = asked.allowed(log.holes, log.logged, journal)
            if not options.as_json:
                print_first(log, done)
            done = asked.with_daemon(done, wait)
        if is_estimated:
            done = asked.estimated(done)
        if log.places is not None:
            done = replace(done, on_shares=asked.on_shares(log.places.holes))
        run_id = recorder.finish(done, log)
    result = ReplayResult(logs, log, settings, done, run_id, report_path, prices)
    if report_path is not None:
        _write_report(report_path, result, options)
    if options.as_json:
        print_json(result_document(result))
    else:
        print_summary(result)


@dataclass(frozen=True, slots=True)
class _ReplayCommand:
    """A replay that was asked for."""

    log: SiteLog
    setup: ReplaySetup
    options: ReplayOptions

    def allowed(self, holes: Holes, logged: LoggedJobs | None, journal: Journal) -> Study:
        """Replay what the holes allow."""
        options, setup = self.options, replace(self.setup, journal=journal)
        knows, most, draw = options.knowledge, options.max_running, power_draw(options, options.objective)
        with self._bar(holes) as progress:
            return study(holes, setup, knows, most, progress, options.poll_s, logged, draw)

    def _bar(self, holes: Holes | None = None) -> AbstractContextManager[Callable[[float], None]]:
        holes = holes or self.log.holes
        return advancing("Replaying", holes.duration_s, self.options.quiet, holes.from_s)

    def with_daemon(self, done: Study, wait: RecordWaiter | None, in_parts: bool = False) -> Study:
        """The study with the daemon's outcome, where that was asked for."""
        setup = daemon_setup(self.options, in_parts)
        if setup is None or wait is None:
            return done
        with self._bar() as progress:
            return replace(done, as_daemon=study_as_daemon(setup, wait(progress), done.dedicated))

    def estimated(self, done: Study) -> Study:
        """The study with an estimate of the daemon's outcome, from some hours; from all where that is as quick."""
        quiet = replace(self, options=replace(self.options, quiet=True))
        with advancing("Replaying some hours as the daemon", 1.0, self.options.quiet) as progress:
            found = study_estimated(
                self.log,
                done.outcome,
                lambda holes: quiet.allowed(holes, self.log.logged, NullJournal()).record,
                lambda some_hours: _replay(self.options, some_hours, False, lambda at_s: None),
                _ESTIMATE_S,
                time.perf_counter,
                progress,
            )
        if found is not None:
            return replace(done, estimate=found)
        with begun(self.options, self.log) as wait:
            return self.with_daemon(done, wait)

    def on_shares(self, places: Holes) -> Study:
        """A replay of the trainers on parts of nodes; only the daemon knows when waiting jobs would take these."""
        with begun(self.options, self.log, in_parts=True) as wait:
            has_own_tasks = with_own_tasks(self.setup.trainers)
            done = self._own_tasks() if has_own_tasks else self.allowed(places, None, NullJournal())
            return self.with_daemon(done, wait, in_parts=True)

    def _own_tasks(self) -> Study:
        """Replay what the holes allow where trainers' tasks differ: the daemon's rules deal parts among them."""
        options = self.options
        played_as = options.played_as if options.played_as != "ideal" else "daemon"
        setup = daemon_setup(replace(options, played_as=played_as), in_parts=True)
        assert setup is not None
        rules = replace(setup.rules, objective=self.setup.goal.objective, horizon_s=options.horizon_s)
        with self._bar() as progress:
            return study_shapes(self.log, self.setup, rules, progress)


def _settings(options: ReplayOptions) -> dict[str, Any]:
    same = ("policy", "place", "solver", "objective", "horizon_s", "foresight", "poll_s")
    chosen = {name: getattr(options, name) for name in same}
    chosen |= {"trainers": options.trainers_source, "max_running": options.max_running, "as": options.played_as}
    if options.share is not None:
        chosen |= {"share": options.share, "task": options.task or ""}
    chosen |= options.costs.given
    if options.as_published:
        chosen["losses"] = "published"
    return chosen


class _NullRecorder:
    """Recorder that keeps nothing of a replay."""

    @contextmanager
    def journal(self, holes: Holes, settings: Mapping[str, Any]) -> Iterator[NullJournal]:
        """Yield a journal that keeps no decisions."""
        yield NullJournal()

    def finish(self, done: Study, log: SiteLog) -> None:
        """Drop the results."""


class _Recorder:
    """Recorder of one replay in the store: its settings, each decision, and the results."""

    def __init__(self, path: Path | None) -> None:
        # Imported here and below: SQLAlchemy comes with it, which a replay that is not recorded does without.
        from freetrain.store import Store, default_store_path

        self._store = Store.open(path or default_store_path())
        self._journal: RunJournal

    @contextmanager
    def journal(self, holes: Holes, settings: Mapping[str, Any]) -> Iterator[RunJournal]:
        """Begin a run, and yield the journal of its decisions for as long as the replay takes."""
        from freetrain.store import NewRun

        run = NewRun(
            command_line(), __version__, dict(settings), time.time(), holes.from_s, holes.until_s, holes.node_names
        )
        with self._store.begin_run(run) as self._journal:
            yield self._journal

    def finish(self, done: Study, log: SiteLog) -> int:
        """Record the results; the run's number."""
        from freetrain.store import TrainerRecord

        trainers = [
            TrainerRecord(
                run.trainer.id, run.started_s, run.completed_s, run.samples, run.node_hours, run.evicted_nodes,
                run.rescales,
            )
            for run in done.record.runs
        ]  # fmt: skip
        outcome = {**asdict(done.outcome), **beside_document(log, done)}
        self._journal.finish(outcome, trainers, time.time())
        return self._journal.run_id


def _report_path(options: ReplayOptions) -> Path | None:
    """Path of the report; None: there is none. A missing matplotlib is an error only if a report was asked for."""
    if options.no_report:
        return None
    path = options.report_path or DEFAULT_REPORT
    from freetrain.replay.report import require_matplotlib  # here and below: with it comes Jinja

    try:
        require_matplotlib()
    except FreetrainError as error:
        if options.report_path is not None:
            raise
        click.echo(f"freetrain: no report: {error.what} {error.hint}", err=True)
        return None
    require_place(path, "Name another place with --report, or give --no-report.")
    return path


def _write_report(path: Path, result: ReplayResult, options: ReplayOptions) -> None:
    from freetrain.replay.report import ReplaySetting, ReportInput, render, write_page

    files = ", ".join(log.name for log in result.logs)
    title = options.title or result.log.machine or files
    same = ("policy", "objective", "horizon_s", "poll_s", "trainers", "max_running", "foresight")
    setting = ReplaySetting(
        **{name: result.settings[name] for name in same}, published_losses=options.as_published
    )
    report = ReportInput(title, result.log, result.study, setting, __version__, command_line(), result.prices)
    write_page(path, render(report))


TimeProgress = Callable[[float], None]
RecordWaiter = Callable[[TimeProgress], ReplayRecord]
"""Function that waits for a replay's record; its argument is called with the log's time as the replay goes."""

MANY_HOLES = 20_000
"""Number of holes from which on a process of its own pays: with fewer a replay ends before one has started."""
# They take about a minute.
_MANY_LOOKS = 20_000
_BETWEEN_LOOKS_S = 60.0
"""Least seconds between looks while nothing happens, to estimate the number of looks."""
_BETWEEN_NEWS_S = 0.2


@contextmanager
def begun(options: ReplayOptions, log: SiteLog, in_parts: bool = False) -> Iterator[RecordWaiter | None]:
    """A function that waits for the replay as the daemon; a long one has begun. None: it was not asked for."""
    holes = log.places.holes if in_parts and log.places is not None else log.holes
    if daemon_setup(options) is None:
        yield None
    elif len(holes) < MANY_HOLES:
        yield partial(_replay, options, log, in_parts)
    else:
        with parallel_replay(options, log, in_parts) as wait:
            yield wait


def is_long(log: SiteLog) -> bool:
    """Whether a replay as the daemon may take longer than an estimate."""
    looks = log.holes.duration_s / _BETWEEN_LOOKS_S + len(log.holes)
    return log.logged is not None and looks >= _MANY_LOOKS


@contextmanager
def parallel_replay(options: ReplayOptions, log: SiteLog, in_parts: bool = False) -> Iterator[RecordWaiter]:
    """A replay as the daemon in a process of its own, which ends with this one."""
    context = get_context("spawn")
    news, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, options, log, in_parts), daemon=True)
    process.start()
    # With this end open here, too, recv() would wait for ever when the process dies.
    theirs.close()
    try:
        yield partial(_answer_of, process, news)
    finally:
        process.terminate()
        process.join()


def _answer_of(process: BaseProcess, news: Connection, progress: TimeProgress) -> ReplayRecord:
    """Wait for the answer of the other process.

    Raises:
        FreetrainError: it ended without one, as where memory did not suffice.
    """
    try:
        news.send("somebody listens")
        while isinstance(answer := news.recv(), float):
            progress(answer)
    except (EOFError, OSError):
        process.join()
        raise FreetrainError(
            f"The replay as the daemon broke off (its process ended with {process.exitcode}).",
            "Where memory is short, choose a part of the log with --from and --until; --as ideal needs less.",
        ) from None
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, ReplayRecord)
    return answer


def _work(news: Connection, options: ReplayOptions, log: SiteLog, in_parts: bool = False) -> None:
    """The work of the other process: it sends the log's time now and then, and the record at the end."""
    # Ctrl-C is meant for the command, which ends this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sent_s = time.monotonic()

    def tell(at_s: float) -> None:
        nonlocal sent_s
        if time.monotonic() - sent_s >= _BETWEEN_NEWS_S and news.poll():
            sent_s = time.monotonic()
            news.send(at_s)

    try:
        answer: ReplayRecord | Exception = _replay(options, log, in_parts, tell)
    except Exception as error:
        answer = error
    # The command was killed: nobody listens any more
    with suppress(BrokenPipeError):
        news.send(answer)


def _replay(options: ReplayOptions, log: SiteLog, in_parts: bool, progress: TimeProgress) -> ReplayRecord:
    how = daemon_setup(options, in_parts)
    assert how is not None
    goal = on_machine(how.goal, options, daemons_place(options), log.holes.node_names)
    how, trainers = replace(how, goal=goal), find_trainers(options.trainers_source)
    setup = ReplaySetup(trainers, goal, time.perf_counter, options.costs, goal.links.topology)
    return replay_as_daemon(log, setup, how, progress)
