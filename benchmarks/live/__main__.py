"""``python -m benchmarks.live``: a scripted workload on two virtual sites at once, with and without freetrain."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from benchmarks.live.figures import delays_s, holes_of, lent_within_s, node_hours, spread
from benchmarks.live.prediction import predict_node_hours
from benchmarks.live.site import Ran, Site
from benchmarks.live.workload import SiteJob, draw, read_samples
from freetrain.lab.options import LabOptions

LOG = Path(__file__).parents[2] / "sample_logs" / "small-cluster.sacct.gz"
NODES = 16
TRAINERS = (("alice", 1, 16), ("alice", 2, 8), ("bob", 1, 16))
"""Owner, fewest and most nodes."""
SHORTEST_HOLE_S = 15.0


@dataclass(frozen=True)
class Played:
    """What one site did.

    Attributes:
        delays_s: of the workload's jobs, in order.
        site: runs of the site's jobs.
        fragments: runs of fragments.
        from_s: when the first job was submitted.
        until_s: when the last submission was.
        nodes: the machine's.
    """

    delays_s: list[float]
    site: list[Ran]
    fragments: list[Ran]
    from_s: float
    until_s: float
    nodes: tuple[str, ...]


@click.command()
@click.option("--minutes", type=float, default=20.0, show_default=True)
@click.option(
    "--bf-interval", "interval_s", type=int, default=5, show_default=True, help="Slurm's, and the poll's."
)
@click.option(
    "--load", type=float, default=0.6, show_default=True, help="Share of the machine that the jobs fill."
)
@click.option(
    "--behind", is_flag=True, help="A job for the whole machine waits first: the others start by backfill."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--daemon-log", "log_path", type=click.Path(path_type=Path), help="Keep what the daemon said.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    minutes: float,
    interval_s: int,
    load: float,
    behind: bool,
    seed: int,
    log_path: Path | None,
    json_path: Path | None,
) -> None:
    """Play the workload and print what came of it."""
    # Behind a job for all nodes, whoever wants more than what is left would wait for as long as it does.
    largest = NODES // 2 if behind else NODES
    jobs = [
        replace(job, nodes=min(job.nodes, largest))
        for job in draw(read_samples(LOG), NODES, minutes * 60, load, seed)
    ]
    click.echo(f"{len(jobs)} jobs in {minutes:g} minutes, {max(job.nodes for job in jobs)} nodes at most")
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        played: dict[bool, Played] = {}

        def play(with_freetrain: bool) -> None:
            port = 26000 + 100 * with_freetrain
            played[with_freetrain] = play_site(
                root / str(int(with_freetrain)), port, jobs, interval_s, behind, with_freetrain
            )

        threads = [threading.Thread(target=play, args=(each,)) for each in (False, True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if log_path:
            shutil.copy(root / "1" / "daemon.log", log_path)
    outcome = compare(played[False], played[True], interval_s)
    for name, value in outcome.items():
        click.echo(f"{name:40} {value}")
    if json_path:
        document = {"outcome": outcome, "without": asdict(played[False]), "with": asdict(played[True])}
        json_path.write_text(json.dumps(document))


def play_site(
    directory: Path, port: int, jobs: list[SiteJob], interval_s: int, behind: bool, with_freetrain: bool
) -> Played:
    """One site, from up to down."""
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
            time.sleep(3 + 2 * interval_s)
        else:
            time.sleep(3 + 2 * interval_s)
        site.submitted_s = {}
        from_s = time.time()
        site.play(jobs)
        until_s = time.time()
        site.wait_for(list(site.submitted_s), 1200)
        time.sleep(2)
        waited = delays_s(site.submitted_s, site.started_s())
        site.stop_daemon()
        own = [ran for ran in site.accounting("main") if ran.id not in first[1:]]
        return Played(waited, own, site.accounting("freetrain"), from_s, until_s, site.lab.node_names)
    finally:
        site.close()


def compare(without: Played, with_: Played, poll_s: float) -> dict[str, Any]:
    """The figures side by side."""
    added = [late - early for late, early in zip(with_.delays_s, without.delays_s, strict=True)]
    holes = holes_of(with_.site, with_.nodes, with_.from_s, with_.until_s)
    lent_s, total_s = lent_within_s(with_.fragments, holes, SHORTEST_HOLE_S)
    sizes = [(fewest, most) for _, fewest, most in TRAINERS]
    lent_hours = node_hours(with_.fragments, with_.from_s, with_.until_s)
    window_s = (without.from_s, without.until_s)
    predicted = predict_node_hours(without.site, sizes, without.nodes, window_s, poll_s)
    before, after = spread(without.delays_s), spread(with_.delays_s)
    return {
        "start delay without, p50/p95/max": str(before),
        "start delay with, p50/p95/max": str(after),
        "added delay per job, p50/p95/max": str(spread(added)),
        "difference of the p95s": f"{after.p95_s - before.p95_s:.2f} s",
        "idle node-hours": f"{holes.idle_node_hours:.3f}",
        "node-hours lent": f"{lent_hours:.3f}",
        "node-hours lent, as replayed beforehand": f"{predicted:.3f} ({predicted / lent_hours - 1:+.1%})",
        "lent of holes of 15 s and more": f"{lent_s / total_s:.1%}",
        "fragments": len(with_.fragments),
    }


if __name__ == "__main__":
    main()
