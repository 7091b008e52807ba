"""freetrain turns the idle node × time holes of a Slurm machine into deep-learning training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freetrain.client import Client

__all__ = ["Client"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """The client, imported when it is asked for: a training script needs ``freetrain.elastic`` alone."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from freetrain.client import Client

    return Client
