"""Policies: how many idle nodes each trainer gets, which nodes, and how much of shared ones.

A decision goes through three stages (``stages.py``), each chosen by name (``registry.py``, one entry each):

- a *policy* gives an :class:`Allocation`: nodes of each trainer by class. ``freetrain.py`` is the exact optimum of
  the objective, with the solvers in ``solver/``; ``equal_share.py`` and ``greedy.py`` are what it is held against.
- a *placer* gives a placement: which nodes these are.
- a *finisher* gives the CPUs and memory of new parts of shared nodes.

The other systems: ``gadget/`` (policy, links, placer), ``smd.py`` (policy, parameter servers), ``synergy.py``
(finishers), ``dltap.py`` (placer). Policies that weigh sizes by a value of their own share ``aiming.py`` (what of
the objective they heed), ``needs.py`` (what they have to know, and what is assumed), ``ageing.py`` (turns, so that
no training waits for ever) and ``spread.py`` (from values to nodes of each class). ``binary_programme.py`` asks
HiGHS for small 0-1 programmes.
"""

from __future__ import annotations

from freetrain.core.decision import Allocation
from freetrain.policies.freetrain import Solver
from freetrain.policies.gadget.links import UNKNOWN_LINKS, Links, with_links
from freetrain.policies.registry import (
    FINISHERS,
    PLACERS,
    POLICIES,
    VARIANTS,
    find_finisher,
    find_placer,
    find_policy,
)
from freetrain.policies.stages import (
    AS_ASKED,
    FIRST_NODES,
    NEEDS_PAST,
    Explaining,
    Finisher,
    Placer,
    Policy,
    Weighing,
)

__all__ = [
    "AS_ASKED",
    "FINISHERS",
    "FIRST_NODES",
    "NEEDS_PAST",
    "PLACERS",
    "POLICIES",
    "UNKNOWN_LINKS",
    "VARIANTS",
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
