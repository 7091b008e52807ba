"""SIGTERM for scripts that freetrain starts anew, told to all of their ranks at the same step."""

from __future__ import annotations

import signal

import torch
import torch.distributed as dist

from freetrain.elastic.worlds.device import device


class StopSignal:
    """Whether the script has to save and end: a signal came to one of its ranks.

    The ranks get it within different steps. All of them ask :attr:`is_due` at the same place of each step, and
    hear the same: they save together, and nobody waits for a rank that has gone.

    Args:
        number: of the signal.
    """

    def __init__(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._came = False
        signal.signal(number, self._note)

    @property
    def is_due(self) -> bool:
        """Whether it came to any rank; a small sum over all of them."""
        if not dist.is_initialized():
            return self._came
        place = torch.device("cpu") if "gloo" in str(dist.get_backend()) else device()
        came = torch.tensor([float(self._came)], device=place)
        dist.all_reduce(came)
        return bool(came > 0)

    def _note(self, *_: object) -> None:
        self._came = True
