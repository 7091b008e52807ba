"""The daemon remembers what changes of its size were seen to cost each training."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the costs."""
    with op.batch_alter_table("live_trainers") as batch:
        batch.add_column(sa.Column("costs", sa.JSON(), nullable=False, server_default="{}"))
    with op.batch_alter_table("live_trainers") as batch:
        batch.alter_column("costs", server_default=None)
