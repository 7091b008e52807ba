"""Fillers: arrays of ordinary programs, as a policy sees them. Pure."""

from __future__ import annotations

from math import inf

from freetrain.core.curves import linear_curve
from freetrain.core.fragment import FragmentState
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers.entries import Entry
from freetrain.slurm.tags import Tag


def filler(entry: Entry, tag: Tag, most_nodes: int, now_s: float) -> Trainer:
    """An independent trainer: each node does as much as the first, and one that leaves costs only its own task.

    What a known end costs says also which holes are of no use: a task that starts in one which ends before
    ``boot + start + shortest`` is worth nothing.

    Args:
        entry: the array.
        tag: what its owner says of it.
        most_nodes: that it can use now, one for each task.
        now_s: UTC epoch seconds.
    """
    return Trainer(
        id=entry.trainer.id,
        throughput=linear_curve(most_nodes),
        max_nodes=most_nodes,
        scale_up_s=0.0,
        scale_down_s=lost_s(entry, tag, now_s),
        forced_loss_s=known_end_s(tag),
        start_s=tag.start_s,
        boot_s=tag.boot_s,
        weight=tag.weight,
        submitted_s=entry.trainer.first_seen_s,
        independent=True,
    )


def lost_s(entry: Entry, tag: Tag, now_s: float) -> float:
    """What one of its tasks has done and would lose if it had to end now, in the mean of those that run."""
    running = [fragment for fragment in entry.fragments if fragment.state is FragmentState.RUNNING]
    ran_s = [max(now_s - fragment.started_s, 0.0) for fragment in running if fragment.started_s is not None]
    most_s = most_lost_s(tag)
    return sum(min(each, most_s) for each in ran_s) / len(ran_s) if ran_s else 0.0


def most_lost_s(tag: Tag) -> float:
    """What the end of a task loses of all that it has done: half of the time from one checkpoint to the next."""
    if tag.notice:
        return 0.0
    return tag.save_s / 2 if tag.save_s else inf


def known_end_s(tag: Tag) -> float:
    """What it costs that a task ends at a known time: no less than a run that is just of use."""
    saves_s = 0.0 if tag.notice else tag.save_s
    shortest_s = saves_s if tag.shortest_s is None else tag.shortest_s
    return max(shortest_s, saves_s / 2)
