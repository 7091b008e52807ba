"""On which nodes servers run: each agent decides for its own, purely, by what all of them see in the directory."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from freetrain.elastic.on_disk.members import Member
from freetrain.elastic.on_disk.next_generation import View

MOVES_BEFORE_S = 120.0
"""So long before the end of its node a server moves: to boot another one takes seconds, or a minute."""


class Hosting(Enum):
    """What an agent is to do about a server of its own."""

    RUN = "run one"
    KEEP = "keep the one that it has"
    END = "have none"


class _Claim(NamedTuple):
    """Why a server ought to run on a node rather than on others: the least comes first."""

    ends_soon: bool
    has_none: bool
    minus_ends_s: float
    joined_s: float
    agent: str


def hosting(view: View, agent: str, servers: int, now_s: float, nodes: Collection[str] | None = None) -> Hosting:
    """Whether this agent is to run a server.

    Servers run on the nodes that freetrain named. Where they are the agents' own affair they run on the nodes that
    are expected to stay longest, and stay where they are until the end of their node is near. One that moves goes
    on until the one in its place is in a world.

    Args:
        view: the trainer's directory.
        agent: who asks.
        servers: how many there should be at most.
        now_s: epoch seconds.
        nodes: those that freetrain named; None: the agents choose.
    """
    hosts = _hosts(view, servers, now_s, nodes)
    if agent in hosts:
        return Hosting.RUN
    if not servers:
        return Hosting.END
    present = set(view.servers) & set(view.everyone)
    with_one = {view.members[id_].agent for id_ in present}
    return Hosting.END if hosts and set(hosts) <= with_one else Hosting.KEEP


def _hosts(view: View, servers: int, now_s: float, nodes: Collection[str] | None) -> Sequence[str]:
    """The agents that ought to run one each, of those whose workers are there and stay."""
    out = {*view.leaving, *view.refused}
    stay = [view.members[id_] for id_ in view.present if id_ not in out and view.members[id_].agent]
    with_one = {member.agent for member in stay if member.is_server}
    claims: dict[str, _Claim] = {}
    for member in stay:
        if not member.is_server and (nodes is None or member.node in nodes):
            claim = _claim(member, member.agent in with_one, now_s)
            claims[member.agent] = min(claim, claims.get(member.agent, claim))
    return [claim.agent for claim in sorted(claims.values())[:servers]]


def _claim(member: Member, has_one: bool, now_s: float) -> _Claim:
    ends_s = member.ends_s or math.inf
    return _Claim(ends_s - now_s < MOVES_BEFORE_S, not has_one, -ends_s, member.joined_s, member.agent)
