"""The daemon's database, for commands that look into it."""

from __future__ import annotations

import os
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


def readable_ledger(config: Config) -> Ledger | None:
    """The same; None where whoever asks may not look into it, which SQLite needs to write for."""
    directory = Path(config.state.directory)
    may = os.access(directory / DAEMONS_STORE, os.R_OK) and os.access(directory, os.W_OK)
    return daemons_ledger(config) if may else None
