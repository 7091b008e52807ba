"""News for people and lost nodes outlive the daemon that noticed them."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

NOTICES = """
CREATE TABLE notices (
  id INTEGER NOT NULL, time_s FLOAT NOT NULL, kind VARCHAR NOT NULL, owner VARCHAR NOT NULL, what VARCHAR NOT NULL,
  tries INTEGER NOT NULL, told_s FLOAT, CONSTRAINT pk_notices PRIMARY KEY (id)
)
"""
NOTICED = """
CREATE TABLE noticed (
  about VARCHAR NOT NULL, state VARCHAR NOT NULL, CONSTRAINT pk_noticed PRIMARY KEY (about)
)
"""
LOST_NODES = """
CREATE TABLE lost_nodes (
  node VARCHAR NOT NULL, said VARCHAR NOT NULL, fragment VARCHAR NOT NULL, found_s FLOAT NOT NULL,
  CONSTRAINT pk_lost_nodes PRIMARY KEY (node)
)
"""


def upgrade() -> None:
    """Create notices, noticed and lost_nodes."""
    for table in (NOTICES, NOTICED, LOST_NODES):
        op.execute(table)
