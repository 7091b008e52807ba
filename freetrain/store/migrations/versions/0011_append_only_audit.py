"""The audit is append-only: nothing in it is changed, and nothing leaves it but what is older than is kept."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"

KEPT_SINCE = """
CREATE TABLE kept_since (what VARCHAR NOT NULL, time_s FLOAT NOT NULL, CONSTRAINT pk_kept_since PRIMARY KEY (what))
"""
NO_CHANGE = """
CREATE TRIGGER commands_never_change BEFORE UPDATE ON commands
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: no entry is changed'); END
"""
NO_REPLACEMENT = """
CREATE TRIGGER commands_are_never_replaced BEFORE INSERT ON commands
WHEN EXISTS (SELECT 1 FROM commands WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: no entry is replaced'); END
"""
NO_REMOVAL = """
CREATE TRIGGER commands_are_kept BEFORE DELETE ON commands
WHEN NOT EXISTS (SELECT 1 FROM kept_since WHERE what = 'commands' AND OLD.time_s < time_s)
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: entries go when they are older than kept_since says'); END
"""


def upgrade() -> None:
    """Create the triggers, and the table that says since when the audit is kept."""
    for statement in (KEPT_SINCE, NO_CHANGE, NO_REPLACEMENT, NO_REMOVAL):
        op.execute(statement)
