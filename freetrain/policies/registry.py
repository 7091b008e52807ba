"""Policies, placers and finishers by name: freetrain's own, and those of packages that are installed beside it."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from freetrain.core.topology import FLAT, Topology
from freetrain.policies.equal_share import EqualShare
from freetrain.policies.finishers import AS_ASKED, OPT, TUNE, Finisher
from freetrain.policies.freetrain import FreeTrain, Solver
from freetrain.policies.gadget.policy import Gadget
from freetrain.policies.gadget.utility import FAIR, LOG
from freetrain.policies.greedy import Greedy
from freetrain.policies.installed import Kind
from freetrain.policies.placers.dltap import Dltap
from freetrain.policies.placers.placer import FIRST_NODES, Placer
from freetrain.policies.placers.ring import Ring
from freetrain.policies.policy import Policy
from freetrain.policies.smd.policy import Smd

POLICIES = ("freetrain", "equal-share", "greedy", "gadget", "gadget-log", "gadget-fair", "smd", "smd-menu")
"""freetrain's own; no other policy may have one of these names."""

PLACERS = ("first", "ring", "dltap")
"""freetrain's own; no other placer may have one of these names."""

FINISHERS = ("as-asked", "synergy-tune", "synergy-opt")
"""freetrain's own; no other finisher may have one of these names."""

_POLICY = Kind("policy", "decide", POLICIES)
_PLACER = Kind("placer", "place", PLACERS)
_FINISHER = Kind("finisher", "finish", FINISHERS)


def find_policy(name: str, solver: str = Solver.AUTO, time_limit_s: float = 10.0) -> Policy:
    """The policy of this name; those without a solver of freetrain's ignore the solver's settings.

    Raises:
        InputError: there is no such policy, or it cannot be loaded.
    """
    match name:
        case "freetrain":
            return FreeTrain(solver, time_limit_s)
        case "equal-share":
            return EqualShare()
        case "greedy":
            return Greedy()
        case "gadget":
            return Gadget()
        case "gadget-log":
            return Gadget(LOG, "gadget-log")
        case "gadget-fair":
            return Gadget(FAIR, "gadget-fair")
        case "smd":
            return Smd()
        case "smd-menu":
            return Smd(menu=True)
    return _installed_policy(name)


def find_placer(name: str, topology: Topology = FLAT) -> Placer:
    """The placer of this name, for nodes that are connected so.

    Raises:
        InputError: there is no such placer, or it cannot be loaded.
    """
    match name:
        case "first":
            return FIRST_NODES
        case "ring":
            return Ring(topology)
        case "dltap":
            return Dltap(topology)
    return cast(Placer, _PLACER.make(name, topology))


def find_finisher(name: str) -> Finisher:
    """The finisher of this name.

    Raises:
        InputError: there is no such finisher, or it cannot be loaded.
    """
    match name:
        case "as-asked":
            return AS_ASKED
        case "synergy-tune":
            return TUNE
        case "synergy-opt":
            return OPT
    return _installed_finisher(name)


@lru_cache(maxsize=64)
def _installed_policy(name: str) -> Policy:
    """A package's policy; it is made once, so that one that was there when settings were checked stays there."""
    return cast(Policy, _POLICY.make(name))


@lru_cache(maxsize=64)
def _installed_finisher(name: str) -> Finisher:
    """Likewise."""
    return cast(Finisher, _FINISHER.make(name))


def policy_names() -> tuple[str, ...]:
    """All policies that there are, freetrain's own first."""
    return _POLICY.names()


def placer_names() -> tuple[str, ...]:
    """All placers that there are, freetrain's own first."""
    return _PLACER.names()


def finisher_names() -> tuple[str, ...]:
    """All finishers that there are, freetrain's own first."""
    return _FINISHER.names()
