"""The options of ``freetrain replay``, each once: its type, its names, its default and its meaning.

Below them, what follows from them: settings to read the log, the machine, prices, and the daemon. Whatever is
wrong with them is found out here, before any long work begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from freetrain.cli.options import DurationType, option, shared_option, store_option
from freetrain.cli.policy_options import place_option, policy_option, solver_option, time_limit_option
from freetrain.config import Config, Prices, load_config
from freetrain.core.aim import PARTS, no_watts, read_aim
from freetrain.core.amounts import Amount
from freetrain.core.objectives import OBJECTIVES
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.core.trainer import Trainer
from freetrain.daemon.rules import rules_of
from freetrain.errors import InputError, explained
from freetrain.lending.rules import Share
from freetrain.loop.cycle import Goal
from freetrain.policies import UNKNOWN_LINKS, find_placer, find_policy
from freetrain.policies.aiming import unheeded
from freetrain.policies.registry import renamed
from freetrain.replay.as_daemon.lent import Timing, Wakes
from freetrain.replay.course import Costs
from freetrain.replay.foresight import Foresight, Knowledge
from freetrain.replay.logs import ReadOptions, TaskRequest, parse_log_time
from freetrain.replay.logs.machine import read_machine
from freetrain.replay.logs.model import Failures
from freetrain.replay.logs.traces import NO_TRACE, find_trace, trace_names
from freetrain.replay.study import DaemonSetup
from freetrain.replay.trainers import PRESETS, read_task, with_own_tasks
from freetrain.slurm.parsing import parse_amount
from freetrain.slurm.settings import SlurmSettings, parse_settings

_USUAL = Timing()
# Presets never end: with a larger limit the memory would fill with trainers.
_MAX_RUNNING = 100_000
ORDINARY_SLURM = SlurmSettings("", "", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
"""Settings of Slurm by default: a log does not have those of its site."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of one ``freetrain replay``, in the order of its help."""

    columns: str | None = option("--columns", "Header of an sacct file that has none.", metavar="A,B,…")
    delimiter: str | None = option(
        "--delimiter", "What separates an sacct file's columns [default: its own].", metavar="TEXT"
    )
    trace: str | None = option(
        "--format",
        f"The log is a public trace: {', '.join(trace_names())}; or one whose columns a file of yours names "
        "(docs/reference/logs.md).",
        metavar="NAME",
    )
    cluster: str | None = option("--cluster", "Read this cluster's jobs alone (sacct -M, -L).", metavar="NAME")
    ignore_partitions: tuple[str, ...] = option(
        "--ignore-partition",
        "Jobs of this partition are not the site's, as those of a scavenger queue; may be repeated.",
        metavar="NAME",
    )
    ignore_accounts: tuple[str, ...] = option(
        "--ignore-account", "Jobs of this account are not the site's; may be repeated.", metavar="NAME"
    )
    node_states: Path | None = option(
        "--node-states", "'sacctmgr show event -P': when nodes were down or drained."
    )
    reservations: Path | None = option(
        "--reservations",
        "'scontrol show reservation', or 'sacctmgr show reservation -P': when nodes were reserved.",
    )
    mtbf_s: float | None = option(
        "--mtbf",
        "Let nodes fail at random, each once in so much idle time, as 30d [default: never].",
        type=DurationType(least_s=60),
    )
    repair_s: float = option("--repair", "How long a node is out of service that has failed so.", default="4h")
    skip_empty_hours: bool = option(
        "--skip-empty-hours", "Leave out hours in which at least 95 % of the machine was idle."
    )
    nodes: int | None = option(
        "--nodes", "Number of nodes of the machine.", type=click.IntRange(min=1), metavar="N"
    )
    machine: Path | None = option("--machine", "TOML file that describes the machine's pools.")
    only_nodes: str | None = option(
        "--only-nodes", "Lend these nodes alone, such as 0-255 or c[01-16].", metavar="NODES"
    )
    from_: str | None = option("--from", "Start of the window [default: the log's own].", metavar="TIME")
    until: str | None = option("--until", "End of the window [default: the log's own].", metavar="TIME")
    timezone: str | None = option(
        "--timezone", "Zone of the log's times [default: that of --format, else UTC].", metavar="ZONE"
    )
    strict: bool = option("--strict", "Stop at the first bad row.")
    rejects: Path | None = option("--rejects", "Write all bad rows to this file.")

    trainers_source: str = option(
        "--trainers",
        f"A freetrain-trainers/1 file (JSON or TOML), or {', '.join(f'preset:{name}' for name in PRESETS)}; "
        "@1 after a preset's name, or another number, draws the order of its networks.",
        metavar="SOURCE",
        default="preset:mix",
    )
    max_running: int = option(
        "--max-running",
        "Most trainers at once, of those that could run on what is idle; who comes first goes first.",
        type=click.IntRange(1, _MAX_RUNNING),
        default=20,
        metavar="N",
    )
    scale_up: float | None = option("--scale-up", "Cost of growing [default: each trainer's].")
    scale_down: float | None = option("--scale-down", "Cost of shrinking.")
    forced_loss: float | None = option("--forced-loss", "Cost of losing nodes to a site's job.")
    start: float | None = option("--start", "Cost of starting.")
    boot: float | None = option(
        "--boot",
        "How long a new node does nothing while the trainer's others go on: launch, container, imports, "
        f"connecting [default: each trainer's; as daemon {_USUAL.boot_s:g}s for those that say nothing].",
    )
    as_published: bool = option(
        "--published-losses",
        "Charge losing nodes whole, as the published method does, even if less was trained since the last change.",
    )

    policy: str = shared_option(policy_option)
    place: str = shared_option(place_option)
    solver: str = shared_option(solver_option)
    time_limit_s: float = shared_option(time_limit_option)

    objective: str = option(
        "--objective",
        f"What is maximised: {', '.join(OBJECTIVES)}, or your own module:function; behind it, as "
        f"weighted,evictions=60, {'; '.join(f'{word}: {part.means}' for word, part in PARTS.items())}.",
        metavar="NAME",
        default="speedup",
    )
    horizon_s: float = option(
        "--horizon",
        "How far ahead a decision counts its value; 0: as long as idle nodes are expected to stay, which is "
        "learned on the way.",
        default="0",
    )
    foresight: str = option(
        "--foresight",
        "What is known of the ends of holes. none: how long holes have lasted on average. learned: how long "
        "nodes stayed that had been idle for as long as those that are idle now. plan: that too, and when waiting "
        "jobs are planned to start. perfect: each end within the horizon, as nobody can know: the most that "
        "forecasts could bring. As daemon, plans are known in any case.",
        type=click.Choice(list(map(str, Knowledge))),
        default=Knowledge.LEARNED.value,
    )
    poll_s: float = option(
        "--poll", "How often idle nodes are looked for, as by a daemon; 0: they are seen at once.", default="0"
    )

    played_as: str = option(
        "--as",
        "daemon: what the daemon would get and what the site's jobs would feel, beside what the holes allow; "
        "daemon=FILE: the same with these settings of the daemon's (freetrain.toml); ideal: what the holes allow "
        "alone, which is quicker.",
        metavar="HOW",
        default="daemon",
    )
    exact: bool = option(
        "--exact",
        "As daemon: replay every hour. Of a log that would take more than a minute only some hours are "
        "replayed as the daemon otherwise, and what it gets is given with an interval.",
    )
    wake: bool = option("--wake", "As daemon: submissions and ends wake it, beside polls (docs/admins/wake.md).")
    backfill_s: float | None = option(
        "--bf-interval",
        f"As daemon: Slurm's bf_interval, which no log tells [default: that of --slurm-conf, else "
        f"{ORDINARY_SLURM.backfill_interval_s:g}s].",
        type=DurationType(least_s=1),
    )
    evict_s: float | None = option(
        "--evict",
        "As daemon: from the start of a job of the site's until Slurm has ended the fragments on its nodes "
        f"[default: GraceTime of --slurm-conf and {_USUAL.evict_s:g}s].",
    )
    slurm_conf: Path | None = option(
        "--slurm-conf",
        "As daemon: the site's slurm.conf, for how its Slurm plans and preempts (SchedulerParameters, "
        "PreemptExemptTime, GraceTime of freetrain's partition).",
    )
    launch_s: float = option(
        "--launch",
        "As daemon: from the order until Slurm has started a fragment.",
        default=f"{_USUAL.launch_s:g}s",
    )

    share: str | None = option(
        "--share",
        "Lend parts of nodes, too (lend.share), beside the jobs of nodes that these use in part and on nodes "
        "without jobs: what tasks as --task says would have fit there is counted, and the trainers are replayed "
        "on it once more, each of their nodes being one such task.",
        type=click.Choice([str(Share.GPUS), str(Share.ANY)]),
    )
    task: str | None = option(
        "--task",
        "What each task asks for, as gres/gpu=1,cpu=4,mem=16G, of trainers that do not say it themselves  "
        "[default: one CPU, with --share gpus one GPU besides].",
        metavar="AMOUNT",
    )

    report_path: Path | None = option("--report", "Where the HTML report goes [default: freetrain-report.html].")
    no_report: bool = option("--no-report", "Write no report.")
    title: str | None = option(
        "--title", "The machine's name in the report [default: as the log says].", metavar="NAME"
    )
    prices: Path | None = option(
        "--prices",
        "The daemon's settings, or a file with their table [prices] alone (docs/reference/settings.md), for "
        "GPU-hours, energy and money  [default: those of --as daemon=FILE].",
    )
    no_store: bool = option("--no-store", "Keep no record of the run.")
    as_json: bool = option("--json", "Print JSON.")
    quiet: bool = option("--quiet -q", "Show no progress bars.")
    store_path: Path | None = shared_option(store_option)

    @property
    def daemon_settings(self) -> Path | None:
        """The daemon's settings of ``--as daemon=FILE``."""
        _, _, path = self.played_as.partition("=")
        return Path(path) if path else None

    @property
    def costs(self) -> Costs:
        """Costs that replace the trainers' own."""
        return Costs(self.scale_up, self.scale_down, self.forced_loss, self.start, self.boot, self.as_published)

    @property
    def knowledge(self) -> Foresight:
        """Foresight of each decision: its horizon, and its knowledge of the time to come."""
        return Foresight(self.horizon_s, Knowledge(self.foresight))


