"""The list of the checks, in the order in which they are run; each has a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from freetrain.elastic.gpu_check.device_checks import copies, health, state_copy
from freetrain.elastic.gpu_check.rank_checks import hung_peer, joins_and_leaves, two_ranks_on_one_device
from freetrain.elastic.gpu_check.training_checks import compiled, mixed_precision, one_rank
from freetrain.elastic.gpu_check.world_checks import abort, memory


@dataclass(frozen=True, slots=True)
class Check:
    """One of the checks.

    Attributes:
        run: on a device; returns a line of figures. Raises NotPossibleError with the reason where it cannot be
            tried here, and AssertionError, or whatever it does, if it goes wrong.
        limit_s: after which it counts as hung.
    """

    run: Callable[[torch.device], str]
    limit_s: float = 60.0


CHECKS = {
    "health": Check(health),
    "copies on streams": Check(copies),
    "copies of the state": Check(state_copy),
    "one rank": Check(one_rank),
    "mixed precision": Check(mixed_precision),
    "compile": Check(compiled, 120.0),
    "memory of worlds": Check(memory, 90.0),
    "abort": Check(abort),
    "two ranks on one device": Check(two_ranks_on_one_device, 90.0),
    "join, leave, kill": Check(joins_and_leaves, 150.0),
    "a rank that hangs": Check(hung_peer, 90.0),
}
