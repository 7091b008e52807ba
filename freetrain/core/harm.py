"""Harm: how much later one of the site's jobs started because a fragment was in its way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freetrain.core.cluster import Job
from freetrain.core.fragment import Fragment


@dataclass(frozen=True, slots=True)
class Harm:
    """One job's delay.

    Attributes:
        job: the site's.
        delay_s: seconds for which nothing but fragments stood between the job and its nodes.
        started_s: when it started, UTC epoch seconds.
        fragments: Slurm's ids of those that were on its nodes.
    """

    job: str
    delay_s: float
    started_s: float
    fragments: tuple[str, ...]


def measure_harm(
    job: Job, fragments: Iterable[Fragment], busy_until_s: Mapping[str, float], ready_s: float
) -> Harm | None:
    """The delay of a job that has just started; None where no fragment was on its nodes while it waited.

    From the moment when the job was ready to start and the last of the site's own jobs had left its nodes, only
    fragments were in the way. Slurm's own latency, which it would have had on idle nodes too, is not taken off:
    the measure errs against freetrain.

    Args:
        job: running.
        fragments: those that ended a moment ago.
        busy_until_s: when the site's own last job left each node, where that was seen.
        ready_s: when it could first have started if no node had been lent, as far as was seen.
    """
    if job.start_s is None:
        return None
    in_the_way = [
        fragment
        for fragment in fragments
        if fragment.node in job.nodes
        and fragment.ended_s is not None
        and job.submitted_s <= fragment.ended_s <= job.start_s + 1
    ]
    if not in_the_way:
        return None
    own_s = max((busy_until_s.get(name, 0.0) for name in job.nodes), default=0.0)
    lent_s = min(fragment.asked_s for fragment in in_the_way)
    delay_s = job.start_s - max(job.submitted_s, ready_s, own_s, lent_s)
    return Harm(job.id, max(0.0, delay_s), job.start_s, tuple(sorted(fragment.job for fragment in in_the_way)))
