"""Files that others read: each is there as a whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, permissions: int) -> None:
    """Write a file such that nobody ever sees a part of it, with these permissions whatever the umask.

    Raises:
        OSError: it cannot be written.
    """
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        os.fchmod(file.fileno(), permissions)
        file.write(content)
    new.replace(path)
