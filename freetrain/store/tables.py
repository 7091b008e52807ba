"""The tables, and the fragments and trainers that their rows hold.

A change here needs a migration (docs/reference/store.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from pydantic import TypeAdapter
from sqlalchemy import (
    DDL,
    JSON,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.observed import SeenCosts
from freetrain.core.throughput import Observation, usable

# The condition of the partial index of open fragments, word by word: otherwise SQLite does not use the index.
IS_OPEN = "state <> 'ended'"
_COSTS = TypeAdapter(SeenCosts)
_SAME_FIELDS = (
    "id", "owner", "account", "tag", "first_seen_s", "note", "failures_in_a_row", "rests_until_s", "samples_done",
    "progress_bytes",
)  # fmt: skip
"""Fields of a trainer that its row holds as they are."""


class Base(DeclarativeBase):
    """Base of the tables: constraints with names, so that a migration can change them."""

    # SQLAlchemy 2.0 and 2.1 differ in what they make of a float.
    type_annotation_map: ClassVar = {float: Float()}
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        }
    )


class RunRow(Base):
    """A replay, or one life of the service."""

    __tablename__ = "runs"

    id: Mapped[int] = mapped_column(primary_key=True)
    command: Mapped[str]
    version: Mapped[str]
    status: Mapped[str]
    settings: Mapped[dict[str, Any]] = mapped_column(JSON)
    started_s: Mapped[float]
    ended_s: Mapped[float | None]
    from_s: Mapped[float]
    until_s: Mapped[float]
    node_count: Mapped[int]
    # Deferred: listings of runs do not need the names of thousands of nodes.
    node_names: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    decision_count: Mapped[int] = mapped_column(default=0)
    outcome: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class RunTrainerRow(Base):
    """A trainer of a run, numbered as it was first seen in a problem; its results come when the run ends."""

    __tablename__ = "trainers"
    __table_args__ = (UniqueConstraint("run_id", "id"),)

    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    definition: Mapped[str]
    # When it was last part of a decision, to the hour; NULL: an earlier version wrote the row.
    last_s: Mapped[float | None]
    started_s: Mapped[float | None]
    completed_s: Mapped[float | None]
    samples: Mapped[float | None]
    node_hours: Mapped[float | None]
    evictions: Mapped[int | None]
    rescales: Mapped[int | None]


class DecisionRow(Base):
    """A decision of a run, with its problem and placement packed (see ``freetrain.store.packing``)."""

    __tablename__ = "decisions"

    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    now_s: Mapped[float]
    status: Mapped[str]
    solver: Mapped[str]
    objective: Mapped[float]
    gap: Mapped[float | None]
    solve_s: Mapped[float]
    idle_nodes: Mapped[int]
    lent_nodes: Mapped[int]
    notes: Mapped[list[str]] = mapped_column(JSON)
    problem: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    placement: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)


class FragmentRow(Base):
    """A fragment of the daemon's, from the asking to the end."""

    __tablename__ = "fragments"
    __table_args__ = (
        Index("ix_fragments_trainer", "trainer"),
        Index("ix_fragments_ended", "ended_s"),
        Index("ix_fragments_open", "id", sqlite_where=text(IS_OPEN)),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str]
    trainer: Mapped[str]
    node: Mapped[str]
    state: Mapped[str]
    asked_s: Mapped[float]
    limit_s: Mapped[float]
    started_s: Mapped[float | None]
    ended_s: Mapped[float | None]
    end: Mapped[str | None]
    decision: Mapped[str | None]
    share: Mapped[float] = mapped_column(default=1.0, server_default="1")
    # NULL, not the text "null": most fragments have whole nodes, and rows stay short.
    parts: Mapped[list[float] | None] = mapped_column(JSON(none_as_null=True))


class EndCountRow(Base):
    """Number of fragments that ever ended in this way; those of one job count once."""

    __tablename__ = "end_counts"

    end: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]


class LentDayRow(Base):
    """Node-time that the trainers of a user, account and kind were lent on one day of this machine's calendar."""

    __tablename__ = "lent_days"

    day_s: Mapped[float] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    until_s: Mapped[float]
    lent_s: Mapped[float]
    lost_to_starts_s: Mapped[float]
    lost_to_ends_s: Mapped[float]
    starts: Mapped[int]
    evictions: Mapped[int]


class LiveTrainerRow(Base):
    """The daemon's memory of a trainer, of which Slurm knows nothing."""

    __tablename__ = "live_trainers"

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]
    account: Mapped[str]
    tag: Mapped[str]
    state: Mapped[str]
    note: Mapped[str]
    first_seen_s: Mapped[float]
    failures_in_a_row: Mapped[int]
    rests_until_s: Mapped[float]
    samples_done: Mapped[float]
    progress_bytes: Mapped[int]
    observations: Mapped[list[Any]] = mapped_column(JSON)
    costs: Mapped[dict[str, Any]] = mapped_column(JSON)


