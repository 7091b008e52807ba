"""The systems that are measured: how each starts an agent on a node."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.elastic.scripts.restarted import SUMS_VARIABLE

ADOPTED = "benchmarks.elastic.scripts.adopted"
LIVING = "benchmarks.elastic.scripts.living"
RESTARTED = "benchmarks.elastic.scripts.restarted"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent is started.

    Attributes:
        folder: what the training's nodes share.
        port: free for the training's own use.
        first: whether this is the training's first agent.
    """

    folder: Path
    port: int
    first: bool


@dataclass(frozen=True, slots=True)
class System:
    """One way of running an elastic training.

    Attributes:
        name: for the tables.
        command: runs an agent there.
        first_holds_store: whether the store is with the first agent; else it is with rank 0.
        environment: what it needs besides.
    """

    name: str
    command: Callable[[Place], list[str]]
    first_holds_store: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


def _freetrain(place: Place, servers: int = 0) -> list[str]:
    agent = [sys.executable, "-m", "freetrain", "run", "--trainer", str(place.folder / "trainer"), "--nproc", "1"]
    # Servers are killed on purpose, each time one of the restarts.
    return [*agent, "--servers", str(servers), "--max-restarts", "100", "--", sys.executable, "-m", LIVING]


def served_by(servers: int) -> System:
    """Freetrain, with so many servers where there are as many nodes."""
    return System(f"freetrain, servers: {servers}", partial(_freetrain, servers=servers))


def _unchanged(place: Place, way: Sequence[str], script: str) -> list[str]:
    agent = [sys.executable, "-m", "freetrain", "run", "--trainer", str(place.folder / "trainer"), "--nproc", "1"]
    return [*agent, *way, "--", sys.executable, "-m", script]


_TUNED = "last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3"
"""torchrun's defaults (30 s, 5 s, 3 times) make every pause half a minute longer."""


def _torchrun(place: Place) -> list[str]:
    options = {
        "nnodes": "1:8",
        "nproc-per-node": "1",
        "rdzv-backend": "c10d",
        "rdzv-endpoint": f"127.0.0.1:{place.port}",
        "rdzv-id": "bench",
        "rdzv-conf": f"{_TUNED},is_host={str(place.first).lower()}",
        # Changes of membership use up restarts on some paths.
        "max-restarts": "1000",
        "monitor-interval": "0.1",
    }
    agent = [sys.executable, "-m", "torch.distributed.run"]
    return [*agent, *(f"--{name}={value}" for name, value in options.items()), "-m", RESTARTED]


FREETRAIN = System("freetrain", _freetrain)
RESTART = System("freetrain --restart", partial(_unchanged, way=("--restart",), script=RESTARTED))
ADOPT = System("freetrain --adopt", partial(_unchanged, way=("--adopt", "--ranks", "4"), script=ADOPTED))
TORCHRUN = System(
    "torchrun",
    _torchrun,
    first_holds_store=True,
    # Without it the workers' store is the agents', and a restart finds the keys of the world before.
    environment={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
)
TORCHRUN_AGREEING = replace(
    TORCHRUN, name="torchrun, one small sum", environment={**TORCHRUN.environment, SUMS_VARIABLE: "9"}
)
"""Whoever agrees on anything in each step adds up some numbers at least."""
