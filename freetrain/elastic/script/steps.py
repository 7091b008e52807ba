"""What a script iterates over, and the schedules that it has to carry along."""

from __future__ import annotations

import linecache
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from freetrain.errors import InputError

if TYPE_CHECKING:
    from freetrain.elastic.script.loop import Loop

log = logging.getLogger(__name__)

# How torch's schedules mark the step function of their optimizer, in newer and in older versions.
_SCHEDULED = ("_wrapped_by_lr_sched", "_with_counter")
# Far enough for a schedule within a wrapper, and an end where objects refer to each other in a circle.
_DEPTH = 4
_ZIP = re.compile(r"\bzip(_longest)?\(")


class Schedules:
    """The schedules of an optimizer's learning rates, of which the script may make some at any time."""

    def __init__(self, optimizer: torch.optim.Optimizer, also: Mapping[str, Any]) -> None:
        self._optimizer = optimizer
        self._also = also
        self._is_carried = False

    def check(self) -> None:
        """Whether one of them is carried along, if there are any; raises InputError if there are, but none is."""
        if self._is_carried or not any(hasattr(self._optimizer.step, mark) for mark in _SCHEDULED):
            return
        self._is_carried = _mentions(self._also, self._optimizer, _DEPTH)
        if not self._is_carried:
            raise InputError(
                "the optimizer has a learning rate schedule that is not in also={...}: newcomers and resumed "
                "trainings would begin it again from its start.",
                'Say also={"schedule": schedule}, or run.carry(schedule=schedule) before the first step.',
            )


def _mentions(item: Any, optimizer: torch.optim.Optimizer, depth: int) -> bool:
    """Whether the item is a schedule of this optimizer, or contains one."""
    if getattr(item, "optimizer", None) is optimizer:
        return True
    if depth == 0:
        return False
    if isinstance(item, Mapping):
        parts = list(item.values())
    elif isinstance(item, list | tuple):
        parts = list(item)
    else:
        parts = list(getattr(item, "__dict__", {}).values())
    return any(_mentions(part, optimizer, depth - 1) for part in parts)


class Batches:
    """This rank's part of each batch of the epoch; what is left of it where this worker joined in its middle."""

    def __init__(self, loop: Loop, dataset: Any) -> None:
        self.dataset = dataset
        self._loop = loop
        self._has_warned = False

    def __len__(self) -> int:
        """Batches of the epoch."""
        return self._loop.batches_per_epoch()

    def __iter__(self) -> Iterator[Any]:
        """Batch by batch."""
        self._look_for_zip()
        for _, batch in self.numbered():
            yield batch

    def _look_for_zip(self) -> None:
        """Whether the script reads something else beside it, of which each rank would read all."""
        # Two frames up: the generator of __iter__, then the one that iterates.
        caller = sys._getframe(2)
        line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
        if not self._has_warned and _ZIP.search(line):
            self._has_warned = True
            log.warning(
                "%s:%d zips run.batches with something else, which is not divided among the ranks: each reads all "
                "of it. Give several loaders as one: elastic.Loop(model, optimizer, [loader, other]).",
                caller.f_code.co_filename,
                caller.f_lineno,
            )

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Batches with numbers, in place of ``enumerate``: the same on all ranks, also in a repeated step."""
        while (taken := self._loop.take()) is not None:
            yield taken