# Names in slurm.conf may be written in any case.
_SLURMS_SPELLING = {
    name.lower(): name for name in ("SchedulerParameters", "PreemptType", "PreemptMode", "PreemptExemptTime")
}


def read_options(options: ReplayOptions) -> ReadOptions:
    """Settings by which the log is read."""
    trace = NO_TRACE if options.trace is None else find_trace(options.trace)
    timezone = options.timezone or trace.timezone
    same = (
        "delimiter", "cluster", "ignore_partitions", "ignore_accounts", "node_states", "reservations",
        "skip_empty_hours", "nodes", "machine", "only_nodes", "strict", "rejects",
    )  # fmt: skip
    return ReadOptions(
        **{name: getattr(options, name) for name in same},
        columns=tuple(name.strip() for name in options.columns.split(",")) if options.columns else (),
        trace=trace,
        failures=Failures(options.mtbf_s, options.repair_s) if options.mtbf_s is not None else None,
        from_s=parse_log_time(options.from_, timezone) if options.from_ else None,
        until_s=parse_log_time(options.until, timezone) if options.until else None,
        timezone=timezone,
        task=task_request(options),
    )


def on_machine(goal: Goal, options: ReplayOptions, place: str, node_names: Sequence[str]) -> Goal:
    """The goal with a placer, and with the links and switches between the log's nodes by the machine file."""
    links = UNKNOWN_LINKS if options.machine is None else read_machine(options.machine).links(node_names)
    return replace(goal, placer=find_placer(place, links.topology), links=links)


