"""The daemon's database, for commands that look into it."""

from __future__ import annotations

import os
from pathlib import Path

from freetrain.config import Config
from freetrain.errors import ExitCode, StateError
from freetrain.store.store import DAEMONS_STORE, Store


def daemons_store(config: Config) -> Store:
    """The database of the daemon with this configuration; raises StateError if it cannot be read."""
    path = Path(config.state.directory) / DAEMONS_STORE
    try:
        is_missing = not path.exists()
    except OSError:
        # Opening it will say why it cannot be read
        is_missing = False
    if is_missing:
        raise StateError(
            f"No daemon has worked here yet: there is no database {path}.",
            "Is it the daemon's own configuration that is read? 'freetrain config show --origin' says.",
        )
    if not os.access(path, os.R_OK):
        raise StateError(
            f"The daemon's database {path} is for the daemon's account and root.",
            "'freetrain jobs', 'nodes', 'holes', 'status' and 'top' show everybody what it lends.",
            ExitCode.NOT_ALLOWED,
        )
    return Store.open_existing(path)
