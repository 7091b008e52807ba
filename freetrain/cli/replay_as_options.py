"""The options of ``freetrain replay`` about how the daemon would go about it, and what they become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.cli.replay_options import draw
from freetrain.cli.times import Duration
from freetrain.config import Config, load_config
from freetrain.daemon.rules import rules_of
from freetrain.errors import InputError
from freetrain.lending.rules import Share
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.timing import Timing, Wakes
from freetrain.replay.foresight import Knows
from freetrain.replay.study import AsDaemon
from freetrain.slurm.settings import SlurmSettings, parse_settings

_DURATION = Duration()
_USUAL = Timing()
_ORDINARY_SLURM = SlurmSettings("", "", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
"""A log does not say how Slurm was set up: these are its defaults."""


as_options = options(
    click.option(
        "--as",
        "played_as",
        metavar="HOW",
        default="daemon",
        show_default=True,
        help="daemon: what the daemon would get and what the site's jobs would feel, beside what the holes allow; "
        "daemon=FILE: the same with these settings of the daemon's (freetrain.toml); ideal: what the holes allow "
        "alone, which is quicker.",
    ),
    click.option(
        "--exact",
        is_flag=True,
        help="As daemon: replay every hour. Of a log that would take more than a minute only some hours are "
        "replayed as the daemon otherwise, and what it gets is told with an interval.",
    ),
    click.option(
        "--wake", is_flag=True, help="As daemon: submissions and ends wake it, besides its polls (docs/daemon.md)."
    ),
    click.option(
        "--bf-interval",
        "backfill_s",
        type=Duration(least_s=1),
        help=f"As daemon: Slurm's bf_interval, which no log tells [default: that of --slurm-conf, else "
        f"{_ORDINARY_SLURM.backfill_interval_s:g}s].",
    ),
    click.option(
        "--evict",
        "evict_s",
        type=_DURATION,
        help="As daemon: from the start of a job of the site's until Slurm has ended the fragments on its nodes "
        f"[default: GraceTime of --slurm-conf and {_USUAL.evict_s:g}s].",
    ),
    click.option(
        "--slurm-conf",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="As daemon: the site's slurm.conf, for how its Slurm plans and preempts (SchedulerParameters, "
        "PreemptExemptTime, GraceTime of freetrain's partition).",
    ),
    click.option(
        "--launch",
        "launch_s",
        type=_DURATION,
        default=f"{_USUAL.launch_s:g}s",
        show_default=True,
        help="As daemon: from the order until Slurm has started a fragment.",
    ),
)


def as_daemon(given: Mapping[str, Any], goal: Goal, in_parts: bool = False) -> AsDaemon | None:
    """How a daemon would go about it; None: that is not asked.

    Args:
        given: the command's options.
        goal: what is wanted, where no settings of a daemon's say it.
        in_parts: whether it lends parts of nodes, by ``--share``, rather than whole ones.

    Raises:
        InputError: there is no such way to replay.
        ConfigError: the daemon's settings are wrong.
    """
    how, equals, path = given["played_as"].partition("=")
    if given["played_as"] == "ideal":
        return None
    if how != "daemon" or (equals and not path):
        raise InputError(
            f"--as {given['played_as']} is not a way to replay.", "Give ideal, daemon, or daemon=FILE."
        )
    config = load_config(Path(path)).config if path else Config()
    slurm, grace_s = _slurm_of(given["slurm_conf"], config.slurm.partition)
    if given["backfill_s"] is not None:
        slurm = replace(slurm, backfill_interval_s=given["backfill_s"])
    rules = rules_of(config, slurm)
    rules = replace(rules, nodes=replace(rules.nodes, share=Share(given["share"]) if in_parts else Share.WHOLE))
    if path:
        decide = config.decide
        policy = find_policy(decide.policy_with_options, given["solver"], given["time_limit_s"])
        goal = Goal.of(policy, decide.objective)
    else:
        sharing = replace(rules.sharing, max_running=given["max_running"])
        rules = replace(rules, sharing=sharing, objective=goal.objective, horizon_s=given["horizon_s"])
    rules = replace(rules, draw=draw(given, goal.objective))
    rules = replace(rules, by_age=given["foresight"] in (Knows.LEARNED, Knows.PLAN))
    boot_s = _USUAL.boot_s if given["boot"] is None else given["boot"]
    wakes = Wakes() if given["wake"] else None
    evict_s = _USUAL.evict_s + grace_s if given["evict_s"] is None else given["evict_s"]
    timing = Timing(config.pace.poll, wakes, launch_s=given["launch_s"], boot_s=boot_s, evict_s=evict_s)
    return AsDaemon(rules, goal, timing)


def _slurm_of(path: Path | None, partition: str) -> tuple[SlurmSettings, float]:
    """How the site's Slurm plans, and for how long fragments may go on that it preempts; else the defaults.

    Raises:
        InputError: the file cannot be read.
    """
    if path is None:
        return _ORDINARY_SLURM, 0.0
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}.", "Give the site's slurm.conf with --slurm-conf."
        ) from None
    values, grace_s = read_slurm_conf(text, partition)
    # Slurm itself shows its settings as "Name = value".
    shown = "\n".join(f"{name} = {value}" for name, value in {"PreemptType": "preempt/none", **values}.items())
    return parse_settings(shown), grace_s


def read_slurm_conf(text: str, partition: str) -> tuple[Mapping[str, str], float]:
    """Settings of a slurm.conf by name, and the grace time of a partition, in seconds."""
    values: dict[str, str] = {}
    grace_s: dict[str, float] = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = line.partition("#")[0].strip()
        name, equals, value = (part.strip() for part in line.partition("="))
        if name.lower() == "partitionname":
            grace = re.search(r"\bGraceTime\s*=\s*(\d+)", line, re.IGNORECASE)
            grace_s[value.split()[0] if value else ""] = float(grace[1]) if grace else grace_s.get("DEFAULT", 0.0)
        elif equals:
            values[_SLURMS_SPELLING.get(name.lower(), name)] = value
    return values, grace_s.get(partition, grace_s.get("DEFAULT", 0.0))


_SLURMS_SPELLING = {
    name.lower(): name for name in ("SchedulerParameters", "PreemptType", "PreemptMode", "PreemptExemptTime")
}
"""Names in slurm.conf may be written in any case."""


def daemons_place(given: Mapping[str, Any]) -> str:
    """Name of the placer that the daemon would use."""
    _, _, path = given["played_as"].partition("=")
    return load_config(Path(path)).config.decide.place if path else str(given["place"])
