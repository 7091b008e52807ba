"""A store on a service host, for sites whose nodes may not open ports to each other for it.

    python -m freetrain.elastic.service 29400          on the service host
    export FREETRAIN_SERVICE=thathost:29400            for the members

Any number of trainers can share one; it holds no secrets, only the addresses by which members find each other.
Where it does not answer, members open stores themselves as they do without it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys

from freetrain.errors import InputError

log = logging.getLogger(__name__)

SERVICE_VARIABLE = "FREETRAIN_SERVICE"
_PATIENCE_S = 2.0


def service_address() -> tuple[str, int] | None:
    """Where the service is; None if there is none, or none that answers.

    Raises:
        InputError: the variable does not say HOST:PORT.
    """
    text = os.environ.get(SERVICE_VARIABLE, "")
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"{SERVICE_VARIABLE}={text} is no address.", "Write HOST:PORT.")
    try:
        with socket.create_connection((host, int(port)), _PATIENCE_S):
            return host, int(port)
    except OSError as error:
        log.warning("the store at %s does not answer (%s); opening one here", text, error)
        return None


def main(arguments: list[str]) -> int:
    """Serve until a signal."""
    from freetrain.elastic.world import open_store

    if len(arguments) != 1 or not arguments[0].isdigit():
        print("usage: python -m freetrain.elastic.service PORT", file=sys.stderr)
        return 2
    try:
        store = open_store(int(arguments[0]))
    except RuntimeError as error:
        print(f"cannot listen on port {arguments[0]}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    print(f"serving on port {store.port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
