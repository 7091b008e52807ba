"""What each user has had, from the ledger; counted again only now and then, so that shares do not flicker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from freetrain.lending.sharing.past_use import faded_hours
from freetrain.store.ledger import Ledger

_REMEMBERED_HALF_LIVES = 10
_COUNTS_PER_HALF_LIFE = 168
"""With the default half-life of a week: hourly."""


class LentHours:
    """Node-hours that each user's trainers were lent, faded.

    Args:
        ledger: knows all fragments.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._hours: dict[str, float] = {}
        self._counted_s = -float("inf")
        self._half_life_s = 0.0

    def hours(self, now_s: float, half_life_s: float) -> Mapping[str, float]:
        """User → node-hours, as counted last.

        Args:
            now_s: UTC epoch seconds.
            half_life_s: in which they fade to one half.
        """
        if half_life_s != self._half_life_s:
            self._hours, self._half_life_s = {}, half_life_s
            self._counted_s = -float("inf")
        if now_s - self._counted_s >= half_life_s / _COUNTS_PER_HALF_LIFE:
            self._count(now_s)
        return self._hours

    def _count(self, now_s: float) -> None:
        half_life_s = self._half_life_s
        since_s = max(self._counted_s, now_s - _REMEMBERED_HALF_LIVES * half_life_s)
        fade = 0.5 ** ((now_s - since_s) / half_life_s)
        hours = defaultdict(float, {user: each * fade for user, each in self._hours.items()})
        # At first days that are summed up spare reading months of fragments.
        for day in self._ledger.days.between(since_s, now_s) if self._counted_s == -float("inf") else ():
            middle_s = (day.day_s + day.until_s) / 2
            hours[day.owner] += day.lent.lent_s / 3600 * 0.5 ** ((now_s - middle_s) / half_life_s)
            since_s = max(since_s, day.until_s)
        for user, started_s, ended_s, share in self._ledger.lent_spans(since_s):
            until_s = now_s if ended_s is None else min(ended_s, now_s)
            hours[user] += share * faded_hours(max(started_s, since_s), until_s, now_s, half_life_s)
        self._hours = dict(hours)
        self._counted_s = now_s
