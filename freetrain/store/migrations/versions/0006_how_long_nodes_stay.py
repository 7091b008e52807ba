"""The daemon remembers how long nodes stay idle."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create stays."""
    op.create_table(
        "stays",
        sa.Column("partition", sa.String(), nullable=False),
        sa.Column("idle_node_s", sa.Float(), nullable=False),
        sa.Column("departures", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("partition", name="pk_stays"),
    )
