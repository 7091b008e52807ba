"""Delays are kept with what they are made of; of older ones that is not known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the parts; an older delay counts as one that was not noticed."""
    with op.batch_alter_table("harms") as batch:
        for name in ("unnoticed_s", "leaving_s", "window_s"):
            batch.add_column(sa.Column(name, sa.Float(), nullable=False, server_default="0"))
    op.execute("UPDATE harms SET unnoticed_s = delay_s")
    with op.batch_alter_table("harms") as batch:
        for name in ("unnoticed_s", "leaving_s", "window_s"):
            batch.alter_column(name, server_default=None)
