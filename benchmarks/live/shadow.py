"""``python -m benchmarks.live.shadow``: the shadow schedule beside what Slurm starts, on sites without freetrain.

The submissions and ends of a site's jobs are taken from accounting. After each of them the shadow schedule, given
what was known at that second, says who would start; that is compared with who started.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks.live.figures import spread
from benchmarks.live.play import NODES, PORTS_OF_A_SITE
from benchmarks.live.site import Ran, Site
from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Node, NodeState, Partition
from freetrain.lab.options import LabOptions
from freetrain.lending.shadow import BackfillRules, find_shadow


@dataclass(frozen=True, slots=True)
class Verdict:
    """One job's start.

    Attributes:
        job: its id.
        expected_s: when it starts by the shadow; None: not yet when it really started.
        start_s: when it started.
        waited_s: from submission to start.
        by_backfill: whether by the shadow it waits for the next backfill cycle.
    """

    job: str
    expected_s: float | None
    start_s: float
    waited_s: float
    by_backfill: bool

    @property
    def late_s(self) -> float | None:
        """How long after the shadow's its start was; None: before it."""
        return None if self.expected_s is None else self.start_s - self.expected_s


def verdicts(runs: Sequence[Ran], names: Sequence[str], rules: BackfillRules) -> list[Verdict]:
    """What the shadow says of each start.

    Args:
        runs: the site's jobs, each once.
        names: of all nodes.
        rules: how Slurm plans.
    """
    expected: dict[str, tuple[float, bool]] = {}
    for at_s in sorted({at_s for one in runs for at_s in (one.submitted_s, one.end_s)}):
        shadow = find_shadow(_snapshot_at(runs, names, at_s), FragmentQueue("freetrain"), frozenset(), {}, rules)
        starting = {plan.job: plan.by_backfill for plan in shadow.plans if plan.start_s <= at_s}
        waiting = {one.id for one in runs if one.submitted_s <= at_s <= one.start_s}
        for job in waiting:
            if job not in starting:
                expected.pop(job, None)
            elif job not in expected:
                expected[job] = at_s, starting[job]
    return [
        Verdict(
            one.id,
            expected[one.id][0] if one.id in expected else None,
            one.start_s,
            one.start_s - one.submitted_s,
            one.id in expected and expected[one.id][1],
        )
        for one in runs
    ]


def _snapshot_at(runs: Sequence[Ran], names: Sequence[str], at_s: float) -> Snapshot:
    """What was known at that second; who starts in it still waits."""
    jobs = [_job_at(one, at_s) for one in runs if one.submitted_s <= at_s < one.end_s]
    busy = {name for job in jobs for name in job.nodes}
    nodes = tuple(Node(name, NodeState.BUSY if name in busy else NodeState.IDLE) for name in names)
    return Snapshot(at_s, nodes, tuple(jobs), partitions={"main": Partition("main", frozenset(names))})


def _job_at(one: Ran, at_s: float) -> Job:
    count = len(one.node_names)
    job = Job(
        one.id, one.id, "bob", "main", JobState.PENDING, node_count=count, submitted_s=one.submitted_s,
        limit_s=one.limit_s,
    )  # fmt: skip
    if one.start_s >= at_s:
        return job
    end_s = one.start_s + one.limit_s
    return replace(job, state=JobState.RUNNING, nodes=frozenset(one.node_names), start_s=one.start_s, end_s=end_s)


def play(folder: Path, port: int, jobs: list[SiteJob], interval_s: int) -> list[Ran]:
    """One site, from up to down; what its accounting remembers."""
    parameters = f"bf_continue,bf_interval={interval_s},bf_window=10080,bf_resolution=60"
    settings = {"SchedulerParameters": parameters}
    site = Site(folder, LabOptions(nodes=NODES, accounting=True, base_port=port, settings=settings))
    try:
        site.play(jobs)
        site.wait_for(list(site.submitted_s), 1200)
        time.sleep(2)
        return [one for one in site.accounting("main") if one.id in site.submitted_s]
    finally:
        site.close()


@click.command()
@click.option("--minutes", type=float, default=10.0, show_default=True)
@click.option("--bf-interval", "interval_s", type=int, default=10, show_default=True)
@click.option(
    "--load", type=float, default=0.9, show_default=True, help="Share of the machine that the jobs fill."
)
@click.option("--seed", "seeds", type=int, multiple=True, default=(1, 2, 3, 4), show_default=True)
@click.option("--port", type=int, default=26000, show_default=True)
def main(minutes: float, interval_s: int, load: float, seeds: tuple[int, ...], port: int) -> None:
    """Compare, and print who disagrees."""
    samples = read_samples(SAMPLE_LOG)
    workloads = [
        [replace(job, nodes=min(job.nodes, NODES)) for job in draw(samples, NODES, minutes * 60, load, seed)]
        for seed in seeds
    ]
    rules = BackfillRules(interval_s=interval_s, resolution_s=60.0, window_s=10080 * 60.0)
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as root, ThreadPoolExecutor(len(seeds)) as pool:
        Path(root).chmod(0o755)
        runs = [
            pool.submit(play, Path(root) / str(number), port + number * PORTS_OF_A_SITE, jobs, interval_s)
            for number, jobs in enumerate(workloads)
        ]
        names = LabOptions(nodes=NODES).node_names
        found = [verdict for run in runs for verdict in verdicts(run.result(), names, rules)]
    # A scheduling interval is allowed, and the second that Slurm takes to clear up after a job, twice.
    allowed_s = interval_s + 2
    agreeing = [one for one in found if one.late_s is not None and one.late_s <= allowed_s]
    waited, share = sum(one.waited_s > 1 for one in found), len(agreeing) / len(found)
    click.echo(f"{len(found)} jobs, {waited} of them waited for more than a second")
    click.echo(f"started within {allowed_s} s of the shadow's: {len(agreeing)} ({share:.1%})")
    click.echo(f"how late, of these: {spread(one.late_s for one in agreeing if one.late_s is not None)}")
    for one in sorted(set(found) - set(agreeing), key=lambda one: one.waited_s):
        what = "before the shadow's" if one.late_s is None else f"{one.late_s:.0f} s after the shadow's"
        how = ", which waits for backfill" if one.by_backfill else ""
        click.echo(f"job {one.job} started {what}{how}, {one.waited_s:.0f} s after its submission")


if __name__ == "__main__":
    main()
