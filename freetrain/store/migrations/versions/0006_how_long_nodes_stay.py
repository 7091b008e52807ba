"""The daemon remembers how long nodes stay idle."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

STAYS = """
CREATE TABLE stays (
  "partition" VARCHAR NOT NULL, idle_node_s FLOAT NOT NULL, departures FLOAT NOT NULL,
  CONSTRAINT pk_stays PRIMARY KEY ("partition")
)
"""


def upgrade() -> None:
    """Create stays."""
    op.execute(STAYS)
