"""What the user can choose of an agent, in either mode, and how an agent ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

END_TIMEOUT_S = 20.0
"""How long workers may take to end, if nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the user can choose.

    Attributes:
        command: the training script with its arguments.
        nproc: workers on this node.
        max_restarts: failed workers to replace before giving up.
        end_timeout_s: how long workers may take to end before they are killed: to the next step boundary (the
            others then redo that step without them), or in restart mode to save.
        logs: folder for a file with each worker's output; None: all goes where the agent's goes.
        servers: how many should add up the workers' gradients, on all nodes of the trainer together; None: as many
            as freetrain says, on the nodes that it names.
    """

    command: Sequence[str]
    nproc: int
    max_restarts: int = 3
    end_timeout_s: float = END_TIMEOUT_S
    servers: int | None = 0
    logs: Path | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How an agent ended: exit status and the reason in words."""

    status: int
    reason: str
