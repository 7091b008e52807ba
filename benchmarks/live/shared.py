"""``python -m benchmarks.live.shared``: sites whose jobs share nodes, with and without freetrain, all at once.

Each site has nodes of eight GPUs of two types, three partitions that overlap, and preemption by QOS: fragments
run in the site's own partition. Each workload is played on three of them, on one of which freetrain lends; what
differs between the two others is chance.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click
from ClusterShell.NodeSet import NodeSet

from benchmarks.live.figures import spread
from benchmarks.live.gpu_figures import GpuSeconds, gpu_seconds
from benchmarks.live.play import (
    PORTS,
    SITES,
    Comparison,
    Played,
    added_delays_s,
    play_all,
    play_workload,
    played_on,
)
from benchmarks.live.site import TRAINER, Site
from benchmarks.live.workload import SiteJob, lengthened, shifted
from freetrain.lab.options import LabOptions

NODES, GPUS = 4, 8
TYPES = ("a100", "h100")
PARTITIONS = {"first": "Nodes=n[001-003]", "last": "Nodes=n[002-004]"}
QOS = "spare"
TRAINERS = (("alice", 1, 16, "1"), ("alice", 1, 8, "2"), ("bob", 1, 32, "1"), ("bob", 1, 8, "h100:1"))
"""Owner, fewest and most tasks, and the GPUs of each."""
SHORTEST_HOLE_S = 15.0
BOOT_S = 3.0
"""What a fragment is taken to need before it trains."""
LATE_S = 10.0
LONG_S = 5.0
_MEMORY = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerCPU": "20"}
_ENDED = Path(__file__).parents[2] / "etc/slurm/jobcomp.lua"
_SUBMITTED = """
function slurm_job_submit()
    local file = io.open("{wake}", "a")
    if file then file:write(".") file:close() end
    return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
return slurm.SUCCESS
"""
"""Trainers come as their owners submit them: the plug-in of etc/slurm would have them lent whole nodes."""


def draw_shares(duration_s: float, load: float, seed: int) -> list[SiteJob]:
    """Jobs of 1 to 8 GPUs and 5 to 120 s; one in ten wants two nodes.

    Args:
        duration_s: submissions end by then.
        load: share of the GPUs that the jobs would fill if none had to wait.
        seed: draws all of it.
    """
    dice = random.Random(seed)
    jobs, work = [], 0.0
    while work < load * NODES * GPUS * duration_s:
        gpus = dice.choices((1, 2, 3, 4, 6, 8), (30, 25, 5, 20, 5, 15))[0]
        nodes = 2 if dice.random() < 0.1 else 1
        run_s = round(math.exp(dice.uniform(math.log(5), math.log(120))), 1)
        kind = f"{dice.choice(TYPES)}:" if nodes == 1 and dice.random() < 0.3 else ""
        partition = dice.choices(("main", *PARTITIONS), (2, 1, 1))[0]
        limit_min = math.ceil(run_s * dice.uniform(1.1, 3.0) / 60)
        jobs.append(
            SiteJob(round(dice.uniform(0, duration_s), 2), nodes, run_s, limit_min, f"{kind}{gpus}", partition)
        )
        work += nodes * gpus * run_s
    return sorted(jobs, key=lambda job: job.at_s)


def play_shared(
    directory: Path, port: int, jobs: list[SiteJob], with_freetrain: bool, *, interval_s: int, lend: str = ""
) -> Played:
    """One site, from up to down; ``lend`` are more settings of [lend]."""
    directory.mkdir(parents=True)
    site = Site(directory, options_of_shares(directory, port, interval_s))
    try:
        set_up_qos(site)
        if with_freetrain:
            for person, fewest, most, gpus in TRAINERS:
                submit_part(site, person, most, f"min={fewest},max={most}", gpus)
            start_daemon(site, interval_s, lend)
        window_s = play_workload(site, jobs, 5 + 2 * interval_s)
        own = site.accounting(",".join(("main", *PARTITIONS)), "normal")
        may_use = {id_: nodes_for(job, site.lab.options) for id_, job in site.jobs.items()}
        return played_on(site, own, site.accounting("main", QOS), window_s, GPUS, may_use)
    finally:
        site.close()


def nodes_for(job: SiteJob, options: LabOptions) -> frozenset[str]:
    """Those of the partition and with the type of GPUs that a job asks for."""
    within = NodeSet(PARTITIONS.get(job.partition, "").removeprefix("Nodes=")) or NodeSet.fromlist(
        options.node_names
    )
    wanted = job.gpus.rpartition(":")[0]
    return frozenset(
        name for kind, names in options.gpu_kinds if wanted in ("", kind) for name in names if name in within
    )


def options_of_shares(directory: Path, port: int, interval_s: int) -> LabOptions:
    """A lab whose submissions and ends of jobs wake the daemon; without one Slurm does the same work."""
    wake = directory / "wake"
    submitted, ended = directory / "job_submit.lua", directory / "jobcomp.lua"
    submitted.write_text(_SUBMITTED.format(wake=wake))
    ended.write_text(_ENDED.read_text().replace("/var/lib/freetrain/wake", str(wake)))
    planning = f"bf_continue,bf_interval={interval_s},bf_window=10080,bf_resolution=60"
    settings = {"SchedulerParameters": planning, "PreemptType": "preempt/qos", **_MEMORY}
    return LabOptions(
        nodes=NODES, cpus=2 * GPUS, gpus=GPUS, gpu_type=",".join(TYPES), exclusive=False, partitions=PARTITIONS,
        accounting=True, base_port=port, settings=settings, job_submit=submitted, job_comp=ended,
    )  # fmt: skip


def set_up_qos(site: Site) -> None:
    """Fragments have a QOS of their own, which the site's jobs preempt."""
    for command in (
        f"add qos {QOS} PreemptMode=requeue GraceTime=0 UsageFactor=0",
        f"modify qos normal set Preempt+={QOS}",
        f"modify account ml set QOS+={QOS}",
    ):
        site.run("root", "sacctmgr", "-i", "-Q", *command.split())


