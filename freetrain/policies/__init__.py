"""Policies: how many idle nodes each trainer gets. One small file each, and the solvers they share."""

from __future__ import annotations

from freetrain.core.allocation import Allocation
from freetrain.policies.freetrain import Solver
from freetrain.policies.policy import Policy
from freetrain.policies.registry import POLICIES, find_policy

__all__ = ["POLICIES", "Allocation", "Policy", "Solver", "find_policy"]
