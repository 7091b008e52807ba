"""Places that come free soon by themselves, so that no task ends for somebody else's share just before its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.place import Place
from freetrain.lending.facts import Facts, Request
from freetrain.lending.rules import NodeRules
from freetrain.lending.sharing.claims import Claimant

_SOON_S = 60.0
"""So long at most somebody waits for a place of their share, rather than that a task there begins again."""


def with_settled(
    claimants: Sequence[Claimant], facts: Facts, offered: Iterable[Place], rules: NodeRules
) -> list[Claimant]:
    """The claimants with those places that they keep since their tasks there are soon over; one alone keeps all.

    Args:
        claimants: all.
        facts: of the look.
        offered: the places.
        rules: how places are called.
    """
    if len(claimants) < 2:
        return list(claimants)
    soon = {
        rules.place_of(fragment): fragment.trainer
        for fragment in facts.fragments
        if fragment.trainer in facts.request and _is_soon_over(fragment, facts.request[fragment.trainer], facts)
    }
    there = [offer for offer in offered if soon.get(offer.name, "") == offer.holder]
    return [replace(claimant, settled=_settled(claimant, there)) for claimant in claimants]


def _settled(claimant: Claimant, soon: Iterable[Place]) -> tuple[str, ...]:
    own = {want.trainer for want in claimant.wants}
    return tuple(offer.name for offer in soon if offer.holder in own and offer.node in claimant.eligible)


def _is_soon_over(fragment: Fragment, request: Request, facts: Facts) -> bool:
    """Whether it is a task that would lose all that it has done, and will soon have done all.

    Where its like run for no longer than that it is expected to end within it, else when no more is left of its
    time. What has run for longer than expected may run for ever.
    """
    if fragment.state is not FragmentState.RUNNING or not 0.0 < request.task_s <= request.most_lost_s:
        return False
    return request.task_s - _SOON_S <= facts.ran_s(fragment) < max(request.task_s, _SOON_S)
