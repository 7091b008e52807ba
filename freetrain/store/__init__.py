"""The store: every run, every problem and its answer, in one SQLite file (docs/reference/store.md).

One process writes, any number read. Each method of its classes is one transaction; what SQLite and the file system
report comes out as a ``StateError`` with a hint. A store of an older version is migrated when it is opened for
writing, with a copy beside it; a newer one is refused.

Files in reading order:

- ``engine.py``: connections, their settings, and errors in sentences.
- ``tables.py``: the tables as classes, and the fragments and trainers of their rows.
- ``schema.py``: versions and migrations (``migrations/``), checks and copies of a store.
- ``journal.py``: runs and their decisions; ``packing.py``: a problem and its placement as compact JSON.
- ``ledger.py``: the daemon's fragments, trainers, audit, harm and lent days.
- ``notice_book.py``: news for people, until the site's command has been run for it.
- ``store.py``: opens a store, and lists its runs and decisions.
"""

from freetrain.store.journal import (
    DecisionSummary,
    NewRun,
    RunDetails,
    RunJournal,
    RunStatus,
    RunSummary,
    TrainerRecord,
)
from freetrain.store.store import Store, default_store_path

__all__ = [
    "DecisionSummary", "NewRun", "RunDetails", "RunJournal", "RunStatus", "RunSummary", "Store",
    "TrainerRecord", "default_store_path",
]  # fmt: skip
