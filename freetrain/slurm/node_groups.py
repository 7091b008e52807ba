"""Lists of nodes as people write them: as Slurm does, and with groups of the site's ClusterShell as ``@group``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ClusterShell.NodeSet import NodeSet, NodeSetException
from ClusterShell.NodeUtils import (
    GroupResolverConfig,
    GroupResolverError,
    GroupResolverSourceError,
    GroupSourceError,
    GroupSourceQueryFailed,
)

from freetrain.core.node import Nodes
from freetrain.slurm.parsing.node_lists import expand_nodes, require_countable

_SITES = "/etc/clustershell"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# ``c1-c4`` would be the name of one node: nodes that are never to be lent would be lent.
_BARE_RANGE = re.compile(r"([A-Za-z][A-Za-z_.-]*)(\d+)-\1(\d+)")
_FORM = "write nodes as c[01-04,17], with commas between"


def read_node_list(text: str) -> Nodes:
    """The nodes of a list such as ``c[01-16,20],@rack2``, which people or programs of the site have written.

    Raises:
        ValueError: it is no list of nodes, or names a group that does not exist.
    """
    text = text.strip()
    nodes = expand_nodes(text) if "@" not in text else _with_groups(text)
    for name in nodes:
        if not _NAME.fullmatch(name):
            raise ValueError(f"no list of nodes: {name[:60]!r} is not the name of a node; {_FORM}")
        if span := _BARE_RANGE.fullmatch(name):
            raise ValueError(
                f"no list of nodes: {name[:60]!r} has no brackets; write {span[1]}[{span[2]}-{span[3]}]"
            )
    return nodes


def _with_groups(text: str) -> Nodes:
    require_countable(text)
    try:
        return frozenset(NodeSet(text, resolver=_SitesGroups()))
    except NodeSetException as error:
        raise ValueError(f"no list of nodes: {text[:60]!r}") from error
    except (GroupResolverError, GroupSourceError) as error:
        raise ValueError(f"the groups of nodes in {text[:60]!r} cannot be read: {error}") from error


class _SitesGroups(GroupResolverConfig):  # type: ignore[misc]
    """The site's node groups, without the examples that ClusterShell installs into a virtual environment."""

    def __init__(self) -> None:
        directories = (_SITES, os.environ.get("CLUSTERSHELL_CFGDIR"))
        super().__init__([str(Path(directory) / "groups.conf") for directory in directories if directory])

    def group_nodes(self, group: str, namespace: str | None = None) -> list[str]:
        """The nodes of a group; ClusterShell takes one that does not exist for one without nodes."""
        try:
            nodes: list[str] = super().group_nodes(group, namespace)
        except (GroupResolverSourceError, GroupSourceQueryFailed):
            nodes = []
        if not any(nodes):
            name = f"{namespace}:{group}" if namespace else group
            raise ValueError(
                f"there is no group of nodes @{name}, or nothing in it; 'nodeset -l' lists ClusterShell's groups "
                f"({_SITES}/groups.conf, or that of $CLUSTERSHELL_CFGDIR)"
            )
        return nodes