def start_daemon(site: Site, interval_s: int, lend: str = "") -> None:
    """One that lends parts of nodes; ``lend`` are more settings of [lend]."""
    slurm = f'[slurm]\npartition = "main"\nqos = "{QOS}"\n'
    (site.directory / "wake").symlink_to(site.directory / "state/wake")
    lend = f'share = "gpus"\n{lend}'
    site.start_daemon(interval_s, interval_s + 2, SHORTEST_HOLE_S, more=slurm, lend=lend)
    wake = site.directory / "state/wake"
    while "mode act" not in site.daemon_says or not wake.exists():
        time.sleep(0.2)
    shutil.chown(wake, group="slurm")


def submit_part(site: Site, person: str, tasks: int, tag: str, gpus: str, script: str = TRAINER) -> str:
    """Submit a trainer each of whose tasks takes so many GPUs of a node."""
    options = ("-p", "main", f"--qos={QOS}", f"--gpus-per-node={gpus}")
    return site.submit_trainer(person, tasks, tag, script, *options)


def seconds_of(played: Played) -> GpuSeconds:
    """What its GPUs did."""
    gpus = dict.fromkeys(played.nodes, GPUS)
    window_s = (played.from_s, played.until_s)
    return gpu_seconds(played.site, played.fragments, gpus, window_s, BOOT_S, (15.0, 30.0, 60.0))


