"""The lender: one look at the cluster, what is decided on it, and what is done about it."""

from __future__ import annotations

import time
from pathlib import Path

from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.core.lent_trainer import TrainerState
from freetrain.daemon.drains import DrainsReader
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.live_cluster import LiveCluster
from freetrain.daemon.progress import Place, ProgressReader
from freetrain.daemon.setup import launcher_of, manners_of
from freetrain.daemon.sight import Sight
from freetrain.loop.cycle import Aims, run_cycle
from freetrain.policies import find_policy
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.store.journal import RunJournal
from freetrain.store.ledger import Ledger


class Lender:
    """Lends as the configuration says, and writes down what it decided and did.

    Args:
        config: the settings.
        gateway: the way to Slurm.
        settings: Slurm's own.
        ledger: remembers what is lent.
        journal: keeps the decisions.
    """

    def __init__(
        self, config: Config, gateway: Gateway, settings: SlurmSettings, ledger: Ledger, journal: RunJournal
    ) -> None:
        self._config = config
        self._settings = settings
        self._journal = journal
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
        self._drains = DrainsReader(Path(config.state.directory))

    def look(self, time_limit_s: float) -> list[Decision]:
        """Look, decide and act.

        Args:
            time_limit_s: how long the solver may take for each decision.

        Raises:
            SlurmError: Slurm did not answer; what was not done is left for the next look.
        """
        stopped = "the stop file is there" if Path(self._config.state.stop_file).exists() else ""
        drained = self._drains.read(time.time())
        self._watch_progress_of(self._cluster.look(self._progress.reports(), stopped, drained))
        decide = self._config.decide
        aims = Aims(find_policy(decide.policy, time_limit_s=time_limit_s), decide.objective, decide.horizon)
        decisions = []
        for needs in self._cluster.needs:
            self._cluster.turn_to(needs)
            decisions.append(run_cycle(self._cluster, aims, self._journal, time.perf_counter))
        self._drains.note_heeded()
        return decisions

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
        self._config = config

    def summary(self, decisions: list[Decision]) -> str:
        """What is lent after these decisions, in one line."""
        lent = sum(len(nodes) for decision in decisions for nodes in decision.placement.values())
        trainers = sum(len(decision.placement) for decision in decisions)
        offered = len(self._cluster.sight.lendable.offered) if self._cluster.sight else 0
        return f"{lent} of {offered} nodes lent to {trainers} trainers"

    def _watch_progress_of(self, sight: Sight) -> None:
        self._progress.look_at(
            {
                entry.trainer.id: Place(entry.tag.directory, entry.trainer.owner, entry.trainer.progress_bytes)
                for entry in sight.entries
                if entry.tag is not None
                and entry.tag.directory
                and entry.trainer.state is not TrainerState.COMPLETE
            }
        )
