"""The ledger: the daemon's orders to Slurm and their results, and the time that was lent on each day."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    and_,
    delete,
    func,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.orm import InstrumentedAttribute

from freetrain.core.fragment import End, Fragment, LentTime
from freetrain.core.grouping import grouped
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.place import Lease
from freetrain.core.trainer import TrainerPast
from freetrain.store.engine import Database
from freetrain.store.journal import NOTED_EVERY_S
from freetrain.store.tables import (
    IS_OPEN,
    CommandRow,
    DecisionRow,
    EndCountRow,
    FragmentRow,
    HarmRow,
    KeptSinceRow,
    LentDayRow,
    LiveTrainerRow,
    LostNodeRow,
    RunRow,
    RunTrainerRow,
    StaysRow,
    fragment_of,
    row_of_fragment,
    row_of_trainer,
    trainer_of,
)

DAEMON_COMMAND = "freetrain daemon"
"""The command of the daemon's runs in the list of runs."""
DAEMON = "daemon"
"""Actor in the audit where freetrain acted by itself."""
DONE = "done"
"""The result of a command that Slurm has taken."""
UNKNOWN = "unknown"
"""The result of a command that is being given to Slurm, or was when the daemon ended."""
Found = TypeVar("Found")
_FRAGMENTS = select(FragmentRow.__table__).order_by(FragmentRow.id)
_TRAINERS = select(LiveTrainerRow.__table__)
_NEW_FRAGMENT = insert(FragmentRow)
_SAVE_FRAGMENT = _NEW_FRAGMENT.on_conflict_do_update(
    index_elements=["id"],
    set_={column.name: column for column in _NEW_FRAGMENT.excluded if column.name != "id"},
)
_AT_ONCE = 10_000
_PAGES_AT_ONCE, _INCREMENTAL = 1000, 2
_NONE: Mapping[End, int] = {}


@dataclass(frozen=True, slots=True)
class LentDay:
    """Node-time that trainers of a user, account and kind (empty: unknown) were lent on a day, in UTC."""

    day_s: float
    until_s: float
    owner: str
    account: str
    kind: str
    lent: LentTime


