"""The service: how the daemon begins, goes on, heeds signals and ends."""

from __future__ import annotations

import contextlib
import errno
import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from freetrain import __version__
from freetrain.config import Config, Loaded
from freetrain.config.settings import Setting, changed, keeping_what_needs_restart, value_of
from freetrain.core.decision import GOOD_ENOUGH, Decision, Status
from freetrain.daemon.admission.admission import Admission, read_settings
from freetrain.daemon.controls.nudge import Senders
from freetrain.daemon.executor import AuditedOrders
from freetrain.daemon.lender import Lender
from freetrain.daemon.log_output import Problems, set_levels
from freetrain.daemon.publisher import Publisher, notify, starting
from freetrain.daemon.reports.lent_days import sum_up_days
from freetrain.daemon.reports.look_log import Outage
from freetrain.daemon.reports.notices import Notices
from freetrain.daemon.reports.status import StatusFile
from freetrain.daemon.state_directory import claim, make_private
from freetrain.daemon.timetable import Timetable
from freetrain.errors import FreetrainError, StateError
from freetrain.lending.lent_time import LONGEST_LOSS_S
from freetrain.lending.pace import retry_after_s
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.journal import NewRun
from freetrain.store.ledger import DAEMON_COMMAND, Ledger
from freetrain.store.notice_book import NoticeBook
from freetrain.store.schema import NO_SCHEMA, SCHEMA, schema_of
from freetrain.store.store import DAEMONS_STORE, Store

log = logging.getLogger(__name__)

# Most decisions take milliseconds: a look is short, and only where that was too little it is made again at length.
_QUICK_S, _THOROUGH_S = 0.5, 10.0
# A solver that took so much of its time would have taken more.
_NEARLY_ALL = 0.9
# As WatchdogSec in systemd/freetrain.service; what a start asks first, and its first look, may take as long.
LOOK_S = 300.0
# A large database is copied and brought to a new schema in this time: systemd waits so long for the start.
_MIGRATION_S = 1800.0
_BREATH_S = 0.1
_PROGRESS_EVERY_S, _OWNERS_EVERY_S, _FORGET_EVERY_S = 5.0, 5.0, 3600.0
# What a machine may lack for a while (processes, memory, open files, room on disks): the next look may succeed.
_SHORTAGES = frozenset(
    (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOBUFS, errno.EIO)
)


@dataclass(frozen=True, slots=True)
class _DaemonParts:
    lender: Lender
    timetable: Timetable
    admission: Admission
    publisher: Publisher


@dataclass(frozen=True, slots=True)
class _Refused:
    """New settings that could not be taken, how often they were tried, and when (monotonic clock) to try again."""

    content: object
    tries: int
    again_s: float


