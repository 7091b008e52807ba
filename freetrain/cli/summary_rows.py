"""Rows of figures that several parts of what ``freetrain replay`` prints have in common."""

from __future__ import annotations

from collections.abc import Iterator

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.outcome import Outcome, SiteOutcome
from freetrain.showing.words import NOTHING


def work_rows(out: Outcome) -> Iterator[tuple[str, str, str]]:
    """What was trained."""
    nodes = f"of the same trainers on {out.dedicated_nodes:,.1f} dedicated nodes"
    yield "work", u_words(out.u_work), f"{nodes}, in the objective's unit"
    yield "U oracle", u_words(out.u_oracle), "of the best division at every instant, changes costing nothing"
    yield "samples", f"{out.samples:.4g}", ""
    yield "U", u_words(out.u_dedicated), f"of the samples {nodes}, as the paper counts"


def trouble_rows(out: Outcome) -> Iterator[tuple[str, str, str]]:
    """What it cost the trainers."""
    rescale_lost_s = out.scale_up_lost_s + out.scale_down_lost_s
    lost, paused = (f"{lost_s / SECONDS_PER_HOUR:,.1f}" for lost_s in (out.eviction_lost_s, out.eviction_pause_s))
    forced = f"nodes in {out.forced_rescales:,} forced rescales"
    yield "evictions", f"{out.evictions:,}", f"{forced}, {lost} h of work and {paused} h of pauses lost"
    yield "rescales", f"{out.rescales:,}", f"decided, {rescale_lost_s / SECONDS_PER_HOUR:,.1f} h lost"
    yield "starts", f"{out.starts:,}", f"{out.start_lost_s / SECONDS_PER_HOUR:,.1f} h lost"


def outcome_rows(out: Outcome) -> Iterator[tuple[str, str, str]]:
    """Both."""
    yield from work_rows(out)
    yield from trouble_rows(out)


def site_row(site: SiteOutcome) -> tuple[str, str, str]:
    """What the site's jobs would have felt."""
    met = f"of {site.site_starts:,} that started on idle nodes found fragments there"
    return "site's jobs", f"{site.site_delayed:,}", f"{met} (how much later they start: docs/harm.md)"


def part_of(part: float | None, whole: float | None) -> str:
    """As a percentage."""
    return NOTHING if part is None or not whole else f"{part / whole:.1%}"


def u_words(value: float | None) -> str:
    """A utilisation."""
    return NOTHING if value is None else f"{value:.4f}"
