"""The watch: what only comparing snapshots tells: how long nodes idle, who waits for them, whom freetrain hurt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freetrain.core.cluster import Job, JobState, Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.harm import Harm, measure_harm
from freetrain.core.lendable import Lendable, Past

_REMEMBERED_S = 600.0
_IN_VAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class HarmLimits:
    """When freetrain slows down by itself.

    Attributes:
        delay_s: a delay that is too much.
        within_s: over what time such delays are counted.
        allowed: how many are tolerated in that time.
        pause_s: how long nothing is lent then.
    """

    delay_s: float
    within_s: float
    allowed: int
    pause_s: float


def paused_until_s(harms: Iterable[Harm], limits: HarmLimits) -> float:
    """Until when nothing is lent because the site's jobs had to wait too often; 0: never."""
    bad_s = sorted(harm.started_s for harm in harms if harm.delay_s > limits.delay_s)
    windows = zip(bad_s, bad_s[limits.allowed :], strict=False)
    return max((last + limits.pause_s for first, last in windows if last - first <= limits.within_s), default=0.0)


class Watch:
    """Remembers what one snapshot alone does not tell; forgetting it, in a restart, does no harm.

    Args:
        cool_down_s: how long a node that was taken back is left alone.
    """

    def __init__(self, cool_down_s: float) -> None:
        self._cool_down_s = cool_down_s
        self._idle_since_s: dict[str, float] = {}
        self._resting_until_s: dict[str, float] = {}
        self._fitting_since_s: dict[str, float] = {}
        self._ready_s: dict[str, float] = {}
        self._busy_until_s: dict[str, float] = {}
        self._ended: list[Fragment] = []
        self._measured: set[str] = set()
        self._began_s: float | None = None

    @property
    def past(self) -> Past:
        """What is known so far."""
        return Past(self._idle_since_s, self._resting_until_s, self._fitting_since_s)

    def note_snapshot(self, snapshot: Snapshot, lent: frozenset[str]) -> None:
        """Nodes that nobody uses idle since the first snapshot in a row that said so."""
        now_s = snapshot.time_s
        self._idle_since_s = {
            node.name: self._idle_since_s.get(node.name, now_s)
            for node in snapshot.nodes
            if node.state == "IDLE" and node.name not in lent
        }
        self._resting_until_s = {
            name: until_s for name, until_s in self._resting_until_s.items() if until_s > now_s
        }

    def note_fitting(
        self, lendable: Lendable, snapshot: Snapshot, in_the_way_of: frozenset[str] = frozenset()
    ) -> None:
        """Remember since when there have been nodes for waiting jobs; those without were not ready yet.

        Args:
            lendable: what may be lent.
            snapshot: what there is.
            in_the_way_of: jobs that wait for fragments only, and have been ready since they were submitted.
        """
        now_s = snapshot.time_s
        self._fitting_since_s = {job: self._fitting_since_s.get(job, now_s) for job in lendable.fitting}
        waiting = (job.id for job in snapshot.jobs if job.state is JobState.PENDING)
        self._ready_s = {
            job: 0.0 if job in in_the_way_of else self._fitting_since_s.get(job, now_s) for job in waiting
        }

    def note_ends(self, ended: Iterable[Fragment], now_s: float) -> None:
        """Fragments ended: their nodes rest, and whoever starts there may have been delayed."""
        for fragment in ended:
            if self._cool_down_s:
                self._resting_until_s[fragment.node] = now_s + self._cool_down_s
            if fragment.started_s is not None:
                self._ended.append(fragment)
        self._ended = [one for one in self._ended if (one.ended_s or now_s) > now_s - _REMEMBERED_S]

    def note_in_vain(self, fragments: Iterable[Fragment], now_s: float) -> None:
        """Slurm did not start these: something is the matter with their nodes, which rest."""
        for fragment in fragments:
            self._resting_until_s[fragment.node] = now_s + _IN_VAIN_S

    def measure_harms(self, snapshot: Snapshot, partition: str) -> list[Harm]:
        """The delays of the site's jobs that started since the last time."""
        self._began_s = snapshot.time_s if self._began_s is None else self._began_s
        own = [job for job in snapshot.jobs if job.partition != partition]
        self._note_departures(own)
        started = [job for job in own if _has_started(job) and job.id not in self._measured]
        self._measured = {job.id for job in own if _has_started(job)}
        harms = [
            measure_harm(job, self._ended, self._busy_before(job), self._ready_s.get(job.id, 0.0))
            for job in started
        ]
        return [harm for harm in harms if harm is not None and harm.started_s >= self._began_s]

    def _note_departures(self, own: Iterable[Job]) -> None:
        for job in own:
            if job.state.is_final and job.end_s is not None:
                for name in job.nodes:
                    self._busy_until_s[name] = max(job.end_s, self._busy_until_s.get(name, 0.0))

    def _busy_before(self, job: Job) -> Mapping[str, float]:
        """When others of the site's jobs left the nodes of this one."""
        start_s = job.start_s or 0.0
        return {name: end_s for name in job.nodes if (end_s := self._busy_until_s.get(name, 0.0)) <= start_s}


def _has_started(job: Job) -> bool:
    return bool(job.nodes) and (job.state.is_final or job.state in (JobState.RUNNING, JobState.COMPLETING))
