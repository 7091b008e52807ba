"""What the options of ``freetrain replay`` mean: how to read the log, the machine, prices, and the daemon.

Whatever is wrong with them is found out here, before any long work begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from freetrain.cli.replay_options import ORDINARY_SLURM, ReplayOptions
from freetrain.config import Config, Prices, load_config
from freetrain.core.aim import no_watts, read_aim
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.core.topology import FLAT, Topology
from freetrain.core.trainer import Trainer
from freetrain.daemon.rules import rules_of
from freetrain.errors import InputError
from freetrain.lending.rules import Share
from freetrain.loop.cycle import Goal
from freetrain.policies import UNKNOWN_LINKS, Links, find_policy
from freetrain.policies.aiming import unheeded
from freetrain.policies.registry import renamed
from freetrain.replay.as_daemon.timing import Timing, Wakes
from freetrain.replay.foresight import Knowledge
from freetrain.replay.logs import ReadOptions, TaskRequest, parse_log_time
from freetrain.replay.logs.machine import read_machine
from freetrain.replay.logs.model import Failures
from freetrain.replay.logs.traces import NO_TRACE, find_trace
from freetrain.replay.study import DaemonSetup
from freetrain.replay.trainers import read_task, with_own_tasks
from freetrain.slurm.parsing import parse_amount
from freetrain.slurm.settings import SlurmSettings, parse_settings

_SLURMS_SPELLING = {
    name.lower(): name for name in ("SchedulerParameters", "PreemptType", "PreemptMode", "PreemptExemptTime")
}
"""Names in slurm.conf may be written in any case."""


def read_options(options: ReplayOptions) -> ReadOptions:
    """How to read the log."""
    trace = NO_TRACE if options.trace is None else find_trace(options.trace)
    timezone = options.timezone or trace.timezone
    return ReadOptions(
        columns=tuple(name.strip() for name in options.columns.split(",")) if options.columns else (),
        delimiter=options.delimiter,
        trace=trace,
        cluster=options.cluster,
        ignore_partitions=options.ignore_partitions,
        ignore_accounts=options.ignore_accounts,
        node_states=options.node_states,
        reservations=options.reservations,
        failures=Failures(options.mtbf_s, options.repair_s) if options.mtbf_s is not None else None,
        skip_empty_hours=options.skip_empty_hours,
        nodes=options.nodes,
        machine=options.machine,
        only_nodes=options.only_nodes,
        from_s=parse_log_time(options.from_, timezone) if options.from_ else None,
        until_s=parse_log_time(options.until, timezone) if options.until else None,
        timezone=timezone,
        strict=options.strict,
        rejects=options.rejects,
    )


def topology(options: ReplayOptions, node_names: Sequence[str]) -> Topology:
    """The switches between the log's nodes, as the machine file describes them; flat without one."""
    return read_machine(options.machine).topology(node_names) if options.machine is not None else FLAT


def links(options: ReplayOptions, switches: Topology) -> Links:
    """What the links between the nodes carry, as the machine file says."""
    if options.machine is None:
        return UNKNOWN_LINKS
    machine = read_machine(options.machine)
    return Links.of_gbit(machine.node_gbit, machine.uplink_gbit, switches)


def warn_of_unheeded(options: ReplayOptions) -> None:
    """Say what of the objective has no effect with the policy, of the options' and of the daemon's settings."""
    asked = {(options.policy, options.objective)}
    if (config := _daemons_config(options)) is not None:
        decide = config.decide
        asked.add((decide.policy_with_options, decide.objective))
    for name, objective in sorted(asked):
        for sentence in filter(None, (renamed(name), unheeded(find_policy(name), name, objective))):
            click.echo(f"freetrain: {sentence}", err=True)


def site_prices(options: ReplayOptions) -> Prices | None:
    """What the site's nodes have and cost; None: that is not known.

    Raises:
        ConfigError: the file cannot be read, or says something that cannot be.
        InputError: it was named for its prices and has none.
    """
    path = options.prices or options.daemon_settings
    found = load_config(path).config.prices if path else Prices()
    if options.prices and not found.say_anything:
        raise InputError(
            f"{path} says in no table [prices] what nodes have: gpus_per_node, watts_per_node or watts_of.",
            "docs/reference/settings.md describes the table.",
        )
    return found if found.say_anything else None


def power_draw(options: ReplayOptions, objective: str) -> PowerDraw:
    """What lent nodes take beyond idle, by the prices that were given.

    Raises:
        InputError: the objective counts it, and nobody says it.
    """
    known = site_prices(options)
    found = known.draw if known is not None else NO_DRAW
    if read_aim(objective).energy and not found.is_known:
        raise no_watts(objective)
    return found


