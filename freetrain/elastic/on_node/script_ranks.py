"""Adopted scripts on this node: which rank each of them is, and which is rank 0 next."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from freetrain.elastic.membership.identity import MAIN_VARIABLE
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_node.restart import torchrun_variables

_LOOK_EVERY_S = 1.0


class ScriptRanks:
    """The ranks of adopted scripts, which keep them as long as they live.

    One living script at most is rank 0: it prints and saves for all, as scripts do. When it ends, the next worker
    that starts is rank 0; where none is about to, one is started beside the oldest, which then leaves.

    Args:
        directory: the trainer's.
        ranks: for which the script is run.
        nproc: workers on this node.
    """

    def __init__(self, directory: TrainerDirectory, ranks: int, nproc: int) -> None:
        self._directory = directory
        self._ranks = ranks
        self._nproc = nproc
        self._started = 0
        self._due_s = 0.0

    def environment(self, name: str, index: int) -> Mapping[str, str]:
        """What torchrun would say to this worker, the script's rank and the number of ranks included."""
        is_main = self._directory.claim_main(name)
        self._started += 1
        rank = 0 if is_main else 1 + (self._started - 1) % (self._ranks - 1)
        facts = torchrun_variables(rank, self._ranks, index, self._nproc, self._directory.root.name)
        return {**facts, MAIN_VARIABLE: "1" if is_main else ""}

    def why_not_adopted(self) -> str | None:
        """Why the script has to be restarted instead; None as far as it is adopted."""
        return self._directory.why_not_adopted()

    def look(self, workers: Collection[str]) -> str | None:
        """A worker of this node's that has to be replaced by one that is rank 0; None: none has.

        The oldest one does it, so that one agent alone acts.
        """
        now_s = time.monotonic()
        if now_s < self._due_s:
            return None
        self._due_s = now_s + _LOOK_EVERY_S
        first = next(iter(self._directory.view().current), "")
        is_needed = not self._directory.finished_path.exists() and self._directory.has_lost_main()
        return first if first in workers and is_needed else None
