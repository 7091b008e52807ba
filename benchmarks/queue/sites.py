"""Simulated sites: their machine, their jobs, how they lend, and one of them played to its end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples
from benchmarks.queue.daemon import Habits, SimulatedDaemon
from benchmarks.queue.slurm import PARTITION, Pace, SimulatedSlurm
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import prior_curve
from freetrain.core.trainer import Trainer
from freetrain.lending.rules import FairShare, FragmentRules, HarmRules, NodeRules, Rules, SharingRules
from freetrain.lending.shadow import BackfillRules

NODES = 16
TRAINERS = [
    Trainer(str(number), prior_curve(most), fewest, most, scale_up_s=0.5, scale_down_s=0.5, start_s=10.0)
    for number, (fewest, most) in enumerate(((1, 8), (1, 8), (1, 16), (2, 16)))
]


def workloads_of(sites: int, minutes: float, load: float) -> list[list[SiteJob]]:
    """The jobs of so many sites, which fill this share of the machine."""
    samples = read_samples(SAMPLE_LOG)
    return [
        [replace(job, nodes=min(job.nodes, NODES)) for job in draw(samples, NODES, 60 * minutes, load, seed)]
        for seed in range(sites)
    ]


def rules_of(bf_interval_s: float, next_within_s: float = 60.0) -> Rules:
    """How these sites lend."""
    backfill = BackfillRules(interval_s=bf_interval_s, window_s=7 * 86400.0)
    return Rules(
        NodeRules(
            FragmentQueue(PARTITION), shortest_hole_s=15.0, margin_s=15.0, claim_s=2 * bf_interval_s + 5,
            next_within_s=next_within_s, backfill=backfill,
        ),
        FragmentRules(3600.0, bf_interval_s + 60, 3 * bf_interval_s),
        HarmRules(60.0, 3600.0, 10**9, 0.0),
        SharingRules(FairShare.OFF),
        "speedup",
        120.0,
    )  # fmt: skip


def play(
    jobs: Sequence[SiteJob], rules: Rules, habits: Habits | None, seed: int, lends_until_s: float | None = None
) -> tuple[SimulatedSlurm, list[Harm]]:
    """One site, and the delays that its daemon counted; without habits it has no daemon.

    Args:
        jobs: the site's.
        rules: how it lends.
        habits: when its daemon looks.
        seed: draws how long things take.
        lends_until_s: from then on there are no fragments; None: it lends to the end.
    """
    slurm = SimulatedSlurm(NODES, jobs, rules.nodes.backfill, Pace(), random.Random(seed))
    harms = SimulatedDaemon(slurm, rules, habits, TRAINERS).harms if habits is not None else []
    if lends_until_s is not None:
        slurm.at(lends_until_s, slurm.lend_no_more)
    slurm.run()
    return slurm, harms
