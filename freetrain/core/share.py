"""Shares of nodes: so many CPUs, so much memory, so many GPUs. Frozen facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from freetrain.core.cluster import Gres


@dataclass(frozen=True, slots=True)
class Share:
    """What a node has, or what a job asks for or holds. None: nobody knows, which is not the same as nothing.

    Attributes:
        cpus: CPUs, threads counted.
        memory_bytes: memory.
        gpus: GPUs, instances of MIG and shards of GPUs, by the names that Slurm has for them (``gpu``,
            ``gpu:a100``, ``gpu:1g.5gb``, ``shard``), and how many; sorted.
    """

    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: Gres | None = None


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A node as shares.

    Attributes:
        configured: what jobs may have of it all together.
        allocated: what they hold now.
    """

    configured: Share
    allocated: Share


@dataclass(frozen=True, slots=True)
class JobShare:
    """A job as shares.

    Attributes:
        asked: what it asks for, on all its nodes together; of a job that runs Slurm may not say it any more.
        held: what it holds, on all its nodes together; unknown while it has none.
        held_by_node: what it holds of each node, as far as Slurm says.
    """

    asked: Share = field(default_factory=Share)
    held: Share = field(default_factory=Share)
    held_by_node: Mapping[str, Share] = field(default_factory=dict)
