"""``python -m benchmarks.live.reaction``: from an idle node to a running fragment, by polls or by nudges."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import click

from benchmarks.live.figures import spread
from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab.options import LabOptions

NODES = 4


@click.command()
@click.option("--times", type=int, default=20, show_default=True)
@click.option("--poll", "poll_s", type=int, default=5, show_default=True, help="And Slurm's bf_interval.")
@click.option(
    "--nudged-poll", "nudged_poll_s", type=int, default=30, show_default=True, help="While nudges wake it."
)
@click.option("--only", type=click.Choice(["polls", "nudges"]), help="Only one of the two.")
def main(times: int, poll_s: int, nudged_poll_s: int, only: str | None) -> None:
    """Print the reaction times."""
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        parameters = f"bf_continue,bf_interval={poll_s},bf_resolution=60"
        options = LabOptions(
            nodes=NODES, accounting=True, base_port=28000, settings={"SchedulerParameters": parameters}
        )
        site = Site(Path(folder), options)
        try:
            site.submit_trainer("alice", NODES, "min=1")
            ways = {"polls": (poll_s, False), "nudges": (nudged_poll_s, True)}
            for how, (every_s, nudged) in ways.items():
                if only in (None, how):
                    took_s = measure(site, times, every_s, nudged)
                    said = (
                        f"{how}, one every {every_s} s" if not nudged else f"nudges, and a poll every {every_s} s"
                    )
                    click.echo(f"{said:32} p50/p95/max {spread(took_s)}, {times} times")
        finally:
            site.close()


def measure(site: Site, times: int, poll_s: float, nudged: bool) -> list[float]:
    """Seconds from the end of a job to a fragment on its node, at random phases of the poll."""
    dice = random.Random(1)
    site.start_daemon(poll_s, margin_s=poll_s + 2, shortest_hole_s=10)
    took_s = []
    try:
        for _ in range(times):
            wait_for_fragments(site, nudge=nudged)
            site.submit(SiteJob(0, 1, round(dice.uniform(3, 3 + 2 * min(poll_s, 5)), 2), 1))
            while site.run("bob", "squeue", "-h", "-a", "-t", "PD,R,CG", "-p", "main", "-o", "%i"):
                time.sleep(0.05)
            idle_s = time.monotonic()
            if nudged:
                site.freetrain("bob", "nudge")
            wait_for_fragments(site, nudge=False)
            took_s.append(time.monotonic() - idle_s)
    finally:
        site.stop_daemon()
    return took_s


def wait_for_fragments(site: Site, nudge: bool) -> None:
    """Until all nodes have one."""
    while len(site.run("bob", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%i").split()) < NODES:
        if nudge:
            site.freetrain("bob", "nudge")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
