"""The daemon's database, for commands that look into it."""

from __future__ import annotations

from pathlib import Path

from freetrain.config import Config
from freetrain.store.ledger import Ledger
from freetrain.store.store import DAEMONS_STORE, Store


def daemons_ledger(config: Config) -> Ledger:
    """The ledger of the daemon with this configuration.

    Raises:
        StateError: there is none, or it cannot be read.
    """
    return Store.open_existing(Path(config.state.directory) / DAEMONS_STORE).ledger()