def task_request(options: ReplayOptions) -> TaskRequest | None:
    """What a task asks for where parts of nodes are lent; None: that is not asked.

    Raises:
        InputError: it asks for nothing that could be counted.
        ConfigError: the daemon's settings are wrong.
    """
    if options.share is None:
        if options.task is not None:
            raise InputError(
                "--task says what tasks ask for of shared nodes, which are not lent.", "Add --share gpus or any."
            )
        return None
    of_gpus = options.share == Share.GPUS
    text = options.task or ("gres/gpu=1,cpu=1" if of_gpus else "cpu=1")
    try:
        task = read_task(text)
    except ValueError as error:
        raise InputError(f"--task {text}: {error}.") from error
    if of_gpus and not task.gpus:
        raise InputError(
            f"--task {text} asks for no GPU, and with lend.share = gpus such a task gets whole nodes.",
            "Add gres/gpu=1, or say --share any.",
        )
    lend = (_daemons_config(options) or Config()).lend
    return TaskRequest(task, parse_amount(lend.keep), lend.shortest_hole)


def check_own_tasks(trainers: Iterable[Trainer], options: ReplayOptions) -> None:
    """See that trainers' own tasks could be lent parts of nodes.

    Raises:
        InputError: one of them could not.
    """
    if options.share == Share.GPUS:
        for trainer in with_own_tasks(trainers):
            if not read_task(trainer.task).gpus:
                raise InputError(
                    f"Trainer {trainer.id}: task {trainer.task!r} asks for no GPU, and with lend.share = gpus "
                    "such a task gets whole nodes.",
                    "Add gres/gpu=1, or say --share any.",
                )


def daemon_setup(options: ReplayOptions, in_parts: bool = False) -> DaemonSetup | None:
    """How a daemon would go about it, with parts of nodes (``--share``) or whole ones; None: that is not asked.

    Raises:
        InputError: there is no such way to replay.
        ConfigError: the daemon's settings are wrong.
    """
    if options.played_as == "ideal":
        return None
    how, equals, path = options.played_as.partition("=")
    if how != "daemon" or (equals and not path):
        raise InputError(
            f"--as {options.played_as} is not a way to replay.", "Give ideal, daemon, or daemon=FILE."
        )
    own, share = _daemons_config(options), Share(options.share) if in_parts and options.share else Share.WHOLE
    config = own or Config()
    slurm, grace_s = _slurm_of(options.slurm_conf, config.slurm.partition)
    if options.backfill_s is not None:
        slurm = replace(slurm, backfill_interval_s=options.backfill_s)
    rules = rules_of(config, slurm)
    rules = replace(rules, nodes=replace(rules.nodes, share=share))
    policy, objective = options.policy, options.objective
    if own is not None:
        policy, objective = own.decide.policy_with_options, own.decide.objective
    goal = Goal.of(find_policy(policy, options.solver, options.time_limit_s), objective)
    if own is None:
        sharing = replace(rules.sharing, max_running=options.max_running)
        rules = replace(rules, sharing=sharing, objective=goal.objective, horizon_s=options.horizon_s)
    by_age = options.knowledge.knows in (Knowledge.LEARNED, Knowledge.PLAN)
    rules = replace(rules, draw=power_draw(options, goal.objective), by_age=by_age)
    usual = Timing()
    timing = Timing(
        config.pace.poll,
        Wakes() if options.wake else None,
        launch_s=options.launch_s,
        boot_s=usual.boot_s if options.boot is None else options.boot,
        evict_s=usual.evict_s + grace_s if options.evict_s is None else options.evict_s,
    )
    return DaemonSetup(rules, goal, timing)


def _slurm_of(path: Path | None, partition: str) -> tuple[SlurmSettings, float]:
    """How the site's Slurm plans, and for how long fragments may go on that it preempts; else the defaults.

    Raises:
        InputError: the file cannot be read.
    """
    if path is None:
        return ORDINARY_SLURM, 0.0
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


def daemons_place(options: ReplayOptions) -> str:
    """Name of the placer that the daemon would use."""
    config = _daemons_config(options)
    return options.place if config is None else config.decide.place


def _daemons_config(options: ReplayOptions) -> Config | None:
    """The daemon's settings of ``--as daemon=FILE``; None: no file was named."""
    path = options.daemon_settings
    return None if path is None else load_config(path).config
