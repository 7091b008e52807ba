"""Trainers of a run have the time of their last decision: when those are forgotten, so are they."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column."""
    op.add_column("trainers", sa.Column("last_s", sa.Float(), nullable=True))
