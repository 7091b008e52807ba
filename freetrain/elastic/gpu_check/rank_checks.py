"""Checks of several ranks, which are processes that come, go, are killed and hang."""

from __future__ import annotations

import torch

from freetrain.elastic.gpu_check.outcomes import NotPossibleError
from freetrain.elastic.gpu_check.ranks import Ranks


def two_ranks_on_one_device(device: torch.device) -> str:
    """Whether a GPU can have more than one worker."""
    with Ranks(device, same_device=True) as ranks:
        ranks.start(2)
        if ranks.await_world(2):
            return "two ranks train on one device"
        if ranks.said("Duplicate GPU"):
            raise NotPossibleError("NCCL refuses two ranks on one device, so that a GPU can have one worker only")
        raise AssertionError(f"two ranks on one device do not train: {ranks.last_words()}")


def _several(device: torch.device) -> None:
    if device.type == "cuda" and torch.cuda.device_count() < 2:
        raise NotPossibleError("needs two devices")


def joins_and_leaves(device: torch.device) -> str:
    """A second rank comes and goes, and is killed."""
    _several(device)
    with Ranks(device) as ranks:
        ranks.start(1)
        ranks.require_world(1, "no world of one")
        ranks.start(1)
        ranks.require_world(2, "no world of two")
        ranks.leave(1)
        ranks.require_world(1, "it did not leave")
        ranks.start(1)
        ranks.require_world(2, "no world of two again")
        ranks.kill(2)
        ranks.require_world(1, "nobody goes on after a loss")
        pauses = ", ".join(f"{pause_s:.2f}" for pause_s in ranks.pauses_s())
        return f"pauses of {pauses} s: join, leave, join, kill -9"


def hung_peer(device: torch.device) -> str:
    """A rank that is stopped in the middle of a sum is given up, and the other one gets out of it."""
    _several(device)
    with Ranks(device) as ranks:
        ranks.start(2)
        ranks.require_world(2, "no world of two")
        ranks.stop(1)
        ranks.require_world(1, "the other one hangs")
        return f"out of it, and on in {ranks.pauses_s()[-1]:.1f} s"
