"""Lists of nodes in the arguments and options of commands."""

from __future__ import annotations

from freetrain.core.node import Nodes
from freetrain.errors import InputError
from freetrain.slurm.node_groups import expand_with_groups

_FORMS = "Write nodes as c[01-04,17], or a group of ClusterShell's as @group."


def read_nodes(text: str) -> Nodes:
    """The nodes of a list; never none.

    Raises:
        InputError: it is no list of nodes, or names none.
    """
    try:
        names = expand_with_groups(text)
    except ValueError as error:
        what = str(error)
        raise InputError(f"{what[0].upper()}{what[1:]}.", _FORMS) from error
    if not names:
        raise InputError(f"{text!r} names no node.", _FORMS)
    return names
