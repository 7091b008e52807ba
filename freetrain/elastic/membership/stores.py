"""The stores at which generations meet: of this process, or of a service host where the site runs one."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.on_disk.next_generation import Proposal
from freetrain.elastic.service import answering_service
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.meeting import SERVICE_HOST


class Stores:
    """Those that this process has opened, whose generations may still meet there.

    Args:
        address: by which the others reach this process.
        word_of: what the members of a generation prove to know, from the generation's nonce.
    """

    def __init__(self, address: str, word_of: Callable[[str], str]) -> None:
        self._address = address
        self._word_of = word_of
        self._stores: dict[int, StoreServer] = {}

    def open(self, proposal: Proposal) -> Generation:
        """The generation that was proposed, with a store."""
        host, address, port = this_host(), self._address, 0
        nonce = secrets.token_hex(16)
        service = answering_service()
        if service is not None:
            host, (address, port) = SERVICE_HOST, service
        elif proposal.members:
            store = StoreServer(words=[self._word_of(nonce)])
            self._stores[proposal.number] = store
            port = store.port
        return Generation(
            proposal.number, proposal.members, host, address, port, nonce, proposal.cause, proposal.servers
        )

    def ports(self) -> list[int]:
        """Of those that are open."""
        return [store.port for store in list(self._stores.values())]

    def drop(self, before: int) -> None:
        """Close those of earlier generations than this one."""
        for number in list(self._stores):  # a copy, since the watcher's thread opens stores meanwhile
            if number < before:
                self._stores.pop(number).close()
