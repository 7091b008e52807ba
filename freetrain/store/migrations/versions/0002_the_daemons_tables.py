"""The daemon's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create fragments, live_trainers, commands and harms."""
    op.create_table(
        "fragments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("trainer", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("asked_s", sa.Float(), nullable=False),
        sa.Column("limit_s", sa.Float(), nullable=False),
        sa.Column("started_s", sa.Float()),
        sa.Column("ended_s", sa.Float()),
        sa.Column("end", sa.String()),
        sa.Column("decision", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_fragments"),
    )
    op.create_table(
        "live_trainers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("first_seen_s", sa.Float(), nullable=False),
        sa.Column("failures_in_a_row", sa.Integer(), nullable=False),
        sa.Column("rests_until_s", sa.Float(), nullable=False),
        sa.Column("samples_done", sa.Float(), nullable=False),
        sa.Column("progress_bytes", sa.Integer(), nullable=False),
        sa.Column("observations", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_live_trainers"),
    )
    op.create_table(
        "commands",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("argv", sa.JSON(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("decision", sa.Integer()),
        sa.Column("result", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_commands"),
    )
    op.create_table(
        "harms",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("delay_s", sa.Float(), nullable=False),
        sa.Column("started_s", sa.Float(), nullable=False),
        sa.Column("fragments", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_harms"),
    )
