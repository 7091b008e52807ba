"""An order is in the audit before Slurm gets it: its result is unknown at first, and is written once."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"

NO_CHANGE = """
CREATE TRIGGER commands_never_change BEFORE UPDATE ON commands
WHEN OLD.result <> 'unknown' OR NEW.id IS NOT OLD.id OR NEW.time_s IS NOT OLD.time_s OR NEW.actor IS NOT OLD.actor
  OR NEW.argv IS NOT OLD.argv OR NEW.why IS NOT OLD.why OR NEW.decision IS NOT OLD.decision
BEGIN SELECT RAISE(ABORT, 'the audit is append-only: no entry is changed'); END
"""
UNKNOWN = "CREATE INDEX ix_commands_unknown ON commands (id) WHERE result = 'unknown'"


def upgrade() -> None:
    """Let a result that is not known yet be written, and nothing else."""
    op.execute("DROP TRIGGER commands_never_change")
    op.execute(NO_CHANGE)
    op.execute(UNKNOWN)
