"""Fragments know how much of their node they have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the share; whatever was lent before had all of its node, as far as anybody knows."""
    with op.batch_alter_table("fragments") as batch:
        batch.add_column(sa.Column("share", sa.Float(), nullable=False, server_default="1"))
