"""Where metrics can be had: a file for node_exporter, and an HTTP endpoint."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from freetrain.config import ConfigError, Metrics
from freetrain.config.networks import Networks, parse_networks
from freetrain.daemon.whole_file import replace_file

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""How long somebody who connects may be silent."""


class Textfile:
    """Writes the metrics for node_exporter's textfile collector, which must be able to read them.

    Args:
        path: as ``metrics.textfile``; empty: nothing is written.
        registry: what is written.
    """

    def __init__(self, path: str, registry: CollectorRegistry) -> None:
        self._path = Path(path) if path else None
        self._registry = registry
        self._failed = False

    def write(self) -> None:
        """Write them; that it cannot be done is said once."""
        if self._path is None:
            return
        try:
            replace_file(self._path, generate_latest(self._registry), 0o644)
        except OSError as error:
            if not self._failed:
                log.warning("cannot write metrics.textfile %s: %s", self._path, error.strerror)
            self._failed = True
        else:
            self._failed = False


@contextlib.contextmanager
def serving(metrics: Metrics, registry: CollectorRegistry) -> Iterator[None]:
    """Answer GET /metrics meanwhile, those who are allowed to ask.

    Args:
        metrics: the settings; without ``listen`` nobody is answered.
        registry: what is answered.

    Raises:
        ConfigError: the address cannot be used.
    """
    if not metrics.listen:
        yield
        return
    host, _, port = metrics.listen.rpartition(":")
    answers = _only_to(parse_networks(metrics.allow), make_wsgi_app(registry))
    try:
        server = _server(host.strip("[]"), int(port), answers)
    except OSError as error:
        raise ConfigError(
            f"metrics.listen: {metrics.listen} cannot be used: {error.strerror}.",
            "Give a free address and port of this machine.",
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's news."""
        log.debug("%s: %s", self.address_string(), format % args)


def _server(host: str, port: int, answers: WSGIApplication) -> WSGIServer:
    return make_server(host, port, answers, _Server6 if ":" in host else ThreadingWSGIServer, _Handler)


def _only_to(allowed: Networks, answers: WSGIApplication) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("REMOTE_ADDR") in allowed:
            return answers(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"metrics.allow of freetrain's settings does not name your address.\n"]

    return answer