class CommandRow(Base):
    """A command given to Slurm, or not given because of the mode, or what people did besides: the audit.

    It is append-only: triggers refuse any change but that of a result that is still unknown, and any removal but
    of what is older than ``kept_since`` says.
    """

    __tablename__ = "commands"
    __table_args__ = (Index("ix_commands_unknown", "id", sqlite_where=text("result = 'unknown'")),)

    id: Mapped[int] = mapped_column(primary_key=True)
    time_s: Mapped[float]
    actor: Mapped[str]
    argv: Mapped[list[str]] = mapped_column(JSON)
    why: Mapped[str]
    decision: Mapped[str | None]
    result: Mapped[str]
    return_code: Mapped[int | None]


for trigger in (
    """
CREATE TRIGGER commands_never_change BEFORE UPDATE ON commands
WHEN OLD.result <> 'unknown' OR NEW.id IS NOT OLD.id OR NEW.time_s IS NOT OLD.time_s OR NEW.actor IS NOT OLD.actor
  OR NEW.argv IS NOT OLD.argv OR NEW.why IS NOT OLD.why OR NEW.decision IS NOT OLD.decision
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: no entry is changed'); END
""",
    """
CREATE TRIGGER commands_are_never_replaced BEFORE INSERT ON commands
WHEN EXISTS (SELECT 1 FROM commands WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: no entry is replaced'); END
""",
    """
CREATE TRIGGER commands_are_kept BEFORE DELETE ON commands
WHEN NOT EXISTS (SELECT 1 FROM kept_since WHERE what = 'commands' AND OLD.time_s < time_s)
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: entries go when they are older than kept_since says'); END
""",
):
    event.listen(CommandRow.__table__, "after_create", DDL(trigger))  # type: ignore[no-untyped-call]


class KeptSinceRow(Base):
    """Begin of a table's history: what was older has been dropped."""

    __tablename__ = "kept_since"

    what: Mapped[str] = mapped_column(primary_key=True)
    time_s: Mapped[float]


class HarmRow(Base):
    """A delay of one of the site's jobs that a fragment caused."""

    __tablename__ = "harms"

    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[str]
    delay_s: Mapped[float]
    started_s: Mapped[float]
    unnoticed_s: Mapped[float]
    leaving_s: Mapped[float]
    window_s: Mapped[float]
    fragments: Mapped[list[str]] = mapped_column(JSON)


class StaysRow(Base):
    """Idle times of a partition's nodes, and the number that was taken; both fade."""

    __tablename__ = "stays"

    partition: Mapped[str] = mapped_column(primary_key=True)
    idle_node_s: Mapped[float]
    departures: Mapped[float]


class LostNodeRow(Base):
    """A node that Slurm took out of service after a fragment, as long as that counts."""

    __tablename__ = "lost_nodes"

    node: Mapped[str] = mapped_column(primary_key=True)
    # The column keeps its first name: a migration would have to copy the table.
    state_text: Mapped[str] = mapped_column("said")
    fragment: Mapped[str]
    found_s: Mapped[float]


class NoticeRow(Base):
    """A sentence for a person; ``told_s`` is empty until the site's command has run for it."""

    __tablename__ = "notices"

    id: Mapped[int] = mapped_column(primary_key=True)
    time_s: Mapped[float]
    kind: Mapped[str]
    owner: Mapped[str]
    what: Mapped[str]
    tries: Mapped[int]
    told_s: Mapped[float | None]


class NoticedRow(Base):
    """A condition at the last look, so that only what differs from it is news."""

    __tablename__ = "noticed"

    about: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]


def fragment_of(row: Sequence[Any]) -> Fragment:
    """The fragment of a row of the table's columns: by position, since a ledger reads a hundred thousand."""
    id_, job, trainer, node, state, asked_s, limit_s, started_s, ended_s, end, decision, share, parts = row
    return Fragment(
        job, trainer, node, FragmentState(state), asked_s, limit_s, started_s, ended_s, End(end) if end else None,
        decision, id_, share, tuple(parts or ()),
    )  # fmt: skip


def row_of_fragment(fragment: Fragment) -> dict[str, Any]:
    """The columns of this fragment's row; a new one has no number yet."""
    return {
        **asdict(fragment),
        "id": fragment.id or None,
        "state": str(fragment.state),
        "end": str(fragment.end) if fragment.end else None,
        "parts": list(fragment.parts) or None,
    }


def trainer_of(row: Any) -> KnownTrainer:
    """The trainer of a row with the table's columns."""
    return KnownTrainer(
        **{name: getattr(row, name) for name in _SAME_FIELDS},
        state=TrainerState(row.state),
        # Earlier versions kept whatever a trainer's progress contained.
        observations=usable(Observation(*values) for values in row.observations),
        costs=_COSTS.validate_python(row.costs),
    )


def row_of_trainer(trainer: KnownTrainer) -> LiveTrainerRow:
    """The row of this trainer."""
    return LiveTrainerRow(
        **{name: getattr(trainer, name) for name in _SAME_FIELDS},
        state=str(trainer.state),
        observations=[
            [seen.nodes, seen.samples_per_s, seen.weight, *([seen.kind] if seen.kind else ())]
            for seen in trainer.observations
        ],
        costs=asdict(trainer.costs),
    )
