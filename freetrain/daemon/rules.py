"""The rules of a site, as its configuration and its Slurm give them."""

from __future__ import annotations

import re
from math import inf

from freetrain.config import Config
from freetrain.daemon.trainers.training import Patience, RosterRules
from freetrain.lending.rules import (
    FairShare,
    FragmentRules,
    HarmRules,
    NodeRules,
    PowerRules,
    Rules,
    Share,
    SharingRules,
)
from freetrain.lending.shadow import BackfillRules
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.parsing import expand_nodes, parse_amount
from freetrain.slurm.settings import SlurmSettings


def rules_of(config: Config, settings: SlurmSettings) -> Rules:
    """Rules by which the site wants its nodes lent, on a Slurm with these settings."""
    lend, pace, harm = config.lend, config.pace, config.harm
    return Rules(
        nodes=NodeRules(
            queue=config.slurm.queue,
            exclude=expand_nodes(lend.exclude_nodes),
            reserve_nodes=lend.reserve_nodes,
            most_nodes=lend.most_nodes,
            idle_for_s=lend.idle_for,
            shortest_hole_s=lend.shortest_hole,
            margin_s=lend.margin,
            # Slurm needs a plan and a start: two of its cycles, as seen by a poll after each.
            claim_s=2 * _rhythm_s(config, settings) + 5,
            cool_down_s=pace.cool_down,
            next_within_s=lend.next_in_line,
            power=_power(settings) if lend.spare_suspendable else None,
            share=Share(lend.share),
            keep=parse_amount(lend.keep),
            backfill=BackfillRules(
                settings.backfill_interval_s,
                settings.backfill_resolution_s,
                settings.backfill_window_s,
                settings.backfill_most_jobs,
            ),
        ),
        fragments=FragmentRules(
            longest_s=lend.longest_fragment,
            planning_s=settings.backfill_interval_s + settings.backfill_resolution_s,
            start_within_s=_start_within_s(config, settings),
        ),
        harm=HarmRules(harm.limit, harm.within, harm.allowed, harm.pause, harm.evictions),
        sharing=SharingRules(
            FairShare(lend.fair_share),
            lend.half_life,
            lend.shares,
            lend.max_running,
            lend.most_nodes_per_user,
            lend.most_nodes_per_account,
            lend.most_trainers_per_user,
        ),
        objective=config.decide.objective,
        horizon_s=config.decide.horizon,
        draw=config.prices.draw,
    )


def roster_rules_of(config: Config, settings: SlurmSettings, launcher: Launcher) -> RosterRules:
    """Rules by which trainers are dealt with."""
    return RosterRules(
        runs_tasks=launcher.runs_tasks,
        patience=Patience(config.pace.back_off, config.pace.failures_to_pause),
        start_within_s=_start_within_s(config, settings),
        queue=config.slurm.queue,
        objective=config.decide.objective,
        default_memory_mb=settings.default_memory_mb,
        shares_out_memory=settings.shares_out_memory,
        share=Share(config.lend.share),
        freezers=frozenset(config.freeze.launch),
    )


def _power(settings: SlurmSettings) -> PowerRules | None:
    """Rules for nodes that Slurm powers down; None: it powers nothing down."""
    if settings.suspend_s == inf:
        return None
    nodes, partitions = settings.suspend_not
    # Of ``c[1-9]:4`` Slurm keeps any four up, so that none of the nine is sure to stay.
    sure = ",".join(part for part in re.split(r",(?![^\[]*\])", nodes) if ":" not in part)
    return PowerRules(expand_nodes(sure), frozenset(filter(None, partitions.split(","))))


def _rhythm_s(config: Config, settings: SlurmSettings) -> float:
    return max(config.pace.poll, settings.backfill_interval_s)


def _start_within_s(config: Config, settings: SlurmSettings) -> float:
    return 2 * settings.backfill_interval_s + _rhythm_s(config, settings)
