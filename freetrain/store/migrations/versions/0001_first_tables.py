"""The first tables."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

RUNS = """
CREATE TABLE runs (
  id INTEGER NOT NULL, command VARCHAR NOT NULL, version VARCHAR NOT NULL, status VARCHAR NOT NULL,
  settings JSON NOT NULL, started_s FLOAT NOT NULL, ended_s FLOAT, from_s FLOAT NOT NULL, until_s FLOAT NOT NULL,
  node_count INTEGER NOT NULL, node_names BLOB NOT NULL, decision_count INTEGER NOT NULL, outcome JSON,
  CONSTRAINT pk_runs PRIMARY KEY (id)
)
"""
TRAINERS = """
CREATE TABLE trainers (
  run_id INTEGER NOT NULL, number INTEGER NOT NULL, id VARCHAR NOT NULL, definition VARCHAR NOT NULL,
  started_s FLOAT, completed_s FLOAT, samples FLOAT, node_hours FLOAT, evictions INTEGER, rescales INTEGER,
  CONSTRAINT pk_trainers PRIMARY KEY (run_id, number),
  CONSTRAINT fk_trainers_run_id FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE,
  CONSTRAINT uq_trainers_run_id_id UNIQUE (run_id, id)
)
"""
DECISIONS = """
CREATE TABLE decisions (
  run_id INTEGER NOT NULL, number INTEGER NOT NULL, now_s FLOAT NOT NULL, status VARCHAR NOT NULL,
  solver VARCHAR NOT NULL, objective FLOAT NOT NULL, gap FLOAT, solve_s FLOAT NOT NULL,
  idle_nodes INTEGER NOT NULL, lent_nodes INTEGER NOT NULL, notes JSON NOT NULL,
  problem BLOB NOT NULL, placement BLOB NOT NULL,
  CONSTRAINT pk_decisions PRIMARY KEY (run_id, number),
  CONSTRAINT fk_decisions_run_id FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE
)
"""


def upgrade() -> None:
    """Create runs, trainers and decisions."""
    for table in (RUNS, TRAINERS, DECISIONS):
        op.execute(table)
