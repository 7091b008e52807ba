"""Where metrics can be had: a file for node_exporter, and an HTTP endpoint."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from freetrain.config import ConfigError
from freetrain.daemon.whole_file import replace_file

log = logging.getLogger(__name__)


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
def serving(listen: str, registry: CollectorRegistry) -> Iterator[None]:
    """Answer GET /metrics meanwhile.

    Args:
        listen: address and port, as ``metrics.listen``; empty: nobody is answered.
        registry: what is answered.

    Raises:
        ConfigError: the address cannot be used.
    """
    if not listen:
        yield
        return
    host, _, port = listen.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        raise ConfigError(
            f"metrics.listen: {listen} cannot be used: {error.strerror}.",
            "Give a free address and port of this machine.",
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
