"""The tables. A change here needs a migration (see docs/store.md)."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, Float, ForeignKey, Index, LargeBinary, MetaData, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """What the tables have in common: constraints with names, so that a migration can change them."""

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
    """One replay, or one life of the service."""

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
    node_names: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    decision_count: Mapped[int] = mapped_column(default=0)
    outcome: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class TrainerRow(Base):
    """A trainer of a run, numbered as it was first seen in a problem; its results come when the run ends."""

    __tablename__ = "trainers"
    __table_args__ = (UniqueConstraint("run_id", "id"),)

    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    definition: Mapped[str]
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


IS_OPEN = "state <> 'ended'"
"""As the partial index of open fragments has it, word by word: else SQLite does not use it."""


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
    parts: Mapped[list[float] | None] = mapped_column(JSON(none_as_null=True))


class EndCountRow(Base):
    """How often fragments ended in this way, ever; those of one job once."""

    __tablename__ = "end_counts"

    end: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]


class LentDayRow(Base):
    """What the trainers of a user, account and kind were lent on one day of this machine's calendar."""

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
    """What the daemon remembers of a trainer that Slurm does not."""

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


class KeptSinceRow(Base):
    """From when on a table holds everything; what was older has been dropped."""

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
    """How long the nodes of a partition stayed idle, and how many were taken; both fade."""

    __tablename__ = "stays"

    partition: Mapped[str] = mapped_column(primary_key=True)
    idle_node_s: Mapped[float]
    departures: Mapped[float]


class LostNodeRow(Base):
    """A node that Slurm took out of service after a fragment, as long as that counts."""

    __tablename__ = "lost_nodes"

    node: Mapped[str] = mapped_column(primary_key=True)
    said: Mapped[str]
    fragment: Mapped[str]
    found_s: Mapped[float]


class NoticeRow(Base):
    """A sentence that somebody has to hear of; ``told_s`` is empty until the site's command has run for it."""

    __tablename__ = "notices"

    id: Mapped[int] = mapped_column(primary_key=True)
    time_s: Mapped[float]
    kind: Mapped[str]
    owner: Mapped[str]
    what: Mapped[str]
    tries: Mapped[int]
    told_s: Mapped[float | None]


class NoticedRow(Base):
    """How something was at the last look, so that only what differs from it is news."""

    __tablename__ = "noticed"

    about: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
