"""A site whose ends of jobs wake the daemon, as etc/slurm/jobcomp.lua does."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.live.site import Site
from freetrain.lab.options import LabOptions

SHORTEST_HOLE_S, POLL_S = 15.0, 5
WAKE = Path(__file__).parents[2] / "etc/slurm/jobcomp.lua"


def options_with_wakes(directory: Path, nodes: int, port: int) -> LabOptions:
    """A lab with accounting whose ends of jobs touch ``directory/wake``."""
    wakes = directory / "freetrain.lua"
    wakes.write_text(WAKE.read_text().replace("/var/lib/freetrain/wake", str(directory / "wake")))
    planning = {"SchedulerParameters": f"bf_continue,bf_interval={POLL_S},bf_window=10080,bf_resolution=60"}
    return LabOptions(nodes=nodes, accounting=True, base_port=port, settings=planning, job_comp=wakes)


def start_daemon(site: Site) -> None:
    """With ends of jobs that wake it."""
    wake = site.directory / "state/wake"
    if not (site.directory / "wake").is_symlink():
        (site.directory / "wake").symlink_to(wake)
    site.start_daemon(POLL_S, margin_s=POLL_S + 2, shortest_hole_s=SHORTEST_HOLE_S)
    while "mode act" not in site.daemon_says or not wake.exists():
        time.sleep(0.2)
    shutil.chown(wake, group="slurm")
