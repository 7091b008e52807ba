"""Links: what those between nodes and switches carry, as far as a site says, and policies that reserve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

from freetrain.core.problem import Question
from freetrain.core.topology import FLAT, Topology
from freetrain.policies.stages import Placer, Policy

_BYTES_OF_A_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True)
class Links:
    """What the links carry, each way.

    Attributes:
        link_bytes_per_s: of a node's link to its switch; infinite: nobody says.
        uplink_bytes_per_s: of a leaf switch's links to the others, all together; likewise.
        topology: the switches.
    """

    link_bytes_per_s: float = inf
    uplink_bytes_per_s: float = inf
    topology: Topology = FLAT

    @classmethod
    def of_gbit(cls, node_gbit: float, uplink_gbit: float, topology: Topology) -> Links:
        """Of so many Gbit/s; 0: nobody says."""
        return cls(node_gbit * _BYTES_OF_A_GBIT or inf, uplink_gbit * _BYTES_OF_A_GBIT or inf, topology)

    @property
    def are_known(self) -> bool:
        """Whether anything can be reserved."""
        return min(self.link_bytes_per_s, self.uplink_bytes_per_s) < inf


UNKNOWN_LINKS = Links()


def in_gbit(bytes_per_s: float) -> str:
    """As Gbit/s for people."""
    return f"{bytes_per_s / _BYTES_OF_A_GBIT:.3g}"


class Reserving(Policy, Placer, Protocol):
    """Decides the nodes with their number, since bandwidth is reserved on the links of just these."""


@runtime_checkable
class CanReserve(Protocol):
    """A policy that can reserve bandwidth."""

    def reserving(self, links: Links, questions: Sequence[Question]) -> Reserving:
        """The same policy with bandwidth reserved, for one look.

        Args:
            links: what they carry.
            questions: all that is decided in this look; the trainers of one may share links with those of another.
        """


def with_links(
    policy: Policy, placer: Placer, links: Links, questions: Sequence[Question]
) -> tuple[Policy, Placer]:
    """Who decides how many nodes, and who which: one that reserves bandwidth does both."""
    if not links.are_known or not isinstance(policy, CanReserve):
        return policy, placer
    both = policy.reserving(links, questions)
    return both, both