class Service:
    """The daemon. ``run`` returns when it was ordered to stop; what it lent stays lent."""

    def __init__(
        self, loaded: Loaded, gateway: Gateway, reload: Callable[[], Loaded],
        clock_s: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._clock_s = clock_s
        self._loaded = loaded
        self._config = loaded.config
        self._gateway = gateway
        self._reload = reload
        self._outage = Outage()
        self._stop_signal: signal.Signals | None = None
        self._reloading = False
        self._refused: _Refused | None = None
        self._problems = Problems()

    def run(self, cycles: int | None = None) -> None:
        """Lend until a signal; or look ``cycles`` times.

        Raises:
            FreetrainError: it cannot begin; the sentence says why.
        """
        directory = Path(self._config.state.directory)
        # The lock comes first: two daemons must not migrate one database.
        with claim(directory):
            starting("asking Slurm for its settings", LOOK_S)
            settings = read_settings(self._gateway)
            store = _open_store(directory / DAEMONS_STORE)
            ledger, book = store.ledger(), store.notice_book()
            orders = AuditedOrders(self._gateway, ledger, self._clock_s)
            admission = Admission(self._gateway, orders, self._config, settings)
            with contextlib.closing(admission.sole_lender):
                first = admission.admit(self._config)
                status = StatusFile(directory, self._config.pace.poll, settings.hides_jobs, self._clock_s)
                queue = self._config.slurm.queue
                # Partitions and layout are two answers: a partition may be made between them.
                is_there = not queue.missing(first.partitions)
                names = tuple(sorted(queue.among(first.partitions).nodes)) if is_there else ()
                with store.begin_run(self._new_run(settings, names), batch_decisions=1) as journal:
                    lender = Lender(
                        self._config, self._gateway, settings, ledger, journal, admission.guard, self._clock_s
                    )
                    timetable = self._timetable(directory, settings, lender, ledger, book)
                    notices = Notices(self._config, book, ledger, self._gateway, wall_s=self._clock_s)
                    publisher = Publisher(self._config, directory, self._gateway, status, notices)
                    with publisher.outlets.answering(), self._signals(timetable), timetable.running():
                        # Only now, since from here on signals are heeded: tests and people wait for this line.
                        self._say_hello()
                        status.looked(self._config, None)
                        starting("looking at Slurm for the first time", LOOK_S)
                        self._loop(_DaemonParts(lender, timetable, admission, publisher), cycles)
                        notices.close()
                    journal.finish({}, [], self._clock_s())
                status.stopped()
            notify(STOPPING="1", STATUS="stopped; fragments go on")
            log.info("stopped; what is lent stays lent")

    def _timetable(
        self, directory: Path, settings: SlurmSettings, lender: Lender, ledger: Ledger, book: NoticeBook
    ) -> Timetable:
        senders = Senders(settings.slurm_user)
        poll_s, backfill_s = self._config.pace.poll, settings.backfill_interval_s
        timetable = Timetable(directory, poll_s, backfill_s, senders, self._clock_s)
        timetable.every(_PROGRESS_EVERY_S, lambda: timetable.wake() if lender.read_progress() else None)
        timetable.every(_OWNERS_EVERY_S, lambda: senders.admit(lender.owners))
        timetable.every(_FORGET_EVERY_S, lambda: self._forget(ledger, book, lender))
        return timetable

    def _new_run(self, settings: SlurmSettings, names: tuple[str, ...]) -> NewRun:
        now_s = self._clock_s()
        facts = {"cluster": settings.cluster, "slurm": settings.version, **self._config.model_dump(mode="json")}
        return NewRun(DAEMON_COMMAND, __version__, facts, now_s, now_s, now_s, names)

    def _say_hello(self) -> None:
        lend = self._config.lend
        log.info(
            "freetrain %s: mode %s, launcher %s, partition %s, every %.0f s",
            __version__, lend.mode, lend.launcher, self._config.slurm.partition, self._config.pace.poll,
        )  # fmt: skip

    def _loop(self, parts: _DaemonParts, cycles: int | None) -> None:
        time_limit_s = _QUICK_S
        looks = 0
        while self._stop_signal is None:
            began_s = time.monotonic()
            decisions = self._look(parts, time_limit_s)
            look_s = time.monotonic() - began_s
            if self._outage.failures:
                parts.timetable.plan_retry(self._outage.failures)
            else:
                parts.timetable.plan_poll(parts.lender.ask_last_plan(), look_s)
            looks += 1
            if looks == cycles:
                return
            if time_limit_s == _QUICK_S and any(wants_more_time(decision, time_limit_s) for decision in decisions):
                time_limit_s = _THOROUGH_S
                continue
            time_limit_s = _QUICK_S
            parts.timetable.wait(look_s)
            if self._reloading:
                self._take_new_settings(parts)
            elif self._refused is not None and time.monotonic() >= self._refused.again_s:
                self._try_again(parts, self._refused)
        log.info("%s: stopping", self._stop_signal.name)

    def _look(self, parts: _DaemonParts, time_limit_s: float) -> list[Decision]:
        began_s = time.monotonic()
        try:
            parts.admission.sole_lender.renew()
            decisions = parts.lender.look(time_limit_s)
        except (SlurmError, StateError, OSError, MemoryError) as error:
            why = _why_given_up(error)
            if not why:
                raise
            self._outage.goes_on(why)
            parts.publisher.silent(parts.lender.judgement, why, self._outage.lasts_s)
            return []
        self._outage.ends()
        took_s = time.monotonic() - began_s
        parts.publisher.looked(parts.lender, decisions, took_s, parts.timetable.woken_s)
        return decisions

    def _forget(self, ledger: Ledger, book: NoticeBook, lender: Lender) -> None:
        now_s = self._clock_s()
        before_s = now_s - self._config.state.keep
        try:
            sum_up_days(ledger, now_s)
            ledger.forget(before_s)
            book.forget(before_s)
            # Which trainers Slurm shows is not known before the first look.
            if lender.judgement is None:
                return
            summed_s = (ledger.days.summed_until_s() or 0.0) - LONGEST_LOSS_S
            while ledger.forget_fragments(min(before_s, summed_s), [training.id for training in lender.trainings]):
                # Looks write in between.
                time.sleep(_BREATH_S)
            while ledger.give_space_back():
                time.sleep(_BREATH_S)
        # In a thread of its own, where an error ends nothing: the next look finds out by itself what is wrong.
        except FreetrainError as error:
            log.error("%s", error.what)

    def _take_new_settings(self, parts: _DaemonParts) -> None:
        """Take all of the new settings, or none; refused ones are tried again until the files change."""
        self._reloading, self._refused, self._problems = False, None, Problems()
        # systemd (Type=notify-reload) wants both together.
        notify(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000))
        self._take(parts, self._read_files(), 0)
        notify(READY="1")

    def _try_again(self, parts: _DaemonParts, refused: _Refused) -> None:
        """Try refused settings again: Slurm may answer now, or have been mended."""
        read, self._refused = self._read_files(), None
        if _content(read) == refused.content:
            self._take(parts, read, refused.tries)
        else:
            log.info("the settings that were refused have changed since: reload to have them read")
            parts.publisher.refused("")

    def _read_files(self) -> Loaded | FreetrainError:
        """The files as they are now; an error where they cannot be the whole of the settings."""
        try:
            read = self._reload()
            read.require_whole_after(self._loaded)
            return read
        except FreetrainError as error:
            return error

    def _take(self, parts: _DaemonParts, read: Loaded | FreetrainError, tries: int) -> None:
        """Take what was read, or keep it for another try."""
        try:
            if isinstance(read, FreetrainError):
                raise read
            config = keeping_what_needs_restart(read.config, self._config)
            parts.admission.admit(config)
            parts.lender.change(config)
        except FreetrainError as error:
            again_s = time.monotonic() + retry_after_s(self._config.pace.poll, tries + 1)
            self._refused = _Refused(_content(read), tries + 1, again_s)
            parts.publisher.refused(error.what)
            if self._problems.is_new("settings", error.what):
                log.error("the settings stay as they are: %s", " ".join(filter(None, (error.what, error.hint))))
        else:
            log.info("settings read: %s", _changes_text(changed(read.config, self._config), config))
            if self._config.lend.mode == "act" and config.lend.mode != "act":
                log.warning(
                    "mode %s: what is lent stays lent, and nobody looks after it; 'freetrain panic' gives it back",
                    config.lend.mode,
                )
            set_levels(config.log, self._config.log)
            self._loaded, self._config = read, config
            parts.publisher.refused("")
            parts.publisher.change(config)

    @contextlib.contextmanager
    def _signals(self, timetable: Timetable) -> Iterator[None]:
        def stop(number: int, _frame: object) -> None:
            # Handlers only set flags: what they interrupt may hold any lock.
            self._stop_signal = signal.Signals(number)
            timetable.ask()

        def reload(_number: int, _frame: object) -> None:
            self._reloading = True
            timetable.ask()

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _content(read: Loaded | FreetrainError) -> object:
    """Texts of the files, or the error in them: by this, changed files are distinguished from unchanged ones."""
    return read.what if isinstance(read, FreetrainError) else read.texts


