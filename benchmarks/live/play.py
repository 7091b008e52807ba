"""Playing workloads, each on three virtual sites at once, and what came of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.figures import (
    Spread,
    delays_s,
    first_in_line_s,
    holes_of,
    latencies_s,
    lent_within_s,
    node_hours,
    spread,
)
from benchmarks.live.prediction import predict_node_hours
from benchmarks.live.site import Ran, Site, configuration
from benchmarks.live.workload import SiteJob
from freetrain.lab.options import LabOptions

NODES = 16
TRAINERS = (("alice", 1, 16), ("alice", 2, 8), ("bob", 1, 16))
"""Owner, fewest and most nodes."""
SHORTEST_HOLE_S = 15.0
SITES = ("without", "again", "with")
PORTS_OF_A_SITE = NODES + 20
PORTS = len(SITES) * PORTS_OF_A_SITE


@dataclass(frozen=True)
class Played:
    """What one site did.

    Attributes:
        delays_s: of the workload's jobs, in order.
        latencies_s: what of that they waited although their nodes were free of the site's jobs.
        first_s: what of it those waited who were first in line and had room beside the site's jobs.
        site: runs of the site's jobs.
        fragments: runs of fragments.
        from_s: when the first job was submitted.
        until_s: when the last submission was.
        nodes: the machine's.
    """

    delays_s: list[float]
    latencies_s: list[float]
    first_s: list[float]
    site: list[Ran]
    fragments: list[Ran]
    from_s: float
    until_s: float
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """One workload without freetrain, without it once more, and with it.

    What differs between the first two is chance, and no smaller difference to the third means anything.
    """

    without: Played
    again: Played
    with_: Played


@dataclass(frozen=True)
class Outcome:
    """What all workloads came to, those on the same kind of site taken together.

    Attributes:
        delays: from submission to start of the site's jobs, on each site.
        latencies: what of it the jobs waited although their nodes were free of the site's jobs, on each site.
        first: what of it those waited who were first in line, on each site.
        added_delays: of each job, what it waited more than on the first site: on the second, and on the third.
        idle_node_hours: that the site's jobs left, with freetrain.
        lent_node_hours: of these.
        predicted_node_hours: lent, as the replay as daemon has it from what the site's own jobs did.
        lent_share: of the node-seconds in holes of 15 s and more.
        fragments: that ran.
    """

    delays: tuple[Spread, Spread, Spread]
    latencies: tuple[Spread, Spread, Spread]
    first: tuple[Spread, Spread, Spread]
    added_delays: tuple[Spread, Spread]
    idle_node_hours: float
    lent_node_hours: float
    predicted_node_hours: float
    lent_share: float
    fragments: int

    def lines(self) -> list[tuple[str, str]]:
        """What is printed."""
        wrong = self.predicted_node_hours / self.lent_node_hours - 1 if self.lent_node_hours else float("nan")
        return [
            *_by_site("start delay", self.delays),
            *_by_site("wait on free nodes", self.latencies),
            *_by_site("wait of the first in line", self.first),
            ("added delay per job, again", str(self.added_delays[0])),
            ("added delay per job, with", str(self.added_delays[1])),
            ("idle node-hours", f"{self.idle_node_hours:.3f}"),
            ("node-hours lent", f"{self.lent_node_hours:.3f}"),
            ("node-hours lent, replayed as daemon", f"{self.predicted_node_hours:.3f} ({wrong:+.1%})"),
            ("lent of holes of 15 s and more", f"{self.lent_share:.1%}"),
            ("fragments", str(self.fragments)),
        ]


def _by_site(what: str, spreads: tuple[Spread, Spread, Spread]) -> list[tuple[str, str]]:
    """Each site's, and by how much the others' 95th percentile is above the first one's."""
    first, *others = spreads
    added = [""] + [f"  (p95 {one.p95_s - first.p95_s:+.2f} s)" for one in others]
    return [
        (f"{what} {site}, p50/p95/max", f"{one}{more}")
        for site, one, more in zip(SITES, spreads, added, strict=True)
    ]


PlaySite = Callable[[Path, int, list[SiteJob], bool], Played]
"""Plays one site from up to down: its folder, its first port, its jobs, and whether freetrain lends there."""


def play_all(
    root: Path,
    first_port: int,
    workloads: Sequence[list[SiteJob]],
    play: PlaySite,
    again: Sequence[list[SiteJob]] | None = None,
) -> list[Comparison]:
    """Play all workloads on all kinds of sites, side by side.

    Args:
        root: an empty folder.
        first_port: of as many as ``PORTS`` for each workload.
        workloads: what the sites are given to do.
        play: plays one of them.
        again: what the second site of each workload is given instead; None: the same.
    """
    cases = list(itertools.product(range(len(workloads)), SITES))

    def play_case(number: int) -> Played:
        workload, site = cases[number]
        folder, port = root / f"{site}-{workload}", first_port + number * PORTS_OF_A_SITE
        jobs = (again or workloads)[workload] if site == "again" else workloads[workload]
        return play(folder, port, jobs, site == "with")

    with ThreadPoolExecutor(len(cases)) as pool:
        played = list(pool.map(play_case, range(len(cases))))
    return [Comparison(*played[first : first + len(SITES)]) for first in range(0, len(played), len(SITES))]


