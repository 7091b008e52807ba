"""``python -m benchmarks.live.shadow``: the shadow schedule beside what Slurm starts, on sites without freetrain.

Twice a second the queue is looked at, and who would start now by the shadow schedule is compared with who starts.
"""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from benchmarks.live.figures import spread
from benchmarks.live.play import NODES, PORTS_OF_A_SITE
from benchmarks.live.site import Site
from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples
from freetrain.core.cluster import JobState, Snapshot
from freetrain.lab.options import LabOptions
from freetrain.lending.shadow import BackfillRules, find_shadow
from freetrain.slurm.command_line import CommandLine

EVERY_S = 0.5


@dataclass
class Watched:
    """What the looks said.

    Attributes:
        since_s: waiting job → since when the shadow has it start now, without a break.
        predicted_s: started job → since when that was so when it was last seen waiting; None: it was not.
        seen_s: job → when it was last seen waiting.
    """

    since_s: dict[str, float] = field(default_factory=dict)
    predicted_s: dict[str, float | None] = field(default_factory=dict)
    seen_s: dict[str, float] = field(default_factory=dict)

    def look(self, snapshot: Snapshot, rules: BackfillRules) -> None:
        """One more look."""
        starting = set(find_shadow(snapshot, "freetrain", frozenset(), {}, rules).kept.values())
        waiting = {job.id for job in snapshot.jobs if job.state is JobState.PENDING}
        self.since_s = {job: self.since_s.get(job, snapshot.time_s) for job in starting}
        self.predicted_s |= {job: self.since_s.get(job) for job in waiting}
        self.seen_s |= dict.fromkeys(waiting, snapshot.time_s)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One job's start.

    Attributes:
        job: its id.
        late_s: how long after the shadow's it really was; None: the shadow had it start later when it started.
        waited_s: from submission to start.
        unseen: whether another job ended after the last look at this one, before it started.
    """

    job: str
    late_s: float | None
    waited_s: float
    unseen: bool


def play(folder: Path, port: int, jobs: list[SiteJob], interval_s: int) -> list[Verdict]:
    """One site, from up to down; the starts of those jobs that a look saw waiting."""
    parameters = f"bf_continue,bf_interval={interval_s},bf_window=10080,bf_resolution=60"
    settings = {"SchedulerParameters": parameters}
    site = Site(folder, LabOptions(nodes=NODES, accounting=True, base_port=port, settings=settings))
    rules = BackfillRules(resolution_s=60.0, window_s=10080 * 60.0)
    watched, over = Watched(), threading.Event()

    def watch() -> None:
        gateway = CommandLine(30.0, environment={**site.lab.environment})
        while not over.wait(EVERY_S):
            watched.look(gateway.snapshot(), rules)

    thread = threading.Thread(target=watch)
    try:
        thread.start()
        site.play(jobs)
        site.wait_for(list(site.submitted_s), 1200)
        time.sleep(2)
        over.set()
        thread.join()
        started_s = site.started_s()
        ends_s = [ran.end_s for ran in site.accounting("main")]
        return [
            Verdict(
                job,
                None if at_s is None else started_s[job] - at_s,
                started_s[job] - site.submitted_s[job],
                # Accounting knows whole seconds.
                any(watched.seen_s[job] - 1 <= end_s <= started_s[job] for end_s in ends_s),
            )
            for job, at_s in watched.predicted_s.items()
            if job in started_s and job in site.submitted_s
        ]
    finally:
        over.set()
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
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as root, ThreadPoolExecutor(len(seeds)) as pool:
        Path(root).chmod(0o755)
        cases = enumerate(workloads)
        runs = [
            pool.submit(play, Path(root) / str(number), port + number * PORTS_OF_A_SITE, jobs, interval_s)
            for number, jobs in cases
        ]
        verdicts = [verdict for run in runs for verdict in run.result()]
    allowed_s = interval_s + EVERY_S
    agreeing = [one for one in verdicts if one.late_s is not None and one.late_s <= allowed_s]
    submitted = sum(map(len, workloads))
    click.echo(f"{submitted} jobs, {len(verdicts)} of them seen waiting")
    click.echo(
        f"started within {allowed_s:g} s of the shadow's: {len(agreeing)} ({len(agreeing) / len(verdicts):.1%})"
    )
    click.echo(f"how late, of these: {spread(one.late_s for one in agreeing if one.late_s is not None)}")
    for one in sorted(set(verdicts) - set(agreeing), key=lambda one: one.waited_s):
        what = "before the shadow's" if one.late_s is None else f"{one.late_s:.1f} s after the shadow's"
        click.echo(f"job {one.job} started {what}, {one.waited_s:.1f} s after its submission")


if __name__ == "__main__":
    main()
