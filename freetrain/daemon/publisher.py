"""Publishing the results of a look: to systemd, in the status file, as metrics, and to people.

Metrics can be had as a file for node_exporter, and from an HTTP endpoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from freetrain.config import Config, ConfigError, MetricsSettings
from freetrain.config.values import parse_networks
from freetrain.core.decision import Decision
from freetrain.daemon.admission.access import WakeCheck
from freetrain.daemon.lender import Lender
from freetrain.daemon.log_output import Problems
from freetrain.daemon.reports.metrics import Metrics
from freetrain.daemon.reports.notices import Notices
from freetrain.daemon.reports.status import StatusFile
from freetrain.daemon.state_directory import replace_file
from freetrain.errors import FreetrainError, explained
from freetrain.lending.judge import Judgement
from freetrain.policies.solver.guests import Agreement
from freetrain.showing.ready_text import HttpAnswer, HttpRequest, ReadyTextServer, sentence
from freetrain.slurm.gateway import Gateway

log = logging.getLogger(__name__)


class Publisher:
    """Tells each look in all the places where somebody may want to know of it.

    A report that fails hinders neither the others nor the look: it is logged when it begins to fail.

    Attributes:
        outlets: file and endpoint of the metrics.
    """

    def __init__(
        self, config: Config, directory: Path, gateway: Gateway, status: StatusFile, notices: Notices
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._status = status
        self._refused = ""
        self._metrics = Metrics()
        self.outlets = MetricsOutlets(config.metrics, generate_latest(self._metrics.registry))
        self._notices = notices
        self._wake_check = WakeCheck(directory, gateway)
        self._problems = Problems()

    def change(self, config: Config) -> None:
        """Go on with other settings."""
        self._config = self._notices.config = config

    def refused(self, why: str) -> None:
        """Publish that new settings were refused; empty: none were."""
        self._refused = why
        self._status.refused(why)

    def looked(self, lender: Lender, decisions: Sequence[Decision], took_s: float, woken_s: float | None) -> None:
        """Publish a look; ``woken_s`` is when the daemon was last woken, UTC epoch seconds; None: never yet."""
        first_line = self._refused.partition("\n")[0]
        refusal = f"; the last reload was refused: {first_line}" if first_line else ""
        notify(READY="1", WATCHDOG="1", STATUS=lender.summary() + refusal)
        look = lender.last_look(took_s)
        judgement = lender.judgement
        assert judgement is not None
        with self._guarded("status.json"):
            cannot_wake = self._wake_check.problem()
            self._status.looked(self._config, replace(look, woken_s=woken_s, cannot_wake=cannot_wake))
        with self._guarded("notices"):
            self._notices.looked(look, judgement.memory)
        with self._guarded("metrics"):
            acts = self._config.lend.mode == "act"
            self._metrics.looked(judgement, look, decisions, lender.end_counts, acts)
            self._publish_metrics(lender.second_opinions.counts)

    def silent(self, judgement: Judgement | None, why: str, lasts_s: float) -> None:
        """Publish that there was no whole look: Slurm does not answer, or this machine lacks what a look needs."""
        notify(WATCHDOG="1", STATUS=why)
        with self._guarded("status.json"):
            self._status.silent(why)
        with self._guarded("notices"):
            self._notices.silent(lasts_s, why)
        with self._guarded("metrics"):
            self._metrics.noticed(judgement)
            self._metrics.silent()
            self._publish_metrics({})

    def _publish_metrics(self, solved_again: Mapping[Agreement, int]) -> None:
        self._metrics.counted(self._gateway.calls, self.outlets.dropped, solved_again)
        self.outlets.publish(generate_latest(self._metrics.registry))

    @contextmanager
    def _guarded(self, report: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # A report that fails must hinder neither the others nor the look.
            if self._problems.is_new(report):
                what = error.what if isinstance(error, FreetrainError) else f"{type(error).__name__}: {error}"
                is_known = isinstance(error, (FreetrainError, OSError, MemoryError))
                log.error("this look is not in %s: %s", report, what, exc_info=not is_known)
        else:
            self._problems.is_new(report, problem="")


class MetricsOutlets:
    """The metrics as text, made once for each look, and published by the settings."""

    def __init__(self, metrics: MetricsSettings, text: bytes) -> None:
        self._settings = metrics
        self._allowed = parse_networks(metrics.allow)
        self._problems = Problems()
        self._server: ReadyTextServer | None = None
        self.text = text

    @property
    def dropped(self) -> int:
        """Connections to the endpoint that got no whole answer so far."""
        return self._server.dropped if self._server is not None else 0

    def publish(self, text: bytes) -> None:
        """Answer with this text from now on, and write it where node_exporter reads it, readable for everybody.

        That it cannot be written is logged once.
        """
        self.text = text
        if not self._settings.textfile:
            return
        try:
            replace_file(Path(self._settings.textfile), text, 0o644)
        except OSError as error:
            if self._problems.is_new("textfile"):
                log.warning("cannot write metrics.textfile %s: %s", self._settings.textfile, error.strerror)
        else:
            self._problems.is_new("textfile", problem="")

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Answer GET /metrics meanwhile, to those who are allowed to ask; without ``listen``, to nobody."""
        if not self._settings.listen:
            yield
            return
        host, _, port = self._settings.listen.rpartition(":")
        hint = "Give a free address and port of this machine."
        with explained(f"metrics.listen: {self._settings.listen} cannot be used", hint, ConfigError):
            self._server = ReadyTextServer(host.strip("[]"), int(port), self._answer)
        with self._server.running():
            yield

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        if request.peer not in self._allowed:
            return sentence(
                HTTPStatus.FORBIDDEN, "metrics.allow of freetrain's settings does not name your address."
            )
        return HttpAnswer(self.text, {"Content-Type": CONTENT_TYPE_LATEST})


def notify(**state: str) -> None:
    """Send states such as ``READY="1"`` or ``STATUS="…"``; without systemd nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    message = "\n".join(f"{name}={value}" for name, value in state.items())
    # The leading @ stands for the NUL byte of an abstract address.
    where = f"\0{address[1:]}" if address.startswith("@") else address
    # A supervisor that does not listen must not stop the daemon.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(message.encode(), where)


def starting(doing: str, at_most_s: float) -> None:
    """Tell systemd what is done before the daemon is ready, so that it waits for up to ``at_most_s`` seconds."""
    notify(EXTEND_TIMEOUT_USEC=str(round(at_most_s * 1e6)), STATUS=doing)
