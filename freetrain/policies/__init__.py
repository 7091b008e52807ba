"""Policies: how many idle nodes each trainer gets, and which. One small file each, and the solvers they share."""

from __future__ import annotations

from freetrain.core.allocation import Allocation
from freetrain.policies.finishers import AS_ASKED, Finisher
from freetrain.policies.freetrain import Solver
from freetrain.policies.links import UNKNOWN_LINKS, Links, with_links
from freetrain.policies.placers.placer import FIRST_NODES, Explaining, Placer
from freetrain.policies.policy import NEEDS_PROGRESS, Policy, Weighing
from freetrain.policies.registry import (
    FINISHERS,
    PLACERS,
    POLICIES,
    find_finisher,
    find_placer,
    find_policy,
)

__all__ = [
    "AS_ASKED",
    "FINISHERS",
    "FIRST_NODES",
    "NEEDS_PROGRESS",
    "PLACERS",
    "POLICIES",
    "UNKNOWN_LINKS",
    "Allocation",
    "Explaining",
    "Finisher",
    "Links",
    "Placer",
    "Policy",
    "Solver",
    "Weighing",
    "find_finisher",
    "find_placer",
    "find_policy",
    "with_links",
]
