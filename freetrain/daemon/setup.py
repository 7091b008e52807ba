"""What the configuration asks for, put together."""

from __future__ import annotations

from freetrain.config import Config
from freetrain.core.lendable import LendingRules
from freetrain.core.lent_trainer import Patience
from freetrain.core.shadow import BackfillRules
from freetrain.daemon.sharing.claimants import FairShare, Sharing
from freetrain.daemon.sight import Manners
from freetrain.daemon.watch import HarmLimits
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.patterns import PatternReader, act_as
from freetrain.slurm.settings import SlurmSettings
from freetrain.slurm.steering import Steering
from freetrain.slurm.submitting import Submitting


def manners_of(config: Config, settings: SlurmSettings) -> Manners:
    """How the site wants it done, on a Slurm with these settings."""
    rhythm_s = max(config.pace.poll, settings.backfill_interval_s)
    lend, pace, harm = config.lend, config.pace, config.harm
    return Manners(
        rules=LendingRules(
            partition=config.slurm.partition,
            exclude=expand_nodes(lend.exclude_nodes),
            reserve_nodes=lend.reserve_nodes,
            most_nodes=lend.most_nodes,
            idle_for_s=lend.idle_for,
            shortest_hole_s=lend.shortest_hole,
            margin_s=lend.margin,
            # Slurm needs a plan and a start: two of its cycles, as seen by a poll after each.
            claim_s=2 * rhythm_s + 5,
            backfill=BackfillRules(
                settings.backfill_resolution_s, settings.backfill_window_s, settings.backfill_most_jobs
            ),
        ),
        horizon_s=config.decide.horizon,
        longest_fragment_s=lend.longest_fragment,
        max_running=lend.max_running,
        cool_down_s=pace.cool_down,
        planning_s=settings.backfill_interval_s + settings.backfill_resolution_s,
        start_within_s=2 * settings.backfill_interval_s + rhythm_s,
        patience=Patience(pace.back_off, pace.failures_to_pause),
        harm=HarmLimits(harm.limit, harm.within, harm.allowed, harm.pause),
        objective=config.decide.objective,
        sharing=Sharing(
            FairShare(lend.fair_share),
            lend.half_life,
            lend.shares,
            lend.most_nodes_per_user,
            lend.most_nodes_per_account,
            lend.most_trainers_per_user,
        ),
        default_memory_mb=settings.default_memory_mb,
    )


def launcher_of(config: Config, gateway: Gateway) -> Launcher:
    """The launcher that the site wants."""
    if config.lend.launcher == "steer":
        return Steering()
    return Submitting(config.slurm.partition, PatternReader(gateway), act_as)
