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
# Members form a world meanwhile, so a service that hangs must not hold them up for long.
_PATIENCE_S = 2.0


def named_service() -> tuple[str, int] | None:
    """The service that the environment names, or None; raises InputError if it does not say HOST:PORT."""
    text = os.environ.get(SERVICE_VARIABLE, "")
    host, _, port = text.rpartition(":")
    if text and (not host or not port.isdigit()):
        raise InputError(f"{SERVICE_VARIABLE}={text} is no address.", "Write HOST:PORT.")
    return (host, int(port)) if text else None


def answering_service() -> tuple[str, int] | None:
    """The service, if it is there; None: members open stores themselves."""
    service = named_service()
    if service is not None:
        try:
            socket.create_connection(service, _PATIENCE_S).close()
        except OSError as error:
            log.warning("the store at %s:%d does not answer (%s); opening one here", *service, error)
            return None
    return service


def main(arguments: list[str]) -> int:
    """Serve until a signal."""
    from freetrain.elastic.worlds.guarded_store import StoreServer

    if len(arguments) != 1 or not arguments[0].isdigit():
        print("usage: python -m freetrain.elastic.service PORT", file=sys.stderr)
        return 2
    try:
        store = StoreServer(int(arguments[0]))
    except OSError as error:
        print(f"cannot listen on port {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"serving on port {store.port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
