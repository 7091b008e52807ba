"""A first configuration for the Slurm that is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.config import Config
from freetrain.slurm.layout import Question, judge
from freetrain.slurm.layout_facts import SlurmLayout


def propose(layout: SlurmLayout) -> Mapping[str, object]:
    """Setting, as ``lend.mode`` → its value, for those that this Slurm decides, or that an admin should see.

    Nothing is lent with it before ``lend.mode`` is changed.
    """
    defaults = Config()
    partition = choose_partition(layout)
    rules = layout.partitions.get(partition)
    most_s = rules.partition.max_time_s if rules else float("inf")
    return {
        "slurm.partition": partition,
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


def choose_partition(layout: SlurmLayout) -> str:
    """The partition that fragments may best run in: the one with freetrain's name, else the lowest that is safe.

    Where there is none, the name of the one that is to be made.
    """
    usual = Config().slurm.partition
    if usual in layout.partitions:
        return usual
    by_tier = sorted(layout.partitions.values(), key=lambda one: (one.partition.priority_tier, one.name))
    for rules in by_tier:
        if not rules.is_default and not any(one.is_unsafe for one in judge(Question(layout, rules.name))):
            return rules.name
    return usual
