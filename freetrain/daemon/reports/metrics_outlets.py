"""Where metrics can be had: a file for node_exporter, and an HTTP endpoint."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from freetrain.config import ConfigError, MetricsSettings
from freetrain.config.values import parse_networks
from freetrain.daemon.whole_file import replace_file
from freetrain.showing.ready_text import HttpAnswer, HttpRequest, ReadyTextServer, sentence

log = logging.getLogger(__name__)


class MetricsOutlets:
    """The metrics as text, made once for each look, and published by the settings.

    Args:
        metrics: the settings.
        text: to begin with.

    Attributes:
        text: what is published.
    """

    def __init__(self, metrics: MetricsSettings, text: bytes) -> None:
        self._settings = metrics
        self._allowed = parse_networks(metrics.allow)
        self._failed = False
        self._server: ReadyTextServer | None = None
        self.text = text

    @property
    def dropped(self) -> int:
        """Connections to the endpoint that got no whole answer so far."""
        return self._server.dropped if self._server is not None else 0

    def publish(self, text: bytes) -> None:
        """Answer with this text from now on, and write it where node_exporter reads it; it must be able to.

        That it cannot be written is logged once.
        """
        self.text = text
        if not self._settings.textfile:
            return
        try:
            replace_file(Path(self._settings.textfile), text, 0o644)
        except OSError as error:
            if not self._failed:
                log.warning("cannot write metrics.textfile %s: %s", self._settings.textfile, error.strerror)
            self._failed = True
        else:
            self._failed = False

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Answer GET /metrics meanwhile, to those who are allowed to ask; without ``listen``, to nobody.

        Raises:
            ConfigError: the address cannot be used.
        """
        if not self._settings.listen:
            yield
            return
        host, _, port = self._settings.listen.rpartition(":")
        try:
            self._server = ReadyTextServer(host.strip("[]"), int(port), self._answer)
        except OSError as error:
            raise ConfigError(
                f"metrics.listen: {self._settings.listen} cannot be used: {error.strerror}.",
                "Give a free address and port of this machine.",
            ) from error
        with self._server.running():
            yield

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        if request.peer not in self._allowed:
            return sentence(
                HTTPStatus.FORBIDDEN, "metrics.allow of freetrain's settings does not name your address."
            )
        return HttpAnswer(self.text, {"Content-Type": CONTENT_TYPE_LATEST})
