"""The daemon remembers the account that each training is charged to; of past ones it is unknown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the account."""
    with op.batch_alter_table("live_trainers") as batch:
        batch.add_column(sa.Column("account", sa.String(), nullable=False, server_default=""))
    with op.batch_alter_table("live_trainers") as batch:
        batch.alter_column("account", server_default=None)
