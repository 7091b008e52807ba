"""What the daemon would have got beside what the holes allow, and what the site's own jobs would have felt."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.replay.outcome import Outcome, SiteOutcome
from freetrain.showing.words import amount, count, large, number, share


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure, as the holes allow it and as the daemon would have got it."""

    name: str
    ideal: str
    daemon: str


def price(site: SiteOutcome) -> str:
    """What the site's jobs would have felt, in a sentence or two."""
    if not site.site_starts:
        return "None of the site’s jobs started on a node that had been idle."
    met = (
        f"Of {count(site.site_starts, 'job')} of the site that started on idle nodes, {number(site.site_delayed)} "
        "would have found a fragment on some of them"
    )
    if not site.site_delayed:
        return f"{met}."
    return (
        f"{met}. How much later these would start, and those behind them in the queue, a log cannot tell: "
        "docs/harm.md says what was measured on real queues."
    )


def compared(ideal: Outcome, daemon: Outcome) -> tuple[Compared, ...]:
    """The figures side by side."""
    idle = ideal.idle_node_hours
    return (
        Compared("of a dedicated machine’s work", share(ideal.u_work), share(daemon.u_work)),
        Compared("of its samples (U of the paper)", share(ideal.u_dedicated), share(daemon.u_dedicated)),
        Compared("of the best division’s work", share(ideal.u_oracle), share(daemon.u_oracle)),
        Compared("node-hours lent", amount(ideal.lent_node_hours, idle), amount(daemon.lent_node_hours, idle)),
        Compared(
            "node-hours trained", amount(ideal.useful_node_hours, idle), amount(daemon.useful_node_hours, idle)
        ),
        Compared("samples", large(ideal.samples), large(daemon.samples)),
        Compared("nodes taken back", number(ideal.evictions), number(daemon.evictions)),
        Compared("in so many evictions", number(ideal.forced_rescales), number(daemon.forced_rescales)),
        Compared("rescales", number(ideal.rescales), number(daemon.rescales)),
        Compared("starts", number(ideal.starts), number(daemon.starts)),
    )