def lines_of(comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    """What is printed."""
    found = []
    for site, of in zip(SITES, ("without", "again", "with_"), strict=True):
        delays = [delay_s for one in comparisons for delay_s in getattr(one, of).delays_s]
        found.append((f"start delay {site}, p50/p95/max", str(spread(delays))))
        first = [wait_s for one in comparisons for wait_s in getattr(one, of).first_s]
        long = sum(wait_s >= LONG_S for wait_s in first)
        words = f"{statistics.mean(first):.2f} s of {len(first)}, {long} of them {LONG_S:g} s or more"
        found.append((f"wait of the first in line {site}, mean", words))
    for site, of in zip(SITES[1:], ("again", "with_"), strict=True):
        added = added_delays_s((one.without, getattr(one, of)) for one in comparisons)
        late, early = (sum(sign * each > LATE_S for each in added) / len(added) for sign in (1, -1))
        words = (
            f"{statistics.mean(added):+.2f} s ({_interval(added)}), {late:.1%} later by 10 s, {early:.1%} earlier"
        )
        found.append((f"added delay {site}, mean", words))
        found.append((f"added delay {site}, p50/p95/max", str(spread(added))))
    sums = [seconds_of(one.with_) for one in comparisons]
    idle, lent, useful = (sum(getattr(one, name) for one in sums) for name in ("idle", "lent", "useful"))
    found.append(("GPU-seconds idle, lent, useful", f"{idle:.0f}, {lent:.0f} ({lent / idle:.1%}), {useful:.0f}"))
    for least_s in sums[0].in_holes:
        whole = sum(one.in_holes[least_s][0] for one in sums)
        part = sum(one.in_holes[least_s][1] for one in sums)
        found.append(
            (f"lent of holes of {least_s:g} s and more", f"{part / whole:.1%} of {whole:.0f} GPU-seconds")
        )
    runs = [one.state.split()[0] for played in comparisons for one in played.with_.fragments]
    found.append(("fragments, preempted by Slurm", f"{len(runs)}, {runs.count('PREEMPTED')}"))
    states = {one.state.split()[0] for played in comparisons for one in played.with_.site}
    found.append(("jobs of the site ended as", ", ".join(sorted(states))))
    return found


def _interval(values: Sequence[float]) -> str:
    """95 % of the means of samples drawn from these."""
    dice = random.Random(0)
    means = sorted(statistics.fmean(dice.choices(values, k=len(values))) for _ in range(2000))
    return f"{means[50]:+.2f} to {means[-51]:+.2f} s"


@click.command()
@click.option("--minutes", type=float, default=20.0, show_default=True)
@click.option(
    "--bf-interval", "interval_s", type=int, default=5, show_default=True, help="Slurm's, and the poll's."
)
@click.option("--load", type=float, default=0.7, show_default=True, help="Share of the GPUs that the jobs fill.")
@click.option(
    "--seed", "seeds", type=int, multiple=True, default=(1,), show_default=True, help="One workload each."
)
@click.option(
    "--port", type=int, default=26000, show_default=True, help=f"First of {PORTS} free ports for each seed."
)
@click.option(
    "--shift", "shift_s", type=float, default=0.0, help="Submissions of the second site are up to so much later."
)
@click.option(
    "--longer", "longer_s", type=float, default=0.0, help="Jobs of the second site run up to so much longer."
)
@click.option("--lend", default="", help="More settings of [lend].")
@click.option("--daemon-logs", "logs", type=click.Path(path_type=Path), help="Folder for what the daemons said.")
@click.option("--json", "json_path", type=click.Path(path_type=Path))
def main(
    minutes: float, interval_s: int, load: float, seeds: tuple[int, ...], port: int, shift_s: float,
    longer_s: float, lend: str, logs: Path | None, json_path: Path | None,
) -> None:  # fmt: skip
    """Play the workloads and print what came of them."""
    workloads = [draw_shares(minutes * 60, load, seed) for seed in seeds]
    again = [
        lengthened(shifted(jobs, shift_s, seed), longer_s, seed)
        for jobs, seed in zip(workloads, seeds, strict=True)
    ]
    click.echo(f"{' + '.join(str(len(jobs)) for jobs in workloads)} jobs in {minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        comparisons = play_all(
            root, port, workloads, partial(play_shared, interval_s=interval_s, lend=lend), again
        )
        if logs:
            logs.mkdir(parents=True, exist_ok=True)
            for log in root.glob("with-*/daemon.log"):
                shutil.copy(log, logs / f"{log.parent.name}.log")
    for name, value in lines_of(comparisons):
        click.echo(f"{name:40} {value}")
    if json_path:
        json_path.write_text(json.dumps({"workloads": list(map(asdict, comparisons))}))


if __name__ == "__main__":
    main()
