"""What a replay lets the policy know of the time to come: ends of holes, and plans of the site's waiting jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.holes import Holes
from freetrain.lending.facts import Facts
from freetrain.lending.hole_ends import planned_ends_s
from freetrain.lending.judge import shadow_of
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import NO_SHADOW
from freetrain.lending.sightings import Sightings
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.logs import LoggedJobs

# Nothing is lent by these rules: they only name freetrain's partition.
_RULES = NodeRules(FragmentQueue("freetrain"))


class Knowledge(StrEnum):
    """What is known of the ends of holes."""

    NONE = "none"
    """Only how long holes have lasted on average."""
    LEARNED = "learned"
    """How long those that are idle now are expected to stay, as nodes of their ages did in the log so far."""
    PLAN = "plan"
    """That too, and when jobs that wait are planned to start, by the limits of those that run, as far as such
    plans have been better than knowing nothing: all that can be known."""
    PERFECT = "perfect"
    """Each end within the horizon, as nobody can know: the most that a forecast can bring."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """How far ahead a decision looks, and what it sees there.

    Attributes:
        horizon_s: how far ahead value is counted; 0: as long as idle nodes are expected to stay.
    """

    horizon_s: float = 0.0
    knows: Knowledge = Knowledge.LEARNED


class SitePlans:
    """The site's jobs as a replay goes: their limits are known, an end never is before it comes.

    Attributes:
        site: what jobs there are; it is brought up to date from outside.
    """

    def __init__(self, holes: Holes, logged: LoggedJobs) -> None:
        self.site = LoggedSite(holes, logged, _RULES.partition)
        self._seen = Sightings()
        self._shadow = NO_SHADOW

    def look(self, now_s: float) -> Mapping[str, float]:
        """Node → when Slurm would start a waiting job there, but for those that had nodes for long and did not."""
        snapshot = self.site.snapshot(now_s)
        shadow = self._shadow = shadow_of(Facts(snapshot), _RULES, self._seen, before=self._shadow)
        self._seen = self._seen.with_fitting(shadow)
        return {**planned_ends_s(snapshot, shadow), **dict.fromkeys(shadow.kept, now_s)}
