"""A first configuration for the Slurm that is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from freetrain.config import Config
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.layout import judge
from freetrain.slurm.layout_facts import SlurmLayout
from freetrain.slurm.layout_question import BY_QOS, Question, preempted_most


def propose(layout: SlurmLayout) -> Mapping[str, object]:
    """Setting, as ``lend.mode`` → its value, for those that this Slurm decides, or that an admin should see.

    Nothing is lent with it before ``lend.mode`` is changed.
    """
    defaults = Config()
    queue = choose_queue(layout)
    rules = layout.partitions.get(queue.partition)
    most_s = rules.partition.max_time_s if rules else float("inf")
    return {
        "slurm.partition": queue.partition,
        **({"slurm.qos": queue.qos} if queue.qos else {}),
        "lend.mode": "observe",
        "lend.launcher": "steer",
        "lend.longest_fragment": min(defaults.lend.longest_fragment, most_s),
        "lend.spare_suspendable": layout.settings.suspend_s < float("inf"),
        "lend.fair_share": defaults.lend.fair_share,
        "pace.poll": min(defaults.pace.poll, max(1.0, layout.settings.backfill_interval_s)),
        "harm.limit": defaults.harm.limit,
        "state.directory": defaults.state.directory,
        "state.stop_file": defaults.state.stop_file,
    }


def choose_queue(layout: SlurmLayout) -> FragmentQueue:
    """Where fragments may best run: the partition with freetrain's name, else the lowest that is safe.

    Where there is none and Slurm preempts by QOS, the default partition, with the QOS that others preempt most;
    where it does not, the name of the partition that is to be made.
    """
    usual = FragmentQueue(Config().slurm.partition)
    if usual.partition in layout.partitions:
        return usual
    by_tier = sorted(layout.partitions.values(), key=lambda one: (one.partition.priority_tier, one.name))
    for rules in by_tier:
        queue = FragmentQueue(rules.name)
        if not rules.is_default and not any(one.is_unsafe for one in judge(Question(layout, queue))):
            return queue
    defaults = [FragmentQueue(one.name) for one in by_tier if one.is_default]
    if layout.settings.preempt_type == BY_QOS and defaults:
        return replace(defaults[0], qos=preempted_most(layout) or usual.partition)
    return usual
