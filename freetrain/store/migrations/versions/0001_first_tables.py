"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create runs, trainers and decisions."""
    _create_runs()
    _create_trainers()
    _create_decisions()


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("command", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("started_s", sa.Float(), nullable=False),
        sa.Column("ended_s", sa.Float()),
        sa.Column("from_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=False),
        sa.Column("node_count", sa.Integer(), nullable=False),
        sa.Column("node_names", sa.LargeBinary(), nullable=False),
        sa.Column("decision_count", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )


def _create_trainers() -> None:
    op.create_table(
        "trainers",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("definition", sa.String(), nullable=False),
        sa.Column("started_s", sa.Float()),
        sa.Column("completed_s", sa.Float()),
        sa.Column("samples", sa.Float()),
        sa.Column("node_hours", sa.Float()),
        sa.Column("evictions", sa.Integer()),
        sa.Column("rescales", sa.Integer()),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_trainers_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_trainers"),
        sa.UniqueConstraint("run_id", "id", name="uq_trainers_run_id_id"),
    )


def _create_decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("now_s", sa.Float(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("solver", sa.String(), nullable=False),
        sa.Column("objective", sa.Float(), nullable=False),
        sa.Column("gap", sa.Float()),
        sa.Column("solve_s", sa.Float(), nullable=False),
        sa.Column("idle_nodes", sa.Integer(), nullable=False),
        sa.Column("lent_nodes", sa.Integer(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("problem", sa.LargeBinary(), nullable=False),
        sa.Column("placement", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_decisions_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_decisions"),
    )
