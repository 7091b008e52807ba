"""The journal: records of runs, and the writer of a run into the store while it happens."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects.sqlite import insert as insert_or_skip

from freetrain.core.decision import Decision, Status
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.errors import StateError
from freetrain.store.engine import Database, as_state_errors, for_writing
from freetrain.store.packing import TRAINER, Packer
from freetrain.store.tables import DecisionRow, RunRow, RunTrainerRow

BATCH_DECISIONS = 256
"""Decisions per transaction: the most that a process loses that is killed outright."""
NOTED_EVERY_S = 3600.0
"""Seconds by which the note that a trainer was part of a decision may be late."""
# Trainers of earlier decisions beyond this are read again where they come back: memory must not grow with the log.
_MOST_GONE = 1000
# Ctrl-C may strike between a commit and the clearing of the buffers; the rows then come a second time.
_INSERT_TRAINER = insert_or_skip(RunTrainerRow).on_conflict_do_nothing(index_elements=["run_id", "number"])
_INSERT_DECISION = insert_or_skip(DecisionRow).on_conflict_do_nothing(index_elements=["run_id", "number"])
_UPDATE_TRAINER = update(RunTrainerRow).where(
    RunTrainerRow.run_id == bindparam("of_run"), RunTrainerRow.id == bindparam("of_id")
)
_NOTE_TRAINER = _UPDATE_TRAINER.values(last_s=bindparam("noted_s"))


class RunStatus(StrEnum):
    """State of a run."""

    RUNNING = "running"
    """Begun and not ended; also what is left of a run whose process was killed outright."""
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    """Ended by an error or Ctrl-C; what it had decided until then is kept."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is about to begin.

    Attributes:
        command: the command line, as the user would repeat it.
        settings: whatever the run depends on; anything JSON can hold.
        started_s: wall time at which it begins, UTC epoch seconds.
        from_s: begin of the time that is replayed.
        until_s: end of it.
        node_names: all nodes that may occur in a decision, in the machine's order.
        node_count: number of nodes, where none is named since no decision is kept.
    """

    command: str
    version: str
    settings: dict[str, Any]
    started_s: float
    from_s: float
    until_s: float
    node_names: tuple[str, ...]
    node_count: int | None = None


@dataclass(frozen=True, slots=True)
class TrainerRecord:
    """Results of one trainer in a run; None: it never started, or never reached its target."""

    id: str
    started_s: float | None
    completed_s: float | None
    samples: float
    node_hours: float
    evictions: int
    rescales: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run, as a list of runs shows it; ``outcome`` is empty unless the run is complete."""

    id: int
    command: str
    version: str
    status: RunStatus
    started_s: float
    ended_s: float | None
    from_s: float
    until_s: float
    node_count: int
    decision_count: int
    settings: Mapping[str, Any]
    outcome: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run with all but its decisions; its trainers' results, most samples first, come when it is complete."""

    summary: RunSummary
    statuses: Mapping[str, int]
    solvers: Mapping[str, int]
    trainer_count: int
    trainers: tuple[TrainerRecord, ...]


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision without its problem and placement."""

    number: int
    now_s: float
    status: Status
    solver: str
    objective: float
    gap: float | None
    solve_s: float
    idle_nodes: int
    lent_nodes: int
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Enrolled:
    """A trainer of the run: its number, its definition when it was enrolled, and the time in its row."""

    number: int
    trainer: Trainer
    noted_s: float


class RunJournal:
    """Writer of one run. Use it as a context manager; ``Store.begin_run`` makes it.

    A run that ends without ``finish`` (an error, Ctrl-C) keeps what was recorded and is marked interrupted.
    """

    def __init__(self, database: Database, run: NewRun, batch_decisions: int = BATCH_DECISIONS) -> None:
        self._path = database.path
        self._batch_decisions = batch_decisions
        self._packer = Packer(run.node_names)
        self._seen: dict[str, _Enrolled] = {}
        self._trainers = 0
        self._new_trainers: dict[str, dict[str, Any]] = {}
        self._noted: dict[str, dict[str, Any]] = {}
        self._new_decisions: list[dict[str, Any]] = []
        self._decisions = 0
        self._finished = False
        with as_state_errors(self._path), ExitStack() as on_error:
            # One connection for the whole run: SQLite tidies up the file each time the last one closes.
            self._connection: Connection = on_error.enter_context(for_writing(database.engine).connect())
            self.run_id = self._insert_run(run)
            on_error.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._finished:
                self._interrupt(error)
        finally:
            self._connection.close()

    def next_decision(self) -> str:
        """The number by which the next recorded decision can be asked for."""
        return f"{self.run_id}:{self._decisions + 1}"

    def record(self, problem: Problem, decision: Decision) -> None:
        """Record the next decision, which has passed ``verify``; the first one has number 1."""
        numbers, redefined = self._number_trainers(problem.trainers, float(problem.now_s))
        packed = self._packer.pack(problem, decision.placement, numbers, redefined, decision.serving)
        self._decisions += 1
        self._new_decisions.append(
            {
                "run_id": self.run_id,
                "number": self._decisions,
                "now_s": float(problem.now_s),
                "status": str(decision.status),
                "solver": decision.solver,
                "objective": float(decision.objective),
                "gap": None if decision.gap is None else float(decision.gap),
                "solve_s": float(decision.solve_s),
                "idle_nodes": len(problem.nodes),
                "lent_nodes": sum(map(len, decision.placement.values())),
                "notes": list(decision.notes),
                "problem": packed.problem,
                "placement": packed.placement,
            }
        )
        if len(self._new_decisions) >= self._batch_decisions:
            self._flush()
            # Everything is in the store by now: about as many trainers stay in memory as there are.
            if len(self._seen) > _MOST_GONE + 2 * len(problem.trainers):
                present = {trainer.id for trainer in problem.trainers}
                self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in present}

    def finish(self, outcome: dict[str, Any], trainers: Sequence[TrainerRecord], ended_s: float) -> None:
        """Mark the run complete, with numbers by name, nested as needed, and the results of its trainers."""
        self._flush()
        with as_state_errors(self._path), self._connection.begin():
            if trainers:
                self._connection.execute(_UPDATE_TRAINER, [self._results(record) for record in trainers])
            self._update_run(status=str(RunStatus.COMPLETE), outcome=outcome, ended_s=ended_s)
        self._finished = True

    def _insert_run(self, run: NewRun) -> int:
        names = json.dumps(run.node_names, separators=(",", ":")).encode()
        values = {
            **asdict(run),
            "status": str(RunStatus.RUNNING),
            "node_names": zlib.compress(names),
            "node_count": len(run.node_names) if run.node_count is None else run.node_count,
            "decision_count": 0,
        }
        with self._connection.begin():
            return int(self._connection.execute(insert(RunRow).values(values)).lastrowid)

    def _number_trainers(
        self, trainers: Sequence[Trainer], now_s: float
    ) -> tuple[Sequence[int], Sequence[Trainer]]:
        """The trainers' numbers in this run, and those of them that have changed since they were enrolled."""
        numbers = []
        redefined = []
        for trainer in trainers:
            enrolled = self._find(trainer.id, now_s) or self._enrol(trainer, now_s)
            numbers.append(enrolled.number)
            # Identity first: comparing the curves of all trainers would take longer than packing.
            if enrolled.trainer is not trainer and enrolled.trainer != trainer:
                redefined.append(trainer)
        return numbers, redefined

    def _enrol(self, trainer: Trainer, now_s: float) -> _Enrolled:
        self._trainers = number = self._trainers + 1
        definition = TRAINER.dump_json(trainer, by_alias=True).decode()
        facts = {"run_id": self.run_id, "number": number, "id": trainer.id, "definition": definition}
        self._new_trainers[trainer.id] = {**facts, "last_s": now_s}
        self._seen[trainer.id] = enrolled = _Enrolled(number, trainer, now_s)
        return enrolled

    def _find(self, id_: str, now_s: float) -> _Enrolled | None:
        """The trainer, if it has a number; its row notes from time to time that it has been part of a decision."""
        enrolled = self._seen.get(id_)
        if enrolled is None and len(self._seen) == self._trainers:
            return None
        if enrolled is not None and now_s - enrolled.noted_s < NOTED_EVERY_S:
            return enrolled
        if enrolled is not None and id_ in self._new_trainers:
            self._new_trainers[id_]["last_s"] = enrolled.noted_s = now_s
            return enrolled
        # Of one that was gone for long the row may have been forgotten.
        query = select(RunTrainerRow.number, RunTrainerRow.definition)
        with as_state_errors(self._path), self._connection.begin():
            row = self._connection.execute(
                query.where(RunTrainerRow.run_id == self.run_id, RunTrainerRow.id == id_)
            ).first()
        if row is None:
            return None
        trainer = TRAINER.validate_json(row.definition) if enrolled is None else enrolled.trainer
        self._seen[id_] = _Enrolled(row.number, trainer, now_s)
        self._noted[id_] = {"of_run": self.run_id, "of_id": id_, "noted_s": now_s}
        return self._seen[id_]

    def _results(self, record: TrainerRecord) -> dict[str, Any]:
        values = asdict(record)
        return {"of_run": self.run_id, "of_id": values.pop("id"), **values}

    def _flush(self) -> None:
        if not self._new_decisions:
            return
        with as_state_errors(self._path), self._connection.begin():
            if self._new_trainers:
                self._connection.execute(_INSERT_TRAINER, list(self._new_trainers.values()))
            if self._noted:
                self._connection.execute(_NOTE_TRAINER, list(self._noted.values()))
            self._connection.execute(_INSERT_DECISION, self._new_decisions)
            self._update_run(decision_count=self._decisions)
        self._new_trainers.clear()
        self._noted.clear()
        self._new_decisions.clear()

    def _update_run(self, **values: object) -> None:
        self._connection.execute(update(RunRow).where(RunRow.id == self.run_id).values(**values))

    def _interrupt(self, error: BaseException | None) -> None:
        """Save as much as can be saved; an error of that must not hide the error that ended the run."""
        try:
            self._flush()
        except StateError as second:
            if error is None:
                raise
            if second.what != str(error):
                error.add_note(f"Besides, the last {len(self._new_decisions)} decisions are lost: {second.what}")
        finally:
            with suppress(StateError), as_state_errors(self._path), self._connection.begin():
                self._update_run(status=str(RunStatus.INTERRUPTED))
