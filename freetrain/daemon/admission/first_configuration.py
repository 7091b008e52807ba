"""A first configuration for the Slurm that is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.config import Config
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.site.advice import best_plan
from freetrain.slurm.site.facts import BY_PARTITION, BY_QOS, Site
from freetrain.slurm.site.harm import Premise, judge_harm


def propose(site: Site) -> Mapping[str, object]:
    """Setting, as ``lend.mode`` → its value, for those that this Slurm decides, or that an admin should see.

    Nothing is lent with it before ``lend.mode`` is changed.
    """
    defaults = Config()
    queue = choose_queue(site)
    own = site.partitions.get(queue.partition)
    most_s = own.partition.max_time_s if own else float("inf")
    return {
        "slurm.partition": queue.partition,
        **({"slurm.qos": queue.qos} if queue.qos else {}),
        "lend.mode": "observe",
        "lend.launcher": "steer",
        "lend.longest_fragment": min(defaults.lend.longest_fragment, most_s),
        "lend.spare_suspendable": site.settings.suspend_s < float("inf"),
        "lend.fair_share": defaults.lend.fair_share,
        "pace.poll": min(defaults.pace.poll, max(1.0, site.settings.backfill_interval_s)),
        "harm.limit": defaults.harm.limit,
        "state.directory": defaults.state.directory,
        "state.stop_file": defaults.state.stop_file,
    }


def choose_queue(site: Site) -> FragmentQueue:
    """Where fragments may best run: in a partition that is safe as it is, else where the fewest lines change."""
    usual = FragmentQueue(Config().slurm.partition)
    if usual.partition not in site.partitions and site.settings.preempt_type in (BY_PARTITION, BY_QOS):
        by_tier = sorted(site.partitions.values(), key=lambda one: (one.partition.priority_tier, one.name))
        for own in by_tier:
            queue = FragmentQueue(own.name)
            if not any(finding.is_unsafe for finding in judge_harm(site, Premise(queue))):
                return queue
    plan = best_plan(site, Premise(usual))
    return plan.queue if plan else usual
