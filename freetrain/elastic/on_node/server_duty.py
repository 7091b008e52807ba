"""Whether this node has to run a server: looked at now and then, since nodes come and go."""

from __future__ import annotations

import time

from freetrain.elastic.membership.hosting import Hosting, hosting
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.next_generation import View
from freetrain.elastic.on_node.told_servers import ToldServers

_LOOK_EVERY_S = 0.25


class ServerDuty:
    """What all agents of a trainer agree on by what they see.

    Args:
        directory: the trainer's.
        agent: this one.
        servers: how many there should be on all nodes together; None: as many as freetrain says, on the nodes that
            it names.
    """

    def __init__(self, directory: TrainerDirectory, agent: str, servers: int | None) -> None:
        self._directory = directory
        self._agent = agent
        self._servers = servers
        self._told = ToldServers(directory, agent) if servers is None else None
        self._due_s = 0.0

    def look(self, *, is_alone: bool) -> Hosting | None:
        """What becomes of the server of this node; None: it is not time to look.

        Args:
            is_alone: whether there is nothing but a server on this node any more: it ends at once.
        """
        now_s = time.monotonic()
        if not is_alone and (self._servers == 0 or now_s < self._due_s):
            return None
        self._due_s = now_s + _LOOK_EVERY_S
        return Hosting.END if is_alone else self._hosting(self._directory.view())

    def close(self) -> None:
        """Ask nobody any more."""
        if self._told is not None:
            self._told.close()

    def _hosting(self, view: View) -> Hosting:
        if self._told is None:
            return hosting(view, self._agent, self._servers or 0, time.time())
        nodes = self._told.look(view)
        return hosting(view, self._agent, len(nodes), time.time(), nodes)
