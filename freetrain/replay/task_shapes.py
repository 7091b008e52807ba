"""What the tasks of each trainer ask for of nodes that a replay lends in parts."""

from __future__ import annotations

from collections.abc import Iterable

from freetrain.core.amounts import GPU, Amount
from freetrain.core.trainer import Trainer
from freetrain.slurm.parsing import parse_amount


def read_task(text: str) -> Amount:
    """What a task asks for, as ``gres/gpu=1,cpu=4,mem=16G``; one CPU at least.

    Raises:
        ValueError: it asks for nothing that a log tells of.
    """
    each = parse_amount(text)
    if {name for name, _ in each.gres} - {GPU}:
        raise ValueError("a log tells of GPUs alone, of any type: write gres/gpu=1")
    return Amount(max(each.cpus, 1), each.memory_mb, each.gres)


def with_own_tasks(trainers: Iterable[Trainer]) -> tuple[Trainer, ...]:
    """Those of a file that say what their tasks ask for; an endless queue has none."""
    return tuple(one for one in trainers if one.task) if isinstance(trainers, tuple) else ()


class TaskShapes:
    """How much of a node a task of each trainer takes.

    Args:
        usual: a task of whoever does not say it; by it all others are counted.
        says_memory: whether the log tells of memory; where it does not, nobody asks for any.
    """

    def __init__(self, usual: Amount, says_memory: bool) -> None:
        self._says_memory = says_memory
        self._usual = self._shape(usual)

    def of(self, trainer: Trainer) -> Amount:
        """What one of its tasks takes."""
        return self._shape(read_task(trainer.task)) if trainer.task else self._usual

    def counts_as(self, trainer: Trainer) -> float:
        """As how many of the usual tasks one of its own counts: by GPUs where those ask for any, else by CPUs."""
        own, usual = self.of(trainer), self._usual
        return own.gpus / usual.gpus if usual.gpus else own.cpus / usual.cpus

    def _shape(self, each: Amount) -> Amount:
        return Amount(max(each.cpus, 1), each.memory_mb if self._says_memory else 0, each.gres)
