"""The options of ``freetrain replay``, by what they are about, and the type that holds their values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from freetrain.cli.options import Duration, options
from freetrain.core.aim import PARTS
from freetrain.core.objectives import OBJECTIVES
from freetrain.lending.rules import Share
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.foresight import Foresight, Knowledge
from freetrain.replay.logs.traces import trace_names
from freetrain.replay.study import Costs
from freetrain.replay.trainers import PRESETS
from freetrain.slurm.settings import SlurmSettings

_PATH = click.Path(path_type=Path)
_DURATION = Duration()
_USUAL = Timing()
_MAX_RUNNING = 100_000
"""Presets never end: with a larger limit the memory would fill with trainers."""
ORDINARY_SLURM = SlurmSettings("", "", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
"""A log does not say how Slurm was set up: these are its defaults."""

log_options = options(
    click.option("--columns", metavar="A,B,…", help="Header of an sacct file that has none."),
    click.option("--delimiter", metavar="TEXT", help="What separates an sacct file's columns [default: its own]."),
    click.option(
        "--format",
        "trace",
        metavar="NAME",
        help=f"The log is a public trace: {', '.join(trace_names())}; or one whose columns a file of yours names "
        "(docs/reference/logs.md).",
    ),
    click.option("--cluster", metavar="NAME", help="Read this cluster's jobs alone (sacct -M, -L)."),
    click.option(
        "--ignore-partition",
        "ignore_partitions",
        multiple=True,
        metavar="NAME",
        help="Jobs of this partition are not the site's, as those of a scavenger queue; may be repeated.",
    ),
    click.option(
        "--ignore-account",
        "ignore_accounts",
        multiple=True,
        metavar="NAME",
        help="Jobs of this account are not the site's; may be repeated.",
    ),
    click.option(
        "--node-states",
        type=_PATH,
        metavar="FILE",
        help="'sacctmgr show event -P': when nodes were down or drained.",
    ),
    click.option(
        "--reservations",
        type=_PATH,
        metavar="FILE",
        help="'scontrol show reservation', or 'sacctmgr show reservation -P': when nodes were reserved.",
    ),
    click.option(
        "--mtbf",
        "mtbf_s",
        type=Duration(least_s=60),
        help="Let nodes fail at random, each once in so much idle time, as 30d [default: never].",
    ),
    click.option(
        "--repair",
        "repair_s",
        type=_DURATION,
        default="4h",
        show_default=True,
        help="How long a node is out of service that has failed so.",
    ),
    click.option(
        "--skip-empty-hours", is_flag=True, help="Leave out hours in which at least 95 % of the machine was idle."
    ),
    click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Number of nodes of the machine."),
    click.option("--machine", type=_PATH, metavar="FILE", help="TOML file that describes the machine's pools."),
    click.option("--only-nodes", metavar="NODES", help="Lend these nodes alone, such as 0-255 or c[01-16]."),
    click.option("--from", "from_", metavar="TIME", help="Start of the window [default: the log's own]."),
    click.option("--until", metavar="TIME", help="End of the window [default: the log's own]."),
    click.option(
        "--timezone", metavar="ZONE", help="Zone of the log's times [default: that of --format, else UTC]."
    ),
    click.option("--strict", is_flag=True, help="Stop at the first bad row."),
    click.option("--rejects", type=_PATH, metavar="FILE", help="Write all bad rows to this file."),
)

trainer_options = options(
    click.option(
        "--trainers",
        "trainers_source",
        metavar="SOURCE",
        default="preset:mix",
        show_default=True,
        help="A freetrain-trainers/1 file (JSON or TOML), or "
        + ", ".join(f"preset:{name}" for name in PRESETS)
        + ".",
    ),
    click.option(
        "--max-running",
        type=click.IntRange(1, _MAX_RUNNING),
        default=20,
        show_default=True,
        metavar="N",
        help="Most trainers at once, of those that could run on what is idle; who comes first goes first.",
    ),
    click.option("--scale-up", type=_DURATION, help="Cost of growing [default: each trainer's]."),
    click.option("--scale-down", type=_DURATION, help="Cost of shrinking."),
    click.option("--forced-loss", type=_DURATION, help="Cost of losing nodes to a site's job."),
    click.option("--start", type=_DURATION, help="Cost of starting."),
    click.option(
        "--boot",
        type=_DURATION,
        help="How long a new node does nothing while the trainer's others go on: launch, container, imports, "
        f"connecting [default: each trainer's; as daemon {_USUAL.boot_s:g}s for those that say nothing].",
    ),
    click.option(
        "--published-losses",
        "as_published",
        is_flag=True,
        help="Charge losing nodes whole, as the published method does, even if less was trained since the last "
        "change.",
    ),
)

aim_options = options(
    click.option(
        "--objective",
        metavar="NAME",
        default="speedup",
        show_default=True,
        help=f"What is maximised: {', '.join(OBJECTIVES)}, or your own module:function; behind it, as "
        f"weighted,evictions=60, {'; '.join(f'{word}: {part.means}' for word, part in PARTS.items())}.",
    ),
    click.option(
        "--horizon",
        "horizon_s",
        type=_DURATION,
        default="0",
        show_default=True,
        help="How far ahead a decision counts its value; 0: as long as idle nodes are expected to stay, which is "
        "learned on the way.",
    ),
    click.option(
        "--foresight",
        type=click.Choice(list(map(str, Knowledge))),
        default=Knowledge.NONE.value,
        show_default=True,
        help="What is known of the ends of holes. learned: how long nodes stayed that had been idle for as long "
        "as those that are idle now. plan: that too, and when waiting jobs are planned to start. perfect: each "
        "end within the horizon, as nobody can know: the most that forecasts could bring. As daemon, plans are "
        "known in any case.",
    ),
    click.option(
        "--poll",
        "poll_s",
        type=_DURATION,
        default="0",
        show_default=True,
        help="How often idle nodes are looked for, as by a daemon; 0: they are seen at once.",
    ),
)

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
        "replayed as the daemon otherwise, and what it gets is given with an interval.",
    ),
    click.option(
        "--wake", is_flag=True, help="As daemon: submissions and ends wake it, beside polls (docs/admins/wake.md)."
    ),
    click.option(
        "--bf-interval",
        "backfill_s",
        type=Duration(least_s=1),
        help=f"As daemon: Slurm's bf_interval, which no log tells [default: that of --slurm-conf, else "
        f"{ORDINARY_SLURM.backfill_interval_s:g}s].",
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
        type=_PATH,
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

share_options = options(
    click.option(
        "--share",
        type=click.Choice([str(Share.GPUS), str(Share.ANY)]),
        help="Lend parts of nodes, too (lend.share), beside the jobs of nodes that these use in part and on nodes "
        "without jobs: what tasks as --task says would have fit there is counted, and the trainers are replayed "
        "on it once more, each of their nodes being one such task.",
    ),
    click.option(
        "--task",
        metavar="AMOUNT",
        help="What each task asks for, as gres/gpu=1,cpu=4,mem=16G, of trainers that do not say it themselves  "
        "[default: one CPU, with --share gpus one GPU besides].",
    ),
)

output_options = options(
    click.option(
        "--report",
        "report_path",
        type=_PATH,
        metavar="FILE",
        help="Where the HTML report goes [default: freetrain-report.html].",
    ),
    click.option("--no-report", is_flag=True, help="Write no report."),
    click.option("--title", metavar="NAME", help="The machine's name in the report [default: as the log says]."),
    click.option(
        "--prices",
        type=_PATH,
        metavar="FILE",
        help="The daemon's settings, or a file with their table [prices] alone (docs/reference/settings.md), for "
        "GPU-hours, energy and money  [default: those of --as daemon=FILE].",
    ),
    click.option("--no-store", is_flag=True, help="Keep no record of the run."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--quiet", "-q", is_flag=True, help="Show no progress bars."),
)


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The values of all options of one ``freetrain replay``; ``freetrain replay --help`` says what each means."""

    columns: str | None
    delimiter: str | None
    trace: str | None
    cluster: str | None
    ignore_partitions: tuple[str, ...]
    ignore_accounts: tuple[str, ...]
    node_states: Path | None
    reservations: Path | None
    mtbf_s: float | None
    repair_s: float
    skip_empty_hours: bool
    nodes: int | None
    machine: Path | None
    only_nodes: str | None
    from_: str | None
    until: str | None
    timezone: str | None
    strict: bool
    rejects: Path | None
    trainers_source: str
    max_running: int
    scale_up: float | None
    scale_down: float | None
    forced_loss: float | None
    start: float | None
    boot: float | None
    as_published: bool
    policy: str
    place: str
    solver: str
    time_limit_s: float
    objective: str
    horizon_s: float
    foresight: str
    poll_s: float
    played_as: str
    exact: bool
    wake: bool
    backfill_s: float | None
    evict_s: float | None
    slurm_conf: Path | None
    launch_s: float
    share: str | None
    task: str | None
    report_path: Path | None
    no_report: bool
    title: str | None
    prices: Path | None
    no_store: bool
    as_json: bool
    quiet: bool
    store_path: Path | None

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
