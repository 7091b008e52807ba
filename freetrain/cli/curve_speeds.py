"""What ``freetrain curve`` tells of kinds of nodes: how fast the daemon has learned that a trainer is on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from freetrain.config import load_config
from freetrain.core.throughput import Observation
from freetrain.daemon.reports.standing import find_standing
from freetrain.errors import InputError
from freetrain.replay.trainers import UNNAMED


@dataclass(frozen=True, slots=True)
class Learned:
    """What the daemon has learned.

    Attributes:
        speeds: kind of nodes that the trainer's owner names → how fast it is there; on others its speed is 1.
        at_speed_1: what was seen, as it would have been at speed 1; empty: nothing was.
    """

    speeds: Mapping[str, float] = field(default_factory=dict)
    at_speed_1: Sequence[Observation] = ()

    @property
    def for_the_tag(self) -> str:
        """A sentence with the part of a tag that says it."""
        return f"For its tag: speed={'/'.join(f'{kind}:{speed:g}' for kind, speed in self.speeds.items())}"

    @property
    def choices(self) -> Mapping[str, Any]:
        """The field of a trainer for replays that says it; empty: there is nothing to say."""
        if not self.speeds:
            return {}
        each = {**self.speeds, UNNAMED: 1.0}
        return {"choices": [{"kinds": [kind], "speed": speed} for kind, speed in each.items()]}


NOTHING_LEARNED = Learned()


def learned_of(job: str, config_path: Path | None) -> Learned:
    """What the daemon with this configuration published last of a job.

    Raises:
        InputError: it has published nothing of it, or its owner names no kinds of nodes.
    """
    standing = find_standing(load_config(config_path).config)
    known = standing.trainers.get(job)
    if known is None:
        why = f"the daemon has published nothing of a training {job}"
        raise InputError(f"{why}.", "'freetrain jobs' lists the trainings that it knows.")
    if not known.speeds:
        raise InputError(
            f"The tag of {job} names no kinds of nodes, so nobody learned how fast it is on them.",
            "Say what you believe, as speed=a100:1/v100:0.4 (docs/submitting.md).",
        )
    return Learned(known.speeds, tuple(Observation(nodes, rate) for nodes, rate in known.seen_rates.items()))
