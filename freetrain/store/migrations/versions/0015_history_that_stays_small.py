"""Ends of fragments are counted, what was lent is summed up by day, and fragments have indexes and parts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

END_COUNTS = """
CREATE TABLE end_counts (
  "end" VARCHAR NOT NULL, count INTEGER NOT NULL, CONSTRAINT pk_end_counts PRIMARY KEY ("end")
)
"""
LENT_DAYS = """
CREATE TABLE lent_days (
  day_s FLOAT NOT NULL, until_s FLOAT NOT NULL, owner VARCHAR NOT NULL, account VARCHAR NOT NULL,
  kind VARCHAR NOT NULL, lent_s FLOAT NOT NULL, lost_to_starts_s FLOAT NOT NULL, lost_to_ends_s FLOAT NOT NULL,
  starts INTEGER NOT NULL, evictions INTEGER NOT NULL,
  CONSTRAINT pk_lent_days PRIMARY KEY (day_s, owner, account, kind)
)
"""
COUNT_ENDS = """
INSERT INTO end_counts (end, count)
SELECT end, count(*) FROM (
  SELECT DISTINCT trainer, end, job, coalesce(started_s, asked_s) FROM fragments WHERE end IS NOT NULL
) GROUP BY end
"""


def upgrade() -> None:
    """Create the tables and the indexes, and count the ends so far."""
    op.execute(END_COUNTS)
    op.execute(LENT_DAYS)
    op.add_column("fragments", sa.Column("parts", sa.JSON(), nullable=True))
    op.execute(COUNT_ENDS)
    op.create_index("ix_fragments_trainer", "fragments", ["trainer"])
    op.create_index("ix_fragments_ended", "fragments", ["ended_s"])
    op.create_index("ix_fragments_open", "fragments", ["id"], sqlite_where=sa.text("state <> 'ended'"))
