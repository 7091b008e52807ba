"""The audit keeps what the commands ended with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the return codes."""
    with op.batch_alter_table("commands") as batch:
        batch.add_column(sa.Column("return_code", sa.Integer()))
