"""Sections and values of the settings: the base of all tables of the file, and the types of values."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from freetrain.core import bounds
from freetrain.durations import parse_duration
from freetrain.slurm.node_groups import read_node_list
from freetrain.slurm.parsing import expand_nodes, fold_nodes, parse_amount


class SettingsTogetherError(ValueError):
    """Settings of one table that exclude each other; ``mend`` is the line of the table that mends it."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what)
        self.mend = mend


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def setting(default: Any, means: str, **bounds_: Any) -> Any:
    """A field of a section: its default, its meaning for the documents, and bounds narrower than its type's."""
    return Field(default, description=means, **bounds_)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Networks:
    """Networks, as the addresses that lie in them."""

    each: tuple[Network, ...]

    def __contains__(self, address: object) -> bool:
        """Whether an address, as text, lies in one of them; an IPv4 address within IPv6 is that IPv4 address."""
        try:
            found = ipaddress.ip_address(str(address).partition("%")[0])
        except ValueError:
            return False
        inner = getattr(found, "ipv4_mapped", None) or found
        return any(inner in network for network in self.each)


def parse_networks(text: str) -> Networks:
    """Addresses and networks, separated by commas; an empty text is none, in which no address lies.

    Raises:
        ValueError: one of them is none; the sentence says how they are written.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return Networks(tuple(map(ipaddress.ip_network, words)))
    except ValueError as error:
        raise ValueError(f"{error}; write addresses and networks as 127.0.0.0/8,::1,10.1.0.0/16") from error


def _seconds(given: object) -> object:
    return parse_duration(given) if isinstance(given, str) else given


Duration = Annotated[float, bounds.SECONDS.field, BeforeValidator(_seconds)]
"""Seconds; in the file a number, or a duration as Slurm writes it."""

Period = Annotated[float, Field(ge=1, le=bounds.SECONDS.most), BeforeValidator(_seconds)]
"""A duration of a second at least."""


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number, not below 0."""


def _node_list(given: str) -> str:
    nodes = read_node_list(given)
    is_plain = "@" not in given and expand_nodes(given) == nodes
    return given if is_plain else fold_nodes(nodes)


NodeList = Annotated[str, AfterValidator(_node_list)]
"""Nodes as Slurm writes them; groups in the file are read with it, and again at a reload."""


def _read_by(parse: Callable[[str], object]) -> AfterValidator:
    def check(given: str) -> str:
        parse(given)
        return given

    return AfterValidator(check)


AmountText = Annotated[str, _read_by(parse_amount)]
"""CPUs, memory and generic resources as Slurm writes them."""


@dataclass(frozen=True, slots=True)
class PathMark:
    """Marks a setting that is a path."""


AbsolutePath = Annotated[str, PathMark()]
"""A path; that it is not absolute, nor the default, is an error of 'freetrain config check'."""


def _address(given: str) -> str:
    host, _, port = given.rpartition(":")
    if given and not (host and port.isdecimal() and int(port) < 65536):
        raise ValueError("write an address and a port, as 127.0.0.1:9810")
    return given


Address = Annotated[str, AfterValidator(_address)]
"""An address of this machine and a port."""


NetworkList = Annotated[str, _read_by(parse_networks)]
"""Addresses and networks, separated by commas."""


def _words(given: str) -> str:
    shlex.split(given)
    return given.strip()


CommandWords = Annotated[str, AfterValidator(_words)]
"""A command with its arguments, as a shell would split it."""
