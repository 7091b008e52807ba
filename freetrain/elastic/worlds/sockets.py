"""The TCP connections of one world, so that they can be cut from another thread.

Gloo has no way to abort a collective that waits for a peer which neither answers nor closes. Cutting the
connections makes it fail at once, as if all peers had closed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Collection


def open_sockets() -> dict[int, str]:
    """Descriptors of all sockets of this process, with their identity."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names of descriptors, not paths)
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if target.startswith("socket:"):
                found[int(name)] = target
    return found


class Wires:
    """The connections that came up while a world formed; the script's own are left alone.

    Args:
        stores: ports of the stores in this process. What others connected there is left alone too: they may be
            meeting for the next world already, while this one has not been left.
    """

    def __init__(self, stores: Callable[[], Collection[int]]) -> None:
        self._stores = stores
        self._before = open_sockets()
        self._formed: dict[int, str] | None = None

    def formed(self) -> None:
        """The world has formed: what comes up from now on is not its own."""
        before = self._before.items()
        self._formed = dict(item for item in open_sockets().items() if item not in before)

    @property
    def complete(self) -> bool:
        """Whether the world has formed."""
        return self._formed is not None

    def cut(self) -> int:
        """Cut the world's connections, so that whoever waits on one gets an error; returns how many there were.

        Listening sockets stay: gloo's listener thread ends the process when its socket fails.
        """
        now = open_sockets()
        mine = now.items() - self._before.items() if self._formed is None else now.items() & self._formed.items()
        stores = self._stores()
        return sum(_cut(descriptor, stores) for descriptor, _ in mine)


def _cut(descriptor: int, spared_ports: Collection[int]) -> bool:
    if not _is_link(descriptor, spared_ports):
        return False
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
        return True
    return False


def _is_link(descriptor: int, stores: Collection[int]) -> bool:
    """Whether it connects with another member, not with a store in this process."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        return _is_connection(connection) and connection.getsockname()[1] not in stores
    return False


def _is_connection(connection: socket.socket) -> bool:
    internet = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
    return internet and not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
