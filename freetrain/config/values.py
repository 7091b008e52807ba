"""The kinds of values that settings have, each checked where it is read."""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from freetrain.config.networks import parse_networks
from freetrain.core import bounds
from freetrain.durations import parse_duration
from freetrain.slurm.node_groups import expand_with_groups
from freetrain.slurm.parsing import expand_nodes, fold_nodes, parse_amount


def _seconds(given: object) -> object:
    return parse_duration(given) if isinstance(given, str) else given


Duration = Annotated[float, bounds.SECONDS.field, BeforeValidator(_seconds)]
"""Seconds; in the file a number, or a duration as Slurm writes it."""

Period = Annotated[float, Field(ge=1, le=bounds.SECONDS.most), BeforeValidator(_seconds)]
"""A duration of a second at least."""


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A number of something."""


def _node_list(given: str) -> str:
    nodes = expand_with_groups(given)
    is_plain = "@" not in given and expand_nodes(given) == nodes
    return given if is_plain else fold_nodes(nodes)


NodeList = Annotated[str, AfterValidator(_node_list)]
"""Nodes as Slurm writes them; groups in the file are read with it, and again at a reload."""


def _amount(given: str) -> str:
    parse_amount(given)
    return given


AmountText = Annotated[str, AfterValidator(_amount)]
"""CPUs, memory and generic resources as Slurm writes them."""


def _address(given: str) -> str:
    host, _, port = given.rpartition(":")
    if given and not (host and port.isdecimal() and int(port) < 65536):
        raise ValueError("write an address and a port, as 127.0.0.1:9810")
    return given


Address = Annotated[str, AfterValidator(_address)]
"""An address of this machine and a port."""


def _networks(given: str) -> str:
    parse_networks(given)
    return given


NetworkList = Annotated[str, AfterValidator(_networks)]
"""Addresses and networks, separated by commas."""


def _words(given: str) -> str:
    shlex.split(given)
    return given.strip()


Words = Annotated[str, AfterValidator(_words)]
"""A command with its arguments, as a shell would split it."""