def warn_of_unheeded(options: ReplayOptions) -> None:
    """Warn of parts of the objective that the policy does not heed, the options' and the daemon's."""
    asked = {(options.policy, options.objective)}
    if (config := _daemons_config(options)) is not None:
        decide = config.decide
        asked.add((decide.policy_with_options, decide.objective))
    for name, objective in sorted(asked):
        for sentence in filter(None, (renamed(name), unheeded(find_policy(name), name, objective))):
            click.echo(f"freetrain: {sentence}", err=True)


def site_prices(options: ReplayOptions) -> Prices | None:
    """Equipment and prices of the site's nodes; None: unknown.

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
    """Power draw of lent nodes beyond idle, by the prices that were given.

    Raises:
        InputError: the objective counts it, and it is unknown.
    """
    known = site_prices(options)
    found = known.draw if known is not None else NO_DRAW
    if read_aim(objective).energy and not found.is_known:
        raise no_watts(objective)
    return found


def task_request(options: ReplayOptions) -> TaskRequest | None:
    """Request of a task where parts of nodes are lent; None: no parts are lent.

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
    with explained(f"--task {text}"):
        task = read_task(text)
    if of_gpus:
        _require_gpu(f"--task {text}", task)
    lend = (_daemons_config(options) or Config()).lend
    return TaskRequest(task, parse_amount(lend.keep), lend.shortest_hole)


def check_own_tasks(trainers: Iterable[Trainer], options: ReplayOptions) -> None:
    """Check that trainers' own tasks could be lent parts of nodes.

    Raises:
        InputError: one of them could not.
    """
    if options.share == Share.GPUS:
        for trainer in with_own_tasks(trainers):
            _require_gpu(f"Trainer {trainer.id}: task {trainer.task!r}", read_task(trainer.task))


def _require_gpu(what: str, task: Amount) -> None:
    if not task.gpus:
        raise InputError(
            f"{what} asks for no GPU, and with lend.share = gpus such a task gets whole nodes.",
            "Add gres/gpu=1, or say --share any.",
        )


def daemon_setup(options: ReplayOptions, in_parts: bool = False) -> DaemonSetup | None:
    """Setup of a replay as the daemon, with parts of nodes (``--share``) or whole ones; None: not asked for.

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
    rules = replace(rules, draw=power_draw(options, goal.objective))
    timing = Timing(
        config.pace.poll,
        Wakes() if options.wake else None,
        launch_s=options.launch_s,
        boot_s=_USUAL.boot_s if options.boot is None else options.boot,
        evict_s=_USUAL.evict_s + grace_s if options.evict_s is None else options.evict_s,
    )
    return DaemonSetup(rules, goal, timing)


def _slurm_of(path: Path | None, partition: str) -> tuple[SlurmSettings, float]:
    """Settings of the site's Slurm, and its grace time in seconds for preempted fragments; else the defaults."""
    if path is None:
        return ORDINARY_SLURM, 0.0
    with explained(f"{path} cannot be read", "Give the site's slurm.conf with --slurm-conf."):
        text = path.read_text(errors="replace")
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
