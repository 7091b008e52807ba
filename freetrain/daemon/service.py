"""The service: when the loop looks at the cluster, and how it begins and ends."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from apscheduler.schedulers.background import BackgroundScheduler

from freetrain import __version__
from freetrain.config import Config
from freetrain.core.decision import Decision, Status
from freetrain.core.lent_trainer import TrainerState
from freetrain.daemon.checks import check_partition, check_rights, read_settings
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.live_cluster import LiveCluster
from freetrain.daemon.notify import monotonic_usec, notify
from freetrain.daemon.nudge import NudgeListener
from freetrain.daemon.pace import next_look_s
from freetrain.daemon.progress import Place, ProgressReader
from freetrain.daemon.setup import launcher_of, manners_of, poll_s_of
from freetrain.daemon.state_directory import claim
from freetrain.errors import FreetrainError
from freetrain.loop.cycle import Aims, run_cycle
from freetrain.policies import find_policy
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.journal import RunJournal
from freetrain.store.ledger import DAEMON_COMMAND, Ledger
from freetrain.store.records import NewRun
from freetrain.store.store import DAEMONS_STORE, Store

log = logging.getLogger(__name__)

_QUICK_S, _THOROUGH_S = 0.5, 10.0
"""How long the solver may take at first, and where that gave no proven optimum, the next time."""
_BETWEEN_CYCLES_S, _ECHO_S = 0.5, 0.2
_PROGRESS_EVERY_S = 5.0
_AGAIN_S = 600.0

Reload = Callable[[], Config]


class Service:
    """The daemon. ``run`` returns when it was told to stop; what it lent stays lent.

    Args:
        config: the settings.
        gateway: the way to Slurm.
        reload: reads the settings anew, for SIGHUP.
    """

    def __init__(self, config: Config, gateway: Gateway, reload: Reload) -> None:
        self._config = config
        self._gateway = gateway
        self._reload = reload
        self._wake = threading.Event()
        self._look_s = 0.0
        self._nudged = self._echo_due = False
        self._stopping = False
        self._reloading = False
        self._progress = ProgressReader()
        self._unreachable_since_s: float | None = None
        self._complained_s = 0.0

    def run(self, cycles: int | None = None) -> None:
        """Lend until a signal; or look ``cycles`` times.

        Raises:
            FreetrainError: it cannot begin; the sentence says why.
        """
        directory = Path(self._config.state.directory)
        with claim(directory):
            settings = read_settings(self._gateway)
            first = self._gateway.snapshot()
            check_partition(self._config, first.partitions, settings)
            check_rights(self._config, self._gateway, settings)
            self._settings, self._poll_s = settings, poll_s_of(self._config, settings)
            store = Store.open(directory / DAEMONS_STORE)
            names = tuple(sorted(first.partitions[self._config.slurm.partition].nodes))
            with store.begin_run(self._new_run(settings, names), batch_decisions=1) as journal:
                self._begin(store.ledger(), journal)
                with self._signals(), self._listening(directory), self._scheduled(store.ledger()):
                    self._loop(cycles)
                journal.finish({}, [], time.time())
            notify(STOPPING="1", STATUS="stopped; fragments go on")
            log.info("stopped; what is lent stays lent")

    def _new_run(self, settings: SlurmSettings, names: tuple[str, ...]) -> NewRun:
        now_s = time.time()
        facts = {"cluster": settings.cluster, "slurm": settings.version, **self._config.model_dump(mode="json")}
        return NewRun(DAEMON_COMMAND, __version__, facts, now_s, now_s, now_s, names)

    def _begin(self, ledger: Ledger, journal: RunJournal) -> None:
        config = self._config
        self._journal = journal
        self._executor = Executor(self._gateway, ledger, Mode(config.lend.mode))
        self._cluster = LiveCluster(
            self._gateway,
            launcher_of(config, self._gateway),
            self._executor,
            ledger,
            manners_of(config, self._settings),
            journal.next_decision,
        )
        log.info(
            "freetrain %s: mode %s, launcher %s, partition %s, every %.0f s",
            __version__, config.lend.mode, config.lend.launcher, config.slurm.partition, self._poll_s,
        )  # fmt: skip

    def _loop(self, cycles: int | None) -> None:
        time_limit_s = _QUICK_S
        while not self._stopping:
            began_s = time.monotonic()
            decisions = self._cycle(time_limit_s)
            self._look_s = time.monotonic() - began_s
            if decisions:  # else Slurm does not answer, and would not answer this either
                self._plan_next_look()
            if cycles is not None:
                cycles -= 1
                if cycles <= 0:
                    return
            unproven = any(one.status in (Status.FEASIBLE, Status.FALLBACK) for one in decisions)
            thorough = time_limit_s == _THOROUGH_S
            time_limit_s = _THOROUGH_S if unproven and not thorough else _QUICK_S
            if not (unproven and not thorough):
                self._wait()

    def _plan_next_look(self) -> None:
        try:
            last_plan_s = self._gateway.last_plan_s()
        except SlurmError:
            last_plan_s = None
        at_s = next_look_s(
            time.time(), self._poll_s, last_plan_s, self._settings.backfill_interval_s, self._look_s
        )
        self._scheduler.modify_job("poll", next_run_time=datetime.fromtimestamp(at_s, UTC))

    def _nudge(self) -> None:
        self._nudged = True
        self._wake.set()

    def _wait(self) -> None:
        """Until the next poll or nudge; never less than a moment, lest a storm of nudges become one of polls."""
        time.sleep(max(_BETWEEN_CYCLES_S, 2 * self._look_s))
        # An epilog nudges while Slurm is still clearing up after the job: another look follows the first.
        self._wake.wait(_ECHO_S if self._echo_due else None)
        self._wake.clear()
        self._echo_due, self._nudged = self._nudged, False
        if self._reloading:
            self._take_new_settings()

    def _cycle(self, time_limit_s: float) -> list[Decision]:
        try:
            stopped = "the stop file is there" if Path(self._config.state.stop_file).exists() else ""
            sight = self._cluster.look(self._progress.reports(), stopped)
            self._progress.look_at(
                {
                    entry.trainer.id: Place(entry.tag.directory, entry.trainer.owner, entry.trainer.progress_bytes)
                    for entry in sight.entries
                    if entry.tag is not None
                    and entry.tag.directory
                    and entry.trainer.state is not TrainerState.COMPLETE
                }
            )
            decide = self._config.decide
            policy = find_policy(decide.policy, time_limit_s=time_limit_s)
            aims = Aims(policy, decide.objective, decide.horizon)
            decisions = []
            for constraint in self._cluster.constraints:
                self._cluster.turn_to(constraint)
                decisions.append(run_cycle(self._cluster, aims, self._journal, time.perf_counter))
        except SlurmError as error:
            self._complain(error)
            notify(WATCHDOG="1", STATUS=error.what)
            return []
        self._reached()
        lent = sum(len(nodes) for decision in decisions for nodes in decision.placement.values())
        trainers = sum(len(decision.placement) for decision in decisions)
        status = f"{lent} of {len(sight.lendable.offered)} nodes lent to {trainers} trainers"
        notify(READY="1", WATCHDOG="1", STATUS=status)
        return decisions

    def _complain(self, error: FreetrainError) -> None:
        """Say that Slurm does not answer: once, and then every ten minutes."""
        now_s = time.monotonic()
        if self._unreachable_since_s is None:
            self._unreachable_since_s = self._complained_s = now_s
            log.warning("%s Nothing is concluded from that, and nothing done.", error.what)
        elif now_s - self._complained_s >= _AGAIN_S:
            self._complained_s = now_s
            log.warning("Slurm has not answered for %.0f s", now_s - self._unreachable_since_s)

    def _reached(self) -> None:
        if self._unreachable_since_s is not None:
            log.info("Slurm answers again after %.0f s", time.monotonic() - self._unreachable_since_s)
            self._unreachable_since_s = None

    def _take_new_settings(self) -> None:
        """All of the new settings, or none."""
        self._reloading = False
        notify(RELOADING="1", MONOTONIC_USEC=monotonic_usec())
        try:
            config = self._reload()
            manners = manners_of(config, self._settings)
        except FreetrainError as error:
            log.error("the settings stay as they are: %s", error.what)
        else:
            fixed = ("slurm", "state", "pace.poll", "lend.launcher")
            config = config.model_copy(update={"slurm": self._config.slurm, "state": self._config.state})
            self._config = config
            self._cluster.manners = manners
            self._executor.mode = Mode(config.lend.mode)
            log.info("new settings; changes of %s need a restart", ", ".join(fixed))
        notify(READY="1")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, _frame: object) -> None:
            log.info("%s: stopping", signal.Signals(number).name)
            self._stopping = True
            self._wake.set()

        def reload(_number: int, _frame: object) -> None:
            self._reloading = True
            self._wake.set()

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _listening(self, directory: Path) -> Iterator[None]:
        listener = NudgeListener(directory, self._nudge)
        try:
            yield
        finally:
            listener.close()

    @contextlib.contextmanager
    def _scheduled(self, ledger: Ledger) -> Iterator[None]:
        """Polls, progress and housekeeping, each in its time; missed ones are made up for once."""
        scheduler = BackgroundScheduler(
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}, timezone="UTC"
        )
        scheduler.add_job(self._wake.set, "interval", seconds=self._poll_s, id="poll")
        scheduler.add_job(self._read_progress, "interval", seconds=_PROGRESS_EVERY_S, id="progress")
        scheduler.add_job(lambda: ledger.forget(time.time() - self._config.state.keep), "interval", hours=1)
        scheduler.start()
        self._scheduler = scheduler
        try:
            yield
        finally:
            scheduler.shutdown(wait=False)

    def _read_progress(self) -> None:
        if self._progress.read():
            self._wake.set()
