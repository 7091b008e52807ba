"""What an account may do with a file, as its owner, group and mode say."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

WRITE, ENTER = 0o2, 0o1


def may(wanted: int, file: os.stat_result, user: int, groups: Collection[int]) -> bool:
    """Whether somebody may do this with a file.

    Args:
        wanted: ``WRITE`` or ``ENTER``, or both.
        file: what is known of it.
        user: their number.
        groups: the numbers of their groups.
    """
    if user == 0:
        return True
    if user == file.st_uid:
        return file.st_mode & wanted << 6 == wanted << 6
    if file.st_gid in groups:
        return file.st_mode & wanted << 3 == wanted << 3
    return file.st_mode & wanted == wanted


def has_access_list(path: Path) -> bool:
    """Whether an access list says more than owner, group and mode do."""
    return "system.posix_acl_access" in os.listxattr(path)
