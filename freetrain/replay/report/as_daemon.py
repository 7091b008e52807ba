"""What the daemon would have got of what the holes allow, and what the site's own jobs would have felt."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.replay.outcome import Outcome, SiteOutcome
from freetrain.replay.report.words import count, duration, large, number, share
from freetrain.replay.study import DaemonStudy


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure, as the holes allow it and as the daemon would have got it."""

    name: str
    ideal: str
    daemon: str


def promise(done: DaemonStudy) -> str:
    """What a site may expect, in a sentence."""
    out = done.outcome
    lent = share(out.lent_node_hours / out.idle_node_hours) if out.idle_node_hours else share(None)
    reached = f" and trained {share(out.u_dedicated)} of what a machine of their own would have"
    return f"The daemon would have lent {lent} of the idle node-hours{reached if out.u_dedicated else ''}."


def price(site: SiteOutcome) -> str:
    """What the site's jobs would have felt, in a sentence or two."""
    if not site.site_starts:
        return "None of the site’s jobs started on a node that had been idle."
    waited = (
        f"Of {count(site.site_starts, 'job')} of the site that started on idle nodes, {number(site.site_delayed)} "
        "would have waited for a fragment to leave"
    )
    if not site.site_delayed:
        return f"{waited}."
    longest, mean = duration(site.site_delay_max_s), duration(site.site_delay_mean_s)
    return (
        f"{waited}, {longest} at most; that is {mean} for each of those that started. What follows from such "
        "delays further back in the queue is not in it."
    )


def compared(ideal: Outcome, daemon: Outcome) -> tuple[Compared, ...]:
    """The figures side by side."""
    return (
        Compared("node-hours lent", number(ideal.lent_node_hours), number(daemon.lent_node_hours)),
        Compared("node-hours trained", number(ideal.useful_node_hours), number(daemon.useful_node_hours)),
        Compared("samples", large(ideal.samples), large(daemon.samples)),
        Compared("of a dedicated machine", share(ideal.u_dedicated), share(daemon.u_dedicated)),
        Compared("of the best division", share(ideal.u_oracle), share(daemon.u_oracle)),
        Compared("evictions", number(ideal.evictions), number(daemon.evictions)),
        Compared("rescales", number(ideal.rescales), number(daemon.rescales)),
        Compared("starts", number(ideal.starts), number(daemon.starts)),
    )
