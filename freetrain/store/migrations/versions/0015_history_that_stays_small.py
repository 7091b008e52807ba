"""Ends of fragments are counted, what was lent is summed up by day, and fragments have indexes and parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

COUNT_ENDS = """
INSERT INTO end_counts (end, count)
SELECT end, count(*) FROM (
  SELECT DISTINCT trainer, end, job, coalesce(started_s, asked_s) FROM fragments WHERE end IS NOT NULL
) GROUP BY end
"""


def upgrade() -> None:
    """Create the tables and the indexes, and count the ends so far."""
    op.create_table(
        "end_counts",
        sa.Column("end", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("end", name="pk_end_counts"),
    )
    op.create_table(
        "lent_days",
        sa.Column("day_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        *(
            sa.Column(name, sa.Float(), nullable=False)
            for name in ("lent_s", "lost_to_starts_s", "lost_to_ends_s")
        ),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("starts", "evictions")),
        sa.PrimaryKeyConstraint("day_s", "owner", "account", "kind", name="pk_lent_days"),
    )
    op.add_column("fragments", sa.Column("parts", sa.JSON(), nullable=True))
    op.execute(COUNT_ENDS)
    op.create_index("ix_fragments_trainer", "fragments", ["trainer"])
    op.create_index("ix_fragments_ended", "fragments", ["ended_s"])
    op.create_index("ix_fragments_open", "fragments", ["id"], sqlite_where=sa.text("state <> 'ended'"))
