"""The store: a file of runs and their decisions, opened, listed and read."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import func, select
from sqlalchemy.orm import Session, undefer

from freetrain.core.decision import Decision, Status
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError
from freetrain.store.engine import RECORD_HINT, Database, make_engine, make_folder, nothing_recorded
from freetrain.store.journal import (
    BATCH_DECISIONS,
    DecisionSummary,
    NewRun,
    RunDetails,
    RunJournal,
    RunStatus,
    RunSummary,
    TrainerRecord,
)
from freetrain.store.ledger import Ledger
from freetrain.store.notice_book import NoticeBook
from freetrain.store.packing import TRAINER, PackedDecision, unpack, unpack_serving
from freetrain.store.schema import bring_up_to_date, require_up_to_date
from freetrain.store.tables import Base, DecisionRow, RunRow, RunTrainerRow

Kept = TypeVar("Kept", TrainerRecord, RunSummary, DecisionSummary)
DAEMONS_STORE = "freetrain.db"
"""Name of the daemon's store, in its state directory."""


def default_store_path() -> Path:
    """Path of the store unless the user names another: $FREETRAIN_STORE, else in the user's state folder."""
    if named := os.environ.get("FREETRAIN_STORE"):
        return Path(named).expanduser()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "freetrain" / "freetrain.db"


class Store:
    """The runs in one file. ``Store.open`` and ``Store.open_existing`` make it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.path = database.path

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open a store for recording; create it, or bring its schema up to date, where needed."""
        make_folder(path.parent)
        engine = make_engine(path)
        bring_up_to_date(engine, path)
        return cls(Database(engine, path))

    @classmethod
    def open_existing(cls, path: Path) -> Store:
        """Open a store that is there; its schema stays as it is, for an older daemon that may be at work."""
        if not path.exists():
            raise nothing_recorded(path)
        engine = make_engine(path)
        require_up_to_date(engine, path)
        return cls(Database(engine, path))

    @classmethod
    def open_read_only(cls, path: Path) -> Store:
        """Open a store that is never written to."""
        engine = make_engine(path, read_only=True)
        require_up_to_date(engine, path)
        return cls(Database(engine, path))

    def begin_run(self, run: NewRun, batch_decisions: int = BATCH_DECISIONS) -> RunJournal:
        """Record a new run, several decisions in a transaction."""
        return RunJournal(self._database, run, batch_decisions)

    def ledger(self) -> Ledger:
        """The daemon's tables."""
        return Ledger(self._database)

    def notice_book(self) -> NoticeBook:
        """News for people."""
        return NoticeBook(self._database)

    def runs(self) -> list[RunSummary]:
        """Runs, the newest first."""
        with self._database.reading() as session:
            return [_summary(row) for row in session.scalars(select(RunRow).order_by(RunRow.id.desc()))]

    def run(self, run_id: int) -> RunDetails:
        """A run with its settings and results.

        Raises:
            InputError: there is no such run; the sentence names those there are.
        """
        with self._database.reading() as session:
            row = _find_run(session, run_id)
            trainers = session.scalars(
                select(RunTrainerRow)
                .where(RunTrainerRow.run_id == run_id, RunTrainerRow.samples.is_not(None))
                .order_by(RunTrainerRow.samples.desc(), RunTrainerRow.number)
            )
            seen = select(func.count()).select_from(RunTrainerRow).where(RunTrainerRow.run_id == run_id)
            return RunDetails(
                summary=_summary(row),
                statuses=_tally(session, run_id, "status"),
                solvers=_tally(session, run_id, "solver"),
                trainer_count=session.scalar(seen) or 0,
                trainers=tuple(_read(TrainerRecord, row) for row in trainers),
            )

    def decisions(self, run_id: int, most: int | None = None, newest_first: bool = False) -> list[DecisionSummary]:
        """The run's decisions in this order, without their problems; at most the first ``most``."""
        order = DecisionRow.number.desc() if newest_first else DecisionRow.number
        query = select(DecisionRow).where(DecisionRow.run_id == run_id).order_by(order).limit(most)
        with self._database.reading() as session:
            _find_run(session, run_id)
            return [
                _read(DecisionSummary, row, status=Status(row.status), notes=tuple(row.notes))
                for row in session.scalars(query)
            ]

    def newest_run(self, command: str) -> int | None:
        """The last one that was begun with this command; None: there is none."""
        with self._database.reading() as session:
            return session.scalar(select(func.max(RunRow.id)).where(RunRow.command == command))

    def decision(self, run_id: int, number: int) -> tuple[Problem, Decision]:
        """A decision and its problem, nodes in the order of the run's ``node_names``.

        Raises:
            InputError: there is no such run or decision; the sentence names those there are.
        """
        with self._database.reading() as session:
            run = _find_run(session, run_id)
            whole = [undefer(DecisionRow.problem), undefer(DecisionRow.placement)]
            row = session.get(DecisionRow, (run_id, number), options=whole)
            if row is None:
                raise InputError(
                    f"Run {run_id} has no decision {number}; "
                    + (f"it has 1 to {run.decision_count}." if run.decision_count else "none has been recorded.")
                )
            packed = PackedDecision(row.problem, row.placement)
            problem, placement = unpack(
                packed,
                row.now_s,
                json.loads(zlib.decompress(run.node_names)),
                lambda numbers: _trainers(session, run_id, numbers),
            )
            return problem, Decision(
                Status(row.status),
                row.objective,
                placement,
                row.solver,
                row.gap,
                row.solve_s,
                tuple(row.notes),
                unpack_serving(packed),
            )


def _find_run(session: Session, run_id: int) -> RunRow:
    row = session.get(RunRow, run_id)
    if row is not None:
        return row
    ids = list(session.scalars(select(RunRow.id).order_by(RunRow.id)))
    if not ids:
        raise InputError(f"There is no run {run_id}: no run has been recorded yet.", RECORD_HINT)
    raise InputError(f"There is no run {run_id}; there is {_ranges(ids)}.", "freetrain runs lists them.")


def _ranges(ids: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for id_ in ids:
        if parts and parts[-1][-1] == id_ - 1:
            parts[-1][1:] = [id_]
        else:
            parts.append([id_])
    return ", ".join("–".join(map(str, part)) for part in parts)


def _trainers(session: Session, run_id: int, numbers: Sequence[int]) -> list[Trainer]:
    if not numbers:
        return []
    # A range instead of the numbers themselves: SQLite limits how many values a statement may have.
    query = select(RunTrainerRow.number, RunTrainerRow.definition).where(
        RunTrainerRow.run_id == run_id, RunTrainerRow.number.between(min(numbers), max(numbers))
    )
    definitions = {row.number: row.definition for row in session.execute(query)}
    return [TRAINER.validate_json(definitions[number]) for number in numbers]


def _tally(session: Session, run_id: int, column: str) -> dict[str, int]:
    key = getattr(DecisionRow, column)
    query = select(key, func.count()).where(DecisionRow.run_id == run_id).group_by(key)
    return {row[0]: row[1] for row in session.execute(query.order_by(func.count().desc(), key))}


def _read(kind: type[Kept], row: Base, **others: Any) -> Kept:
    """Record with the fields of a row, but for these others."""
    return kind(**{**{field.name: getattr(row, field.name) for field in fields(kind)}, **others})


def _summary(row: RunRow) -> RunSummary:
    return _read(RunSummary, row, status=RunStatus(row.status), outcome=row.outcome or {})
