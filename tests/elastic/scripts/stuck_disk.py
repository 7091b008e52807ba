"""The counting training with a disk that takes no checkpoint while the file ``stuck`` is in OUT.

While it holds one back, the file ``held`` is there.
"""

from __future__ import annotations

import os
import runpy
import time
from pathlib import Path

from freetrain.elastic.on_disk import files
from freetrain.elastic.training import checkpoints


def create(draft):
    stream = files.create_private(draft)
    while Path(os.environ["OUT"], "stuck").exists():
        Path(os.environ["OUT"], "held").touch()
        time.sleep(0.01)
    return stream


checkpoints.create_private = create
runpy.run_path(str(Path(__file__).with_name("counting.py")), run_name="__main__")
