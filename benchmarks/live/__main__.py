"""``python -m benchmarks.live``: one workload on three virtual sites at once, with and without freetrain."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import click

from benchmarks.live.play import NODES, PORTS, compare, play_all
from benchmarks.live.workload import draw, read_samples

LOG = Path(__file__).parents[2] / "sample_logs" / "small-cluster.sacct.gz"


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
@click.option("--port", type=int, default=26000, show_default=True, help=f"First of {PORTS} free ports.")
@click.option("--daemon-log", "log_path", type=click.Path(path_type=Path), help="Keep what the daemon said.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    minutes: float,
    interval_s: int,
    load: float,
    behind: bool,
    seed: int,
    port: int,
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
        without, again, with_ = play_all(root, port, jobs, interval_s, behind)
        if log_path:
            shutil.copy(root / "with" / "daemon.log", log_path)
    outcome = compare(without, again, with_, interval_s)
    for name, value in outcome.lines():
        click.echo(f"{name:40} {value}")
    if json_path:
        document = {
            "outcome": asdict(outcome),
            "without": asdict(without),
            "again": asdict(again),
            "with": asdict(with_),
        }
        json_path.write_text(json.dumps(document))


if __name__ == "__main__":
    main()
