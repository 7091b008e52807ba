"""The options of ``freetrain replay``, each once: its type, its names, its default and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from freetrain.cli.options import Duration, option, shared_option, store_option
from freetrain.cli.policy_options import place_option, policy_option, solver_option, time_limit_option
from freetrain.core.aim import PARTS
from freetrain.core.objectives import OBJECTIVES
from freetrain.lending.rules import Share
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.foresight import Foresight, Knowledge
from freetrain.replay.logs.traces import trace_names
from freetrain.replay.study import Costs
from freetrain.replay.trainers import PRESETS
from freetrain.slurm.settings import SlurmSettings

_USUAL = Timing()
_MAX_RUNNING = 100_000
"""Presets never end: with a larger limit the memory would fill with trainers."""
ORDINARY_SLURM = SlurmSettings("", "", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
"""A log does not say how Slurm was set up: these are its defaults."""


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
        type=Duration(least_s=60),
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
        "A freetrain-trainers/1 file (JSON or TOML), or " + ", ".join(f"preset:{name}" for name in PRESETS) + ".",
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
        "What is known of the ends of holes. learned: how long nodes stayed that had been idle for as long "
        "as those that are idle now. plan: that too, and when waiting jobs are planned to start. perfect: each "
        "end within the horizon, as nobody can know: the most that forecasts could bring. As daemon, plans are "
        "known in any case.",
        type=click.Choice(list(map(str, Knowledge))),
        default=Knowledge.NONE.value,
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
        type=Duration(least_s=1),
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
        """What a decision knows of the time to come."""
        return Foresight(self.horizon_s, Knowledge(self.foresight))
