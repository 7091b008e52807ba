"""Ports on this machine."""

from __future__ import annotations

import socket


def is_free(port: int) -> bool:
    """Whether nobody listens on a port."""
    with socket.socket() as listener:
        # As Slurm's daemons do: connections of an earlier lab that linger are no obstacle.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback address."""
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex(("127.0.0.1", port)) == 0
