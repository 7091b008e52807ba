"""Policies by name: freetrain's own, and those of packages that are installed beside it."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from freetrain.errors import InputError
from freetrain.policies.equal_share import EqualShare
from freetrain.policies.freetrain import FreeTrain, Solver
from freetrain.policies.greedy import Greedy
from freetrain.policies.policy import Policy

POLICIES = ("freetrain", "equal-share", "greedy")
"""freetrain's own; no other policy may have one of these names."""

GROUP = "freetrain.policies"
"""The entry points by which a package names its policies: each is called without arguments and gives one."""


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
    return _installed_policy(name)


@lru_cache(maxsize=64)
def _installed_policy(name: str) -> Policy:
    """A package's policy; it is made once, so that one that was there when settings were checked stays there."""
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        raise InputError(
            f"There is no policy {name!r}.", f"Choose one of {_names()}, or install the package that has it."
        )
    if len(found) > 1:
        places = ", ".join(sorted(entry.value for entry in found))
        raise InputError(f"Several packages have a policy {name!r}: {places}.", "Uninstall all but one of them.")
    policy = _make(found[0])
    if not callable(getattr(policy, "decide", None)):
        raise InputError(
            f"The policy {name!r} ({found[0].value}) has no method 'decide': its type is {type(policy).__name__}.",
            "docs/policies.md shows a whole policy.",
        )
    return policy


def _make(entry: EntryPoint) -> Policy:
    try:
        policy: Policy = entry.load()()
    except (Exception, SystemExit) as error:  # a package of somebody else's may raise anything
        raise InputError(
            f"The policy {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}.",
            f"Install its package again with what it needs, or choose one of {_names(entry.name)}.",
        ) from error
    return policy


def _names(but: str = "") -> str:
    """The policies that there are, freetrain's own first."""
    installed = {entry.name for entry in entry_points(group=GROUP)}.difference(POLICIES, {but})
    return ", ".join((*POLICIES, *sorted(installed)))