class LentDays:
    """The days that have been summed up. ``Ledger.days`` is it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def summed_until_s(self) -> float | None:
        """Time until which days have been summed up, UTC epoch seconds; None: none has been."""
        with self._database.reading() as session:
            row = session.get(KeptSinceRow, LentDayRow.__tablename__)
            return None if row is None else row.time_s

    def save(self, day_s: float, until_s: float, sums: Iterable[LentDay]) -> None:
        """Save the sums of a day, in place of those that were kept of it."""
        with self._database.writing() as session:
            session.execute(delete(LentDayRow).where(LentDayRow.day_s == day_s))
            for day in sums:
                names = {"day_s": day_s, "until_s": until_s, "owner": day.owner, "account": day.account}
                session.add(LentDayRow(**names, kind=day.kind, **asdict(day.lent)))
            session.merge(KeptSinceRow(what=LentDayRow.__tablename__, time_s=until_s))

    def between(self, from_s: float, until_s: float) -> list[LentDay]:
        """The days that lie within this time, as far as they have been summed up."""
        within = (LentDayRow.day_s >= from_s) & (LentDayRow.until_s <= until_s)
        query = select(LentDayRow.__table__).where(within).order_by(LentDayRow.day_s)
        # By position, in the order of the table's columns: rows without a session are many times faster to read.
        with self._database.connected() as connection:
            return [
                LentDay(day_s, until_s, owner, account, kind, LentTime(*lent))
                for day_s, owner, account, kind, until_s, *lent in connection.execute(query)
            ]


class Ledger:
    """Reads and writes the daemon's tables; each method is one transaction. ``Store.ledger`` makes it."""

    def __init__(self, database: Database) -> None:
        self.days = LentDays(database)
        self._database = database

    def open_fragments(self) -> list[Fragment]:
        """Fragments that have not ended."""
        return self._fragments(text(IS_OPEN))

    def fragments(self, since_s: float) -> list[Fragment]:
        """Fragments that had not ended by then, in the order in which they were asked for."""
        return self._fragments(FragmentRow.ended_s.is_(None) | (FragmentRow.ended_s >= since_s))

    def last_ended_fragments(self, trainers: Collection[str]) -> list[Fragment]:
        """The fragment of each of these trainers that ended last, of those that ever started."""
        return self._newest(trainers, FragmentRow.trainer)

    def last_runs(self, trainers: Collection[str]) -> list[Fragment]:
        """The fragment of each job of these trainers that ended last, of those that ever started."""
        return self._newest(trainers, FragmentRow.job)

    def failed_runs(self, trainers: Collection[str]) -> list[Fragment]:
        """The fragments of these trainers that ended with an error, the oldest first of each."""
        failed = _FRAGMENTS.where(FragmentRow.end == str(End.FAILED), FragmentRow.started_s > 0)
        return self._read(trainers, lambda some: failed.where(FragmentRow.trainer.in_(some)), fragment_of)

    def _newest(self, trainers: Collection[str], of: InstrumentedAttribute[str]) -> list[Fragment]:
        has_run = select(func.max(FragmentRow.id)).where(
            FragmentRow.ended_s.is_not(None), FragmentRow.started_s.is_not(None)
        )
        newest = has_run.group_by(of)
        return self._read(
            trainers,
            lambda some: _FRAGMENTS.where(FragmentRow.id.in_(newest.where(FragmentRow.trainer.in_(some)))),
            fragment_of,
        )

    def _read(
        self, ids: Collection[str], query_of: Callable[[list[str]], Executable], of_row: Callable[[Any], Found]
    ) -> list[Found]:
        """Results of a query for these ids, which is made for some ids at once."""
        # SQLite takes 32,766 values in a statement at most.
        every = sorted(ids)
        queries = (query_of(every[first : first + _AT_ONCE]) for first in range(0, len(every), _AT_ONCE))
        with self._database.connected() as connection:
            return [of_row(row) for query in queries for row in connection.execute(query)]

    def evictions(self, since_s: float) -> list[float]:
        """Times of evictions from ``since_s`` on, one for each run of a job, UTC epoch seconds."""
        query = (
            select(func.max(FragmentRow.ended_s))
            .where(FragmentRow.end == str(End.PREEMPTED), FragmentRow.ended_s >= since_s)
            .group_by(FragmentRow.job, FragmentRow.started_s)
        )
        with self._database.reading() as session:
            return [float(ended_s or 0.0) for ended_s in session.scalars(query)]

    def fragments_between(self, from_s: float, until_s: float) -> list[Fragment]:
        """Fragments that ran in this time, in the order in which they were asked for."""
        has_not_ended = FragmentRow.ended_s.is_(None) | (FragmentRow.ended_s >= from_s)
        return self._fragments(has_not_ended & (FragmentRow.started_s < until_s))

    def tags_of_ended(self, from_s: float, until_s: float) -> set[str]:
        """The tags of the trainers of which fragments ended in this time."""
        trainers = select(FragmentRow.trainer).where(FragmentRow.ended_s.between(from_s, until_s))
        with self._database.reading() as session:
            return set(
                session.scalars(select(LiveTrainerRow.tag).where(LiveTrainerRow.id.in_(trainers)).distinct())
            )

    def first_start_s(self) -> float | None:
        """Start of the first fragment that is remembered, UTC epoch seconds; None: there is none."""
        with self._database.reading() as session:
            return session.scalar(select(func.min(FragmentRow.started_s)))

    def history(
        self, since_s: float, trainer: str | None, user: str | None, nodes: Collection[str] | None, most: int
    ) -> list[tuple[Fragment, str]]:
        """The last ``most`` fragments that had not ended by then, with their users, oldest first."""
        query = (
            select(FragmentRow.__table__, LiveTrainerRow.owner)
            .join(LiveTrainerRow, LiveTrainerRow.id == FragmentRow.trainer, isouter=True)
            .where(FragmentRow.ended_s.is_(None) | (FragmentRow.ended_s >= since_s))
            .order_by(FragmentRow.id.desc())
            .limit(most)
        )
        if trainer is not None:
            query = query.where(FragmentRow.trainer == trainer)
        if user is not None:
            query = query.where(LiveTrainerRow.owner == user)
        if nodes is not None:
            query = query.where(FragmentRow.node.in_(nodes))
        with self._database.connected() as connection:
            return [(fragment_of(row), owner or "") for *row, owner in connection.execute(query)][::-1]

    def forget_fragments(self, before_s: float, present: Collection[str]) -> bool:
        """Drop some fragments that ended before, and the trainers without any that Slurm does not show any more.

        Returns:
            Whether there were any: then there may be more.
        """
        # Some at once: a transaction holds the write lock, and looks wait for it.
        old = select(FragmentRow.id).where(FragmentRow.ended_s < before_s).limit(_AT_ONCE)
        of_some = select(FragmentRow.trainer).where(FragmentRow.trainer == LiveTrainerRow.id).exists()
        gone = select(LiveTrainerRow.id).where(LiveTrainerRow.first_seen_s < before_s, ~of_some)
        with self._database.writing() as session:
            dropped = session.execute(delete(FragmentRow).where(FragmentRow.id.in_(old))).rowcount  # type: ignore[attr-defined]
            # Those that Slurm still shows may fill the limit, so as many more are read.
            ids = set(session.scalars(gone.limit(_AT_ONCE + len(present)))) - set(present)
            session.execute(delete(LiveTrainerRow).where(LiveTrainerRow.id.in_(sorted(ids)[:_AT_ONCE])))
        return bool(dropped or ids)

    def give_space_back(self) -> bool:
        """Give some of the file's free pages back to the file system; whether there may be more.

        Of a file that an earlier freetrain began there are none to be given; 'VACUUM' of SQLite's own makes it so.
        """
        with self._database.writing() as session:
            # Each step frees a page, and SQLAlchemy makes one only of what returns no rows.
            cursor = session.connection().connection.cursor()
            cursor.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
            cursor.fetchall()
            is_incremental = session.scalar(text("PRAGMA auto_vacuum")) == _INCREMENTAL
            return is_incremental and bool(session.scalar(text("PRAGMA freelist_count")))

    def lent_spans(self, since_s: float) -> Iterator[tuple[str, float, float | None, float]]:
        """(user, start, end or None, share of the node) of fragments that ran after ``since_s``, one by one."""
        query = (
            select(LiveTrainerRow.owner, FragmentRow.started_s, FragmentRow.ended_s, FragmentRow.share)
            .join(LiveTrainerRow, LiveTrainerRow.id == FragmentRow.trainer)
            .where(FragmentRow.started_s.is_not(None))
            .where(FragmentRow.ended_s.is_(None) | (FragmentRow.ended_s > since_s))
        )
        with self._database.connected() as connection:
            for owner, start_s, end_s, share in connection.execution_options(yield_per=1000).execute(query):
                yield owner, float(start_s or 0.0), end_s, share

    def past_of(self, trainers: Collection[str], now_s: float) -> dict[str, TrainerPast]:
        """Trainer → its past until ``now_s``, without its samples, of those that are known."""
        fragment, ended_s = FragmentRow, func.coalesce(FragmentRow.ended_s, now_s)
        query = (
            select(
                LiveTrainerRow.id,
                LiveTrainerRow.first_seen_s,
                func.sum(fragment.share * (ended_s - fragment.started_s)),
                func.min(fragment.started_s),
                func.max(fragment.ended_s),
                func.count(fragment.id) - func.count(fragment.ended_s),
            )
            .outerjoin(fragment, and_(fragment.trainer == LiveTrainerRow.id, fragment.started_s.is_not(None)))
            .group_by(LiveTrainerRow.id)
        )

        def past(row: Sequence[Any]) -> tuple[str, TrainerPast]:
            trainer, seen_s, node_s, first_s, ended_s, running = row
            return trainer, TrainerPast(0.0, node_s or 0.0, first_s, None if running else ended_s or seen_s)

        return dict(self._read(trainers, lambda some: query.where(LiveTrainerRow.id.in_(some)), past))

    def lent_nodes(self, since_s: float, most: int) -> list[Lease]:
        """Leases of the nodes of fragments that ran after ``since_s``, of the last ``most``."""
        last = select(func.max(FragmentRow.id)).scalar_subquery()
        query = (
            select(FragmentRow.node, FragmentRow.trainer, FragmentRow.started_s, FragmentRow.ended_s)
            .where(FragmentRow.id > last - most, FragmentRow.started_s.is_not(None))
            .where(FragmentRow.ended_s.is_(None) | (FragmentRow.ended_s > since_s))
            .order_by(FragmentRow.id)
        )
        with self._database.connected() as connection:
            return [
                Lease(node, trainer, float(start or 0.0), inf if end is None else float(end))
                for node, trainer, start, end in connection.execute(query)
            ]

    def _fragments(self, condition: object) -> list[Fragment]:
        with self._database.connected() as connection:
            return [fragment_of(row) for row in connection.execute(_FRAGMENTS.where(condition))]  # type: ignore[arg-type]

    def save_fragments(self, fragments: Iterable[Fragment], ends: Mapping[End, int] = _NONE) -> list[Fragment]:
        """Write new and changed fragments, and count the ends of some; new ones get their number."""
        changed, saved = list(fragments), []
        if not changed and not ends:
            return []
        with self._database.writing_rows() as connection:
            for fragment in changed:
                found = connection.execute(_SAVE_FRAGMENT, row_of_fragment(fragment))
                saved.append(replace(fragment, id=fragment.id or int(found.lastrowid)))
            for end, count in ends.items():
                row_of_end = insert(EndCountRow).values(end=str(end), count=count)
                more = {"count": EndCountRow.count + count}
                connection.execute(row_of_end.on_conflict_do_update(index_elements=["end"], set_=more))
        return saved

    def end_counts(self) -> dict[End, int]:
        """Number of fragments that ever ended in each way; those of one job count once."""
        with self._database.reading() as session:
            return {End(row.end): row.count for row in session.scalars(select(EndCountRow))}

    def trainers(self, ids: Collection[str] | None = None) -> dict[str, KnownTrainer]:
        """Trainers by id: these, as far as they are known, or all."""
        if ids is not None:
            of_these = self._read(ids, lambda some: _TRAINERS.where(LiveTrainerRow.id.in_(some)), trainer_of)
            return {trainer.id: trainer for trainer in of_these}
        with self._database.connected() as connection:
            return {row.id: trainer_of(row) for row in connection.execute(_TRAINERS)}

    def save_trainers(self, trainers: Iterable[KnownTrainer]) -> None:
        """Write new and changed trainers."""
        with self._database.writing() as session:
            for trainer in trainers:
                session.merge(row_of_trainer(trainer))

    def record_command(
        self,
        time_s: float,
        argv: Sequence[str],
        why: str,
        decision: str | None = None,
        result: str = UNKNOWN,
        actor: str = DAEMON,
    ) -> int:
        """Add to the audit a command to Slurm, given or withheld, or an act of a person without a command.

        Returns:
            The number of the entry.
        """
        facts = {"time_s": time_s, "actor": actor, "argv": list(argv), "why": why, "decision": decision}
        with self._database.writing_rows() as connection:
            return int(connection.execute(insert(CommandRow), {**facts, "result": result}).lastrowid)

    def complete_command(self, number: int, result: str, return_code: int | None) -> None:
        """Write down the result of a command whose result is unknown so far."""
        query = update(CommandRow).where(CommandRow.id == number, CommandRow.result == UNKNOWN)
        with self._database.writing_rows() as connection:
            connection.execute(query.values(result=result, return_code=return_code))

    def unknown_commands(self) -> list[CommandRow]:
        """The commands whose result has not been written down, oldest first."""
        return self._commands(select(CommandRow).where(CommandRow.result == UNKNOWN).order_by(CommandRow.id))

    def commands(self, since_s: float = 0.0) -> list[CommandRow]:
        """The audit from then on, oldest first."""
        return self._commands(select(CommandRow).where(CommandRow.time_s >= since_s).order_by(CommandRow.id))

    def newest_commands(self, most: int) -> list[CommandRow]:
        """The last ``most`` of the audit, the newest first."""
        return self._commands(select(CommandRow).order_by(CommandRow.id.desc()).limit(most))

    def _commands(self, query: Select[CommandRow]) -> list[CommandRow]:
        with self._database.reading() as session:
            return list(session.scalars(query))

    def record_harm(self, harm: Harm) -> None:
        """Keep a delay that a fragment caused."""
        row = HarmRow(**{**asdict(harm), "fragments": list(harm.fragments)}, delay_s=harm.delay_s)
        with self._database.writing() as session:
            session.add(row)

    def harms(self, since_s: float = 0.0) -> list[Harm]:
        """Delays of jobs that started from then on."""
        query = select(HarmRow).where(HarmRow.started_s >= since_s).order_by(HarmRow.id)
        with self._database.reading() as session:
            return [
                Harm(row.job, row.started_s, row.unnoticed_s, row.leaving_s, row.window_s, tuple(row.fragments))
                for row in session.scalars(query)
            ]

    def save_lost_nodes(self, lost: Iterable[tuple[str, str, str, float]]) -> None:
        """Keep the nodes that count as lost, in place of those before: name, state, fragment and time of each."""
        with self._database.writing() as session:
            session.execute(delete(LostNodeRow))
            for node, state_text, fragment, found_s in lost:
                session.add(LostNodeRow(node=node, state_text=state_text, fragment=fragment, found_s=found_s))

    def lost_nodes(self) -> list[tuple[str, str, str, float]]:
        """The lost nodes that were kept last, in the order in which they were found."""
        with self._database.reading() as session:
            rows = session.scalars(select(LostNodeRow).order_by(LostNodeRow.found_s))
            return [(row.node, row.state_text, row.fragment, row.found_s) for row in rows]

    def save_stays(self, partition: str, idle_node_s: float, departures: float) -> None:
        """Keep the idle time of the nodes of a partition, and the number of them that were taken."""
        row = StaysRow(partition=partition, idle_node_s=idle_node_s, departures=departures)
        with self._database.writing() as session:
            session.merge(row)

    def stays(self, partition: str) -> tuple[float, float] | None:
        """The node-seconds and departures that were kept last."""
        with self._database.reading() as session:
            row = session.get(StaysRow, partition)
            return None if row is None else (row.idle_node_s, row.departures)

    def forget(self, before_s: float) -> None:
        """Drop commands, harms and decisions of the daemon that are older, with their trainers.

        Nothing else removes a command from the audit.
        """
        daemons = select(RunRow.id).where(RunRow.command == DAEMON_COMMAND)
        with self._database.writing() as session:
            kept = session.get(KeptSinceRow, CommandRow.__tablename__)
            kept_since_s = before_s if kept is None else max(before_s, kept.time_s)
            session.merge(KeptSinceRow(what=CommandRow.__tablename__, time_s=kept_since_s))
            # Before the deletion: a trigger refuses to drop what is younger than this row says.
            session.flush()
            session.execute(delete(CommandRow).where(CommandRow.time_s < before_s))
            session.execute(delete(HarmRow).where(HarmRow.started_s < before_s))
            session.execute(
                delete(DecisionRow).where(DecisionRow.run_id.in_(daemons), DecisionRow.now_s < before_s)
            )
            # Some at once, and those without a time, of earlier versions, with the last decision of their run.
            decided = select(DecisionRow.run_id).where(DecisionRow.run_id == RunTrainerRow.run_id).exists()
            seen_before = RunTrainerRow.last_s < before_s - NOTED_EVERY_S
            rowid: ColumnElement[int] = literal_column("trainers.rowid")
            old = select(rowid).where(
                RunTrainerRow.run_id.in_(daemons), seen_before | (RunTrainerRow.last_s.is_(None) & ~decided)
            )
            session.execute(delete(RunTrainerRow).where(rowid.in_(old.limit(_AT_ONCE))))

    def ends_by_trainer(self, trainers: Collection[str]) -> dict[str, dict[End, int]]:
        """Trainer → way of an end → number of its fragments' ends; those of one job end together, once."""
        began_s = func.coalesce(FragmentRow.started_s, FragmentRow.asked_s)
        ended = select(FragmentRow.trainer, FragmentRow.end, FragmentRow.job, began_s).distinct()
        ended = ended.where(FragmentRow.end.is_not(None))

        def count_of(some: list[str]) -> Executable:
            runs = ended.where(FragmentRow.trainer.in_(some)).subquery()
            return select(runs.c.trainer, runs.c.end, func.count()).group_by(runs.c.trainer, runs.c.end)

        counts = self._read(trainers, count_of, lambda row: (row[0], (End(row[1]), int(row[2]))))
        return {trainer: dict(ends) for trainer, ends in grouped(counts).items()}
