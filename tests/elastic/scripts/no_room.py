"""The counting training in a directory that has no room while the file ``full`` is in OUT.

FULL says for what: ``records`` (members, worlds, signs of life) or ``checkpoints``.
"""

from __future__ import annotations

import errno
import os
import runpy
from pathlib import Path

from freetrain.elastic.on_disk import directory, files
from freetrain.elastic.training import checkpoints

OUT = Path(os.environ["OUT"])


def unless_full(write):
    def write_if_there_is_room(*arguments):
        if (OUT / "full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*arguments)

    return write_if_there_is_room


if os.environ["FULL"] == "records":
    files.create_private = unless_full(files.create_private)
    directory.overwrite = unless_full(directory.overwrite)
else:
    checkpoints.create_private = unless_full(checkpoints.create_private)
runpy.run_path(str(Path(__file__).with_name("counting.py")), run_name="__main__")
