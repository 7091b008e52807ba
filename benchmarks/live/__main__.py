"""``python -m benchmarks.live``: workloads on virtual sites with and without freetrain, all at once."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import click

from benchmarks.live.play import NODES, PORTS, compare, play_all, play_site
from benchmarks.live.workload import SAMPLE_LOG, draw, read_samples


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
@click.option(
    "--seed", "seeds", type=int, multiple=True, default=(1, 2, 3, 4), show_default=True, help="One workload each."
)
@click.option(
    "--port", type=int, default=26000, show_default=True, help=f"First of {PORTS} free ports for each workload."
)
@click.option("--daemon-logs", "logs", type=click.Path(path_type=Path), help="Folder for what the daemons said.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    minutes: float,
    interval_s: int,
    load: float,
    behind: bool,
    seeds: tuple[int, ...],
    port: int,
    logs: Path | None,
    json_path: Path | None,
) -> None:
    """Play the workloads and print what came of them."""
    # Behind a job for all nodes, whoever wants more than what is left would wait for as long as it does.
    largest = NODES // 2 if behind else NODES
    samples = read_samples(SAMPLE_LOG)
    workloads = [
        [replace(job, nodes=min(job.nodes, largest)) for job in draw(samples, NODES, minutes * 60, load, seed)]
        for seed in seeds
    ]
    click.echo(f"{' + '.join(str(len(jobs)) for jobs in workloads)} jobs in {minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        play = partial(play_site, interval_s=interval_s, behind=behind)
        comparisons = play_all(root, port, workloads, play)
        if logs:
            logs.mkdir(parents=True, exist_ok=True)
            for log in root.glob("with-*/daemon.log"):
                shutil.copy(log, logs / f"{log.parent.name}.log")
    outcome = compare(comparisons, interval_s)
    for name, value in outcome.lines():
        click.echo(f"{name:40} {value}")
    if json_path:
        document = {"outcome": asdict(outcome), "workloads": list(map(asdict, comparisons))}
        json_path.write_text(json.dumps(document))


if __name__ == "__main__":
    main()
