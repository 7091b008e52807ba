"""Small runs, problems and decisions to record."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

from freetrain.core.decision import Decision, Placement, Status
from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.core.value import counts_of, total_value
from freetrain.store import NewRun, TrainerRecord

NAMES = tuple(f"n{number:02d}" for number in range(12))

RESNET = Trainer("resnet", ((1, 100.0), (8, 640.0)), target_samples=1e6)
BERT = Trainer("bert", ((2, 30.5), (4, 55.25)), min_nodes=2, submitted_s=90.0)

PROBLEM = Problem(
    100.0,
    (
        Place("n01", None, "resnet"),
        Place("n02", 160.5, "resnet"),
        Place("n05", 160.5),
        Place("n06"),
        Place("n11", 400.0, "bert"),
    ),
    (RESNET, BERT),
)
PLACEMENT = {"resnet": ("n01", "n02", "n05")}

RECORDS = (
    TrainerRecord("bert", None, None, 0.0, 0.0, 0, 0),
    TrainerRecord("resnet", 100.0, 900.0, 1e6, 12.5, 3, 4),
    TrainerRecord("never in a problem", None, None, 0.0, 0.0, 0, 0),
)
OUTCOME = {"lent_node_hours": 12.5, "u_dedicated": 0.875, "harm": {"jobs": 0, "seconds": 0.0}}


def decide(problem: Problem = PROBLEM, placement: Placement = PLACEMENT, solver: str = "by hand") -> Decision:
    """A decision that claims what its placement is worth."""
    worth = total_value(problem, counts_of(problem, placement))
    return Decision(Status.HEURISTIC, worth, placement, solver, None, 0.25, ("said the test",))


def new_run(command: str = "replay log.txt", node_names: tuple[str, ...] = NAMES) -> NewRun:
    """A run of a day in 2024 on the machine with ``NAMES``."""
    settings = {"policy": "freetrain", "solver": {"threads": 2}}
    return NewRun(command, "0.1.0", settings, 1.7e9, 1704067200.0, 1704153600.0, node_names)


def begin_store_of_first_release(path: Path) -> None:
    """A store as release 0.2.0 began it, without a row."""
    released = Path(__file__).with_name("released") / "0.2.0.db.gz"
    path.write_bytes(gzip.decompress(released.read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            if table != "alembic_version":
                connection.execute(f"DELETE FROM {table}")
