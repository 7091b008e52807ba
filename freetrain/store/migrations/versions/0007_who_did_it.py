"""The audit says who did it; until now that was always the daemon."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the actor."""
    with op.batch_alter_table("commands") as batch:
        batch.add_column(sa.Column("actor", sa.String(), nullable=False, server_default="daemon"))
    with op.batch_alter_table("commands") as batch:
        batch.alter_column("actor", server_default=None)
