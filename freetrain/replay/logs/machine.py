"""The machine behind a log: pools of nodes, from a TOML file, a node count or a log's header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from freetrain.core.topology import Topology
from freetrain.errors import InputError
from freetrain.policies import Links
from freetrain.replay.logs.nodelists import MAX_NODES, NodeListError, expand
from freetrain.replay.logs.toml_files import read_entry

_Count = Annotated[StrictInt, Field(ge=1, le=MAX_NODES)]
_NodeNames = Annotated[StrictStr, Field(min_length=1)]
_Gbit = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_GIB = 2.0**30
_SEE = "See etc/machine.example.toml and docs/reference/logs.md."


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that are alike, at the positions ``begin`` to ``end`` (excluded) of the machine.

    Attributes:
        memory_bytes: memory of each node that jobs can have; 0: unknown.
        partitions: partitions whose jobs run on it; empty for all.
        shared: whether jobs share nodes and take cores; otherwise they take whole nodes.
        nodes_per_leaf: number of its nodes, one after the other, that each leaf switch connects; 0: unknown.
    """

    name: str
    begin: int
    end: int
    cores: int
    gpus: int = 0
    partitions: tuple[str, ...] = ()
    shared: bool = False
    nodes_per_leaf: int = 0
    memory_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class LoggedMachine:
    """The nodes of a machine.

    Attributes:
        node_names: its nodes, pool after pool.
        named: whether the nodes' names are the machine's own, not made up.
        node_gbit: capacity of the link between a node and its switch, Gbit/s each way; 0: unknown.
        uplink_gbit: capacity of all links together from a leaf switch to the others; likewise.
    """

    name: str
    node_names: tuple[str, ...]
    pools: tuple[Pool, ...]
    named: bool = False
    node_gbit: float = 0.0
    uplink_gbit: float = 0.0

    @property
    def pool_of(self) -> dict[str, Pool]:
        """Node → its pool."""
        return {name: pool for pool in self.pools for name in self.node_names[pool.begin : pool.end]}

    @property
    def kind_of(self) -> dict[str, str]:
        """Node → its kind, which is its pool."""
        return {name: pool.name for name, pool in self.pool_of.items()}

    def pools_of(self, partition: str) -> tuple[Pool, ...]:
        """Pools that a partition's jobs may run on: those that list it, else those for all."""
        listed = tuple(pool for pool in self.pools if partition in pool.partitions)
        return listed or tuple(pool for pool in self.pools if not pool.partitions)

    def topology(self, node_names: Sequence[str]) -> Topology:
        """The switches: leaves of as many nodes as the pools say, a switch for each pool, and one for all.

        Where a log names other nodes than the machine, their order counts.
        """
        names = self.node_names if set(self.node_names).issuperset(node_names) else node_names
        leaves = {
            name: f"{pool.name}/leaf{number // pool.nodes_per_leaf + 1}"
            for pool in self.pools
            if pool.nodes_per_leaf
            for number, name in enumerate(names[pool.begin : pool.end])
        }
        # A slash at the end: no name of a leaf, nor of a node, ends so.
        pools = {leaf.rpartition("/")[0] + "/" for leaf in leaves.values()}
        above = {leaf: leaf.rpartition("/")[0] + "/" for leaf in leaves.values()}
        return Topology(leaves, above | dict.fromkeys(pools, "/"))

    def links(self, node_names: Sequence[str]) -> Links:
        """Links between these nodes: what they carry, and the switches that they connect."""
        return Links.of_gbit(self.node_gbit, self.uplink_gbit, self.topology(node_names))


class _PoolEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: _NodeNames
    nodes: _Count | _NodeNames
    cores: _Count = 1
    gpus: Annotated[StrictInt, Field(ge=0)] = 0
    partitions: tuple[_NodeNames, ...] = ()
    shared: StrictBool = False
    nodes_per_leaf: Annotated[StrictInt, Field(ge=0)] = 0
    memory_gib: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class _LinksEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    node_gbit: _Gbit = 0.0
    uplink_gbit: _Gbit = 0.0


class _MachineEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: _NodeNames
    links: _LinksEntry = _LinksEntry()
    pools: Annotated[tuple[_PoolEntry, ...], Field(min_length=1)]


def uniform_machine(name: str, nodes: int, cores: int = 1) -> LoggedMachine:
    """A machine of one pool of made-up nodes that jobs have for themselves."""
    return LoggedMachine(name, tuple(made_up("node", nodes)), (Pool("all", 0, nodes, cores),))


def made_up(prefix: str, count: int) -> list[str]:
    """Names such as node001 … node128."""
    width = len(str(count))
    return [f"{prefix}{number:0{width}d}" for number in range(1, count + 1)]


def read_machine(path: Path) -> LoggedMachine:
    """Read a machine file.

    Raises:
        InputError: if it cannot be read or describes no machine; the sentence names the field.
    """
    entry = read_entry(_MachineEntry, path, "machine file", _SEE)
    names, seen, pools = list[str](), set[str](), list[Pool]()
    for number, pool in enumerate(entry.pools):
        try:
            own = made_up(pool.name, pool.nodes) if isinstance(pool.nodes, int) else expand(pool.nodes)
        except NodeListError as error:
            raise InputError(f"The machine file {path} is wrong: pools[{number}].nodes: {error}.", _SEE) from None
        if twin := next((name for name in own if name in seen), ""):
            raise InputError(f"The machine file {path} is wrong: node {twin!r} is in two pools.", _SEE)
        seen.update(own)
        begin = len(names)
        names += own
        if len(names) > MAX_NODES:
            raise InputError(f"The machine file {path} is wrong: it has more than {MAX_NODES:,} nodes.", _SEE)
        as_written = pool.model_dump(exclude={"nodes", "memory_gib"})
        pools.append(Pool(begin=begin, end=len(names), memory_bytes=pool.memory_gib * _GIB, **as_written))
    named = all(isinstance(pool.nodes, str) for pool in entry.pools)
    return LoggedMachine(
        entry.name, tuple(names), tuple(pools), named, entry.links.node_gbit, entry.links.uplink_gbit
    )


_UNKNOWN = Pool("", 0, 0, 0)


NodeSizes = Mapping[str, NDArray[np.float64]]
"""``cpus``, ``memory_bytes`` and ``gpus`` of each node, shape (nodes,); nan: unknown."""


def node_sizes(machine: LoggedMachine | None, node_names: tuple[str, ...]) -> NodeSizes:
    """The sizes of a log's nodes, by their names; of a machine of one pool all are alike, whatever their names.

    A pool with one core or without GPUs is one of which these were left out: the file cannot tell the two apart.
    """
    pool_of = machine.pool_of if machine else {}
    # Logs may name nodes differently from the file; with one pool that does not matter.
    otherwise = machine.pools[0] if machine and len(machine.pools) == 1 else _UNKNOWN
    found = [pool_of.get(name, otherwise) for name in node_names]
    return {
        "cpus": np.array([pool.cores if pool.cores > 1 else np.nan for pool in found], np.float64),
        "memory_bytes": np.array([pool.memory_bytes or np.nan for pool in found], np.float64),
        "gpus": np.array([pool.gpus or np.nan for pool in found], np.float64),
    }
