"""Facts as Slurm's words make them."""

from __future__ import annotations

from typing import Any

from freetrain.core.node import Node
from freetrain.slurm.states import facts_of_state


def node(name: str, state: str = "IDLE", **facts: Any) -> Node:
    """A node of which Slurm says ``state``, as ``IDLE+DRAIN``."""
    return Node(name=name, **facts_of_state(state), **facts)
