"""Questions that only Slurm's commands answer, whichever door the others go through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm import queries
from freetrain.slurm.asking import TaskSpec, parse_requests
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.parsing import parse_preemptions
from freetrain.slurm.settings import Rights, parse_rights


class Questions(ABC):
    """A part of every :class:`freetrain.slurm.gateway.Gateway`."""

    _calls = 0

    @property
    def calls(self) -> int:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        return self._calls

    @abstractmethod
    def perform(self, command: Command, stdin: str = "") -> str:
        """See :class:`freetrain.slurm.gateway.Gateway`."""

    def task_requests(self, queue: FragmentQueue, default_memory_mb: int) -> Mapping[str, TaskSpec]:
        """See :class:`freetrain.slurm.gateway.Gateway`: two questions."""
        asked = self.perform(queries.ask_needs(queue))
        return parse_requests(asked, self.perform(queries.ask_excluded_nodes(queue)), default_memory_mb)

    def preempted_at(self, jobs: Sequence[str]) -> Mapping[str, float]:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        try:
            return parse_preemptions(self.perform(queries.ask_preemptions(*jobs))) if jobs else {}
        except SlurmRefusedError:  # it knows none of them any more
            return {}

    def rights(self, user: str) -> Rights | None:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        try:
            return parse_rights(self.perform(queries.ask_rights(user)))
        except SlurmRefusedError:
            return None
