"""The daemon's tables."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

FRAGMENTS = """
CREATE TABLE fragments (
  id INTEGER NOT NULL, job VARCHAR NOT NULL, trainer VARCHAR NOT NULL, node VARCHAR NOT NULL,
  state VARCHAR NOT NULL, asked_s FLOAT NOT NULL, limit_s FLOAT NOT NULL, started_s FLOAT, ended_s FLOAT,
  "end" VARCHAR, decision INTEGER, CONSTRAINT pk_fragments PRIMARY KEY (id)
)
"""
TRAINERS = """
CREATE TABLE live_trainers (
  id VARCHAR NOT NULL, owner VARCHAR NOT NULL, tag VARCHAR NOT NULL, state VARCHAR NOT NULL, note VARCHAR NOT NULL,
  first_seen_s FLOAT NOT NULL, failures_in_a_row INTEGER NOT NULL, rests_until_s FLOAT NOT NULL,
  samples_done FLOAT NOT NULL, progress_bytes INTEGER NOT NULL, observations JSON NOT NULL,
  CONSTRAINT pk_live_trainers PRIMARY KEY (id)
)
"""
COMMANDS = """
CREATE TABLE commands (
  id INTEGER NOT NULL, time_s FLOAT NOT NULL, argv JSON NOT NULL, why VARCHAR NOT NULL, decision INTEGER,
  result VARCHAR NOT NULL, CONSTRAINT pk_commands PRIMARY KEY (id)
)
"""
HARMS = """
CREATE TABLE harms (
  id INTEGER NOT NULL, job VARCHAR NOT NULL, delay_s FLOAT NOT NULL, started_s FLOAT NOT NULL,
  fragments JSON NOT NULL, CONSTRAINT pk_harms PRIMARY KEY (id)
)
"""


def upgrade() -> None:
    """Create fragments, live_trainers, commands and harms."""
    for table in (FRAGMENTS, TRAINERS, COMMANDS, HARMS):
        op.execute(table)
