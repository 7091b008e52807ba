"""The tables of release 0.2.0, the oldest that can be upgraded.

Nothing leads here: a store without tables gets the newest ones at once, from the declarations in ``tables.py``.
"""

from __future__ import annotations

revision = "0008"
down_revision = None


def upgrade() -> None:
    """A store of 0.2.0 has these tables already."""
