"""The store: every run, every problem and its answer, in one SQLite file (docs/store.md)."""

from freetrain.store.journal import RunJournal
from freetrain.store.records import (
    DecisionSummary,
    NewRun,
    RunDetails,
    RunStatus,
    RunSummary,
    TrainerRecord,
)
from freetrain.store.store import Store, default_store_path

__all__ = [
    "DecisionSummary",
    "NewRun",
    "RunDetails",
    "RunJournal",
    "RunStatus",
    "RunSummary",
    "Store",
    "TrainerRecord",
    "default_store_path",
]