def play_site(
    directory: Path, port: int, jobs: list[SiteJob], with_freetrain: bool, *, interval_s: int, behind: bool = False
) -> Played:
    """One site of whole nodes, from up to down."""
    parameters = f"bf_continue,bf_interval={interval_s},bf_window=10080,bf_resolution=60"
    options = LabOptions(
        nodes=NODES, accounting=True, base_port=port, settings={"SchedulerParameters": parameters}
    )
    site = Site(directory, options)
    try:
        first = [site.submit(SiteJob(0, 1, 7200, 120)), site.submit(SiteJob(0, NODES, 60, 5))] if behind else []
        if with_freetrain:
            for person, fewest, most in TRAINERS:
                site.submit_trainer(person, most, f"min={fewest},max={most}")
            site.start_daemon(interval_s, margin_s=interval_s + 2, shortest_hole_s=SHORTEST_HOLE_S)
        window_s = play_workload(site, jobs, 3 + 2 * interval_s)
        own = [ran for ran in site.accounting("main") if ran.id not in first[1:]]
        return played_on(site, own, site.accounting("freetrain"), window_s)
    finally:
        site.close()


def play_workload(site: Site, jobs: list[SiteJob], settles_s: float) -> tuple[float, float]:
    """Submit all jobs and wait for them, then end the daemon; when the first and the last were submitted."""
    time.sleep(settles_s)
    site.submitted_s = {}
    from_s = time.time()
    site.play(jobs)
    until_s = time.time()
    site.wait_for(list(site.submitted_s), 1200)
    time.sleep(2)
    site.stop_daemon()
    return from_s, until_s


def played_on(
    site: Site,
    own: list[Ran],
    fragments: list[Ran],
    window_s: tuple[float, float],
    room: int = 1,
    may_use: Mapping[str, Set[str]] = {},
) -> Played:
    """What a site did; ``room`` and ``may_use`` as in :func:`first_in_line_s`."""
    started_s, nodes = site.started_s(), site.lab.node_names
    return Played(
        delays_s(site.submitted_s, started_s),
        latencies_s(own, site.submitted_s, started_s),
        first_in_line_s(own, dict.fromkeys(nodes, room), may_use),
        own,
        fragments,
        *window_s,
        nodes,
    )


def compare(comparisons: Sequence[Comparison], interval_s: float) -> Outcome:
    """The figures side by side."""
    with_ = [one.with_ for one in comparisons]
    holes = [holes_of(one.site, one.nodes, one.from_s, one.until_s) for one in with_]
    lent = [lent_within_s(one.fragments, of, SHORTEST_HOLE_S) for one, of in zip(with_, holes, strict=True)]
    sizes = [(fewest, most) for _, fewest, most in TRAINERS]
    settings = configuration(interval_s, interval_s + 2, SHORTEST_HOLE_S, Path("/nowhere"))
    return Outcome(
        delays=_spreads(comparisons, lambda played: played.delays_s),
        latencies=_spreads(comparisons, lambda played: played.latencies_s),
        first=_spreads(comparisons, lambda played: played.first_s),
        added_delays=(
            spread(added_delays_s((one.without, one.again) for one in comparisons)),
            spread(added_delays_s((one.without, one.with_) for one in comparisons)),
        ),
        idle_node_hours=sum(one.idle_node_hours for one in holes),
        lent_node_hours=sum(node_hours(one.fragments, one.from_s, one.until_s) for one in with_),
        predicted_node_hours=sum(
            predict_node_hours(one.site, sizes, one.nodes, (one.from_s, one.until_s), interval_s, settings)
            for one in with_
        ),
        lent_share=sum(lent_s for lent_s, _ in lent) / sum(total_s for _, total_s in lent),
        fragments=sum(len(one.fragments) for one in with_),
    )


def _spreads(
    comparisons: Sequence[Comparison], figure: Callable[[Played], Sequence[float]]
) -> tuple[Spread, Spread, Spread]:
    return (
        spread(value for one in comparisons for value in figure(one.without)),
        spread(value for one in comparisons for value in figure(one.again)),
        spread(value for one in comparisons for value in figure(one.with_)),
    )


def added_delays_s(pairs: Iterable[tuple[Played, Played]]) -> list[float]:
    """What each job waited more on the second site than on the first."""
    return [
        late - early
        for first, second in pairs
        for early, late in zip(first.delays_s, second.delays_s, strict=True)
    ]
