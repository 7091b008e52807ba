"""Slurm's topology as facts: the answer of ``scontrol -o show topology``, of a tree or of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from freetrain.core.node import Nodes
from freetrain.core.topology import Topology
from freetrain.slurm.parsing import expand_nodes

_FIELD = re.compile(r"(\w+)=(\S*)")
_NAMES = ("SwitchName", "BlockName", "AggregatedBlock")


@dataclass(frozen=True, slots=True)
class _Switch:
    """A line: what it names, how high that stands, and the nodes below it."""

    name: str
    height: int
    nodes: Nodes


def parse_topology(text: str) -> tuple[Topology, list[str]]:
    """The switches, and the lines that were not understood. A site without a topology has a flat one.

    Slurm lists every node with all switches above it: it is connected to the lowest of them, and a switch is
    below the lowest of the higher ones that have all its nodes.
    """
    by_name: dict[str, _Switch] = {}
    rejected: list[str] = []
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if not fields.keys().isdisjoint(_NAMES):
            try:
                switch = _switch(fields)
                if by_name.setdefault(switch.name, switch) != switch:
                    raise ValueError("it is named twice")
            except (ValueError, KeyError) as error:
                rejected.append(f"switch {line[:60]!r}: {error}")
    switches = sorted(by_name.values(), key=lambda switch: (switch.height, switch.name))
    leaves = {node: switch.name for switch in reversed(switches) for node in switch.nodes}
    return Topology(leaves, dict(_parents(switches))), rejected


def _switch(fields: Mapping[str, str]) -> _Switch:
    """A switch has a level; a block, and blocks taken together, are as high as they are large."""
    name = next(fields[kind] for kind in _NAMES if kind in fields)
    height = int(fields["Level"] if "SwitchName" in fields else fields["BlockSize"])
    return _Switch(name, height, expand_nodes(fields["Nodes"]))


def _parents(switches: list[_Switch]) -> Iterator[tuple[str, str]]:
    for number, one in enumerate(switches):
        above = (it for it in switches[number + 1 :] if it.height > one.height and it.nodes >= one.nodes)
        if (parent := next(above, None)) is not None:
            yield one.name, parent.name
