"""Fragments and commands name their decision as ``run:number``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the columns text."""
    for table in ("fragments", "commands"):
        with op.batch_alter_table(table) as batch:
            batch.alter_column("decision", existing_type=sa.Integer(), type_=sa.String(), existing_nullable=True)
