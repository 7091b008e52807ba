"""The training of counting.py, whose collectives behave as NCCL's do, over gloo: no GPU is needed.

- A wait that times out fails, and aborts all collectives of this rank that are under way.
- An aborted collective looks completed, without an error; its values are undefined.
"""

from __future__ import annotations

import sys
import weakref
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import counting

from freetrain.elastic.worlds import world
from freetrain.elastic.worlds.collectives import Collectives


class LikeNccl:
    def __init__(self, work, spare):
        self.work, self.spare = work, spare
        self.is_aborted = False
        UNDER_WAY.add(self)

    def is_completed(self):
        return self.is_aborted or self.work.is_completed()

    def wait(self, timeout=None):
        if timeout is not None and not self.is_completed():
            abort_all()
            raise RuntimeError("timed out in blocking wait")
        if not self.is_aborted:
            self.work.wait()


UNDER_WAY: weakref.WeakSet[LikeNccl] = weakref.WeakSet()


def abort_all(_groups=()):
    for collective in list(UNDER_WAY):
        if not collective.work.is_completed():
            collective.is_aborted = True
            if collective.spare is not None:
                collective.spare.fill_(float("nan"))


def start(self, begin, spare=None):
    return start_by_gloo(self, lambda: LikeNccl(begin(), spare), spare)


def ended(self):
    # Gloo's groups wait for what only looks completed.
    for collective in UNDER_WAY:
        collective.is_aborted = False
    return ended_by_gloo(self)


start_by_gloo, ended_by_gloo = Collectives.start, Collectives.ended
Collectives.start, Collectives.ended = start, ended
world.Collectives = lambda while_waiting, on_gpu: Collectives(while_waiting, on_gpu=True)
world.abort_nccl = abort_all


if __name__ == "__main__":
    sys.exit(counting.main())