def _open_store(path: Path) -> Store:
    make_private(path)
    schema = schema_of(path)
    if schema != NO_SCHEMA and schema < SCHEMA:
        log.info(
            "bringing the database from schema %s to %s, with a copy of the old one beside it", schema, SCHEMA
        )
        starting(f"bringing the database from schema {schema} to {SCHEMA}", _MIGRATION_S)
    return Store.open(path)


def _why_given_up(error: Exception) -> str:
    """Reason why a look is given up and tried again, as a sentence; empty: another try cannot help."""
    if isinstance(error, SlurmError) or (isinstance(error, StateError) and error.passes):
        return error.what
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        return f"This machine lacks what a look needs: {getattr(error, 'strerror', None) or 'no memory is left'}."
    return ""


def _changes_text(settings: Sequence[Setting], config: Config) -> str:
    changes = [
        f"{setting.path} needs a restart"
        if setting.needs_restart
        else f"{setting.path} = {setting.show(value_of(config, setting))}"
        for setting in settings
    ]
    return ", ".join(changes) or "nothing has changed"


def wants_more_time(decision: Decision, time_limit_s: float) -> bool:
    """Whether the solver's time ended before it had found what is good enough."""
    is_near = decision.gap is not None and decision.gap <= GOOD_ENOUGH
    is_final = is_near or decision.status not in (Status.FEASIBLE, Status.FALLBACK)
    return not is_final and decision.solve_s >= _NEARLY_ALL * time_limit_s
