"""News for people and lost nodes outlive the daemon that noticed them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Create notices, noticed and lost_nodes."""
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("told_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
    )
    op.create_table(
        "noticed",
        sa.Column("about", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("about", name="pk_noticed"),
    )
    op.create_table(
        "lost_nodes",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("said", sa.String(), nullable=False),
        sa.Column("fragment", sa.String(), nullable=False),
        sa.Column("found_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_lost_nodes"),
    )
