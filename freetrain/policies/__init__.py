"""Policies: who gets which idle node. One small file each, and the solvers they share."""

from __future__ import annotations

from freetrain.errors import InputError
from freetrain.policies.equal_share import EqualShare
from freetrain.policies.freetrain import FreeTrain, Solver
from freetrain.policies.greedy import Greedy
from freetrain.policies.policy import Policy

POLICIES = ("freetrain", "equal-share", "greedy")

__all__ = ["POLICIES", "Policy", "Solver", "find_policy"]


def find_policy(name: str, solver: str = Solver.AUTO, time_limit_s: float = 10.0) -> Policy:
    """The policy of this name; those without a solver ignore the solver's settings.

    Raises:
        InputError: there is no such policy.
    """
    match name:
        case "freetrain":
            return FreeTrain(solver, time_limit_s)
        case "equal-share":
            return EqualShare()
        case "greedy":
            return Greedy()
    raise InputError(f"There is no policy {name!r}.", f"Choose one of {', '.join(POLICIES)}.")
