"""The lender: one look at the cluster, what is decided on it, and what is done about it."""

from __future__ import annotations

import time
from pathlib import Path

from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.core.fragment import FragmentState
from freetrain.core.lent_trainer import TrainerState
from freetrain.daemon.admission.layout_guard import LayoutGuard
from freetrain.daemon.drains import DrainsReader
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.live_cluster import LiveCluster
from freetrain.daemon.rejects import Rejects
from freetrain.daemon.setup import launcher_of, manners_of
from freetrain.daemon.sight import Sight
from freetrain.daemon.status import Look, look_of
from freetrain.daemon.trainers.progress import Place, ProgressReader
from freetrain.loop.cycle import Aims, run_cycle
from freetrain.policies import find_policy
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.journal import RunJournal
from freetrain.store.ledger import Ledger

_LEAST_TIME_LIMIT_S = 0.05
"""What the solver may take for one decision, however many there are."""


class Lender:
    """Lends as the configuration says, and writes down what it decided and did.

    Args:
        config: the settings.
        gateway: the way to Slurm.
        settings: Slurm's own.
        ledger: remembers what is lent.
        journal: keeps the decisions.
        guard: knows whether Slurm's layout is safe to lend in.
    """

    def __init__(
        self,
        config: Config,
        gateway: Gateway,
        settings: SlurmSettings,
        ledger: Ledger,
        journal: RunJournal,
        guard: LayoutGuard,
    ) -> None:
        self._config = config
        self._settings = settings
        self._journal = journal
        self._guard = guard
        self._executor = Executor(gateway, ledger, Mode(config.lend.mode))
        self._cluster = LiveCluster(
            gateway,
            launcher_of(config, gateway),
            self._executor,
            ledger,
            manners_of(config, settings),
            journal.next_decision,
        )
        self._progress = ProgressReader()
        self._rejects = Rejects()
        self._drains = DrainsReader(Path(config.state.directory))

    def look(self, time_limit_s: float) -> list[Decision]:
        """Look, decide and act.

        Args:
            time_limit_s: how long the solver may take for all decisions together.

        Raises:
            SlurmError: Slurm did not answer; what was not done is left for the next look.
        """
        stop_file = self._config.state.stop_file
        unsafe = self._check_layout()
        stopped = f"stopped by {stop_file}" if Path(stop_file).exists() else unsafe
        drained = self._drains.read(time.time())
        sight = self._cluster.look(self._progress.reports(), stopped, drained)
        self._rejects.tell(sight.snapshot.rejected)
        self._watch_progress_of(sight)
        if self._cluster.waits.is_new:
            self._guard.ask_now()
        decide = self._config.decide
        each_s = max(time_limit_s / self._cluster.decision_count, _LEAST_TIME_LIMIT_S)
        aims = Aims(find_policy(decide.policy, time_limit_s=each_s), decide.objective, decide.horizon)
        decisions = run_cycle(self._cluster, aims, self._journal, time.perf_counter)
        self._drains.note_heeded()
        return decisions

    def _check_layout(self) -> str:
        """Why nothing may be lent in Slurm's layout."""
        entries = self._cluster.sight.entries if self._cluster.sight else ()
        owners = frozenset((one.trainer.owner, one.submission.tasks[0].account) for one in entries)
        unsafe = self._guard.why_not(self._config, owners)
        if self._guard.has_changed():
            self._cluster.waits.forget()
        return unsafe

    @property
    def sight(self) -> Sight | None:
        """What the last look showed; None: there was none."""
        return self._cluster.sight

    @property
    def owners(self) -> frozenset[str]:
        """Whose trainers the last look showed."""
        sight = self._cluster.sight
        return frozenset(entry.trainer.owner for entry in sight.entries) if sight else frozenset()

    def read_progress(self) -> bool:
        """Read what the trainers say of themselves; whether a training has been completed since."""
        return self._progress.read()

    def change(self, config: Config) -> None:
        """Lend as these settings say from now on.

        Raises:
            ConfigError: they cannot be followed; nothing has changed then.
        """
        self._cluster.manners = manners_of(config, self._settings)
        self._executor.mode = Mode(config.lend.mode)
        self._cluster.waits.forget()
        self._config = config

    def last_look(self, took_s: float) -> Look:
        """What the last look came to.

        Args:
            took_s: how long it took.
        """
        assert self._cluster.sight is not None
        return look_of(self._cluster.sight, self._cluster.fragments, self._cluster.ends, took_s)

    def summary(self) -> str:
        """What is lent after the last look, in one line."""
        running = [one for one in self._cluster.fragments if one.state is FragmentState.RUNNING]
        asked = sum(one.state is FragmentState.ASKED for one in self._cluster.fragments)
        offered = len(self._cluster.sight.lendable.offered) if self._cluster.sight else 0
        trainers = len({one.trainer for one in running})
        return f"{len(running)} of {offered} nodes lent to {trainers} trainers, {asked} asked for"

    def _watch_progress_of(self, sight: Sight) -> None:
        most_nodes = len(sight.snapshot.partitions[self._config.slurm.partition].nodes)
        self._progress.look_at(
            {
                entry.trainer.id: Place(
                    entry.tag.directory, entry.trainer.owner, entry.trainer.progress_bytes, most_nodes
                )
                for entry in sight.entries
                if entry.tag is not None
                and entry.tag.directory
                and entry.trainer.state is not TrainerState.COMPLETE
            }
        )
