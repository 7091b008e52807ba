"""Publishing what a look came to: to systemd, in the status file, as metrics, and to people."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.daemon.admission.wake_check import WakeCheck
from freetrain.daemon.lender import Lender
from freetrain.daemon.reports.metrics import Metrics
from freetrain.daemon.reports.metrics_outlets import Textfile, serving
from freetrain.daemon.reports.notices import Notices
from freetrain.daemon.reports.notify import notify
from freetrain.daemon.reports.status_file import StatusFile
from freetrain.slurm.gateway import Gateway


class Publisher:
    """Tells each look in all the places where somebody may want to know of it.

    Args:
        config: the settings.
        directory: the daemon's.
        gateway: counts the calls to Slurm.
        status: the status file.
        notices: who is told by the site's commands.
    """

    def __init__(
        self, config: Config, directory: Path, gateway: Gateway, status: StatusFile, notices: Notices
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._status = status
        self._refused = ""
        self._metrics = Metrics()
        self._textfile = Textfile(config.metrics.textfile, self._metrics.registry)
        self._notices = notices
        self._wake_check = WakeCheck(directory, gateway)

    def answering(self) -> AbstractContextManager[None]:
        """Answer who asks for metrics, where the settings say so."""
        return serving(self._config.metrics, self._metrics.registry)

    def change(self, config: Config) -> None:
        """Go on with other settings."""
        self._config = self._notices.config = config

    def refused(self, why: str) -> None:
        """New settings were refused; empty: there are none that were."""
        self._refused = why
        self._status.refused(why)

    def looked(self, lender: Lender, decisions: Sequence[Decision], took_s: float, woken_s: float | None) -> None:
        """Slurm has answered.

        Args:
            lender: that has looked.
            decisions: what it decided.
            took_s: how long that took.
            woken_s: when somebody woke the daemon last, UTC epoch seconds; None: nobody did.
        """
        notify(READY="1", WATCHDOG="1", STATUS=self._summary(lender))
        look = lender.last_look(took_s)
        cannot_wake = self._wake_check.problem()
        self._status.looked(self._config, replace(look, woken_s=woken_s, cannot_wake=cannot_wake))
        judgement = lender.judgement
        assert judgement is not None
        self._notices.looked(look, judgement.memory)
        acts = self._config.lend.mode == "act"
        self._metrics.looked(judgement, look, decisions, lender.ends, acts)
        self._write_metrics()

    def silent(self, lender: Lender, why: str, lasts_s: float) -> None:
        """Slurm does not answer.

        Args:
            lender: that has asked.
            why: in a sentence.
            lasts_s: for how long by now.
        """
        notify(WATCHDOG="1", STATUS=why)
        self._status.silent(why)
        self._notices.silent(lasts_s, why)
        self._metrics.noticed(lender.judgement)
        self._metrics.silent()
        self._write_metrics()

    def _summary(self, lender: Lender) -> str:
        first_line = self._refused.partition("\n")[0]
        return lender.summary() + (f"; the last reload was refused: {first_line}" if first_line else "")

    def _write_metrics(self) -> None:
        self._metrics.called(self._gateway.calls)
        self._textfile.write()
