"""The options of ``freetrain replay``, by what they are about, and what they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.cli.times import Duration
from freetrain.config import Prices, load_config
from freetrain.core.aim import PARTS, no_watts, read_aim
from freetrain.core.objectives import OBJECTIVES
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.core.topology import FLAT, Topology
from freetrain.errors import InputError
from freetrain.policies import UNKNOWN_LINKS, Links, find_policy
from freetrain.policies.aiming import unheeded
from freetrain.policies.registry import renamed
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.foresight import Knows
from freetrain.replay.logs import ReadOptions, parse_log_time
from freetrain.replay.logs.machine import read_machine
from freetrain.replay.logs.model import Failures
from freetrain.replay.study import Costs
from freetrain.replay.trainers import PRESETS

_PATH = click.Path(path_type=Path)
_DURATION = Duration()
_USUAL = Timing()
_MOST_RUNNING = 100_000
"""Presets never end: who asks for more would wait until the memory is full of trainers."""

log_options = options(
    click.option("--columns", metavar="A,B,…", help="Header of an sacct file that has none."),
    click.option("--delimiter", metavar="TEXT", help="What separates an sacct file's columns [default: its own]."),
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
    click.option("--timezone", metavar="ZONE", default="UTC", show_default=True, help="Zone of the log's times."),
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
        type=click.IntRange(1, _MOST_RUNNING),
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
        type=click.Choice(list(map(str, Knows))),
        default=Knows.NONE.value,
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
        help="The daemon's settings, or a file with their table [prices] alone (docs/configuration.md), for "
        "GPU-hours, energy and money  [default: those of --as daemon=FILE].",
    ),
    click.option("--no-store", is_flag=True, help="Keep no record of the run."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--quiet", "-q", is_flag=True, help="Show no progress bars."),
)


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """How to read the log."""
    timezone = given["timezone"]
    return ReadOptions(
        columns=tuple(name.strip() for name in given["columns"].split(",")) if given["columns"] else (),
        delimiter=given["delimiter"],
        cluster=given["cluster"],
        ignore_partitions=given["ignore_partitions"],
        ignore_accounts=given["ignore_accounts"],
        node_states=given["node_states"],
        reservations=given["reservations"],
        failures=Failures(given["mtbf_s"], given["repair_s"]) if given["mtbf_s"] is not None else None,
        skip_empty_hours=given["skip_empty_hours"],
        nodes=given["nodes"],
        machine=given["machine"],
        only_nodes=given["only_nodes"],
        from_s=parse_log_time(given["from_"], timezone) if given["from_"] else None,
        until_s=parse_log_time(given["until"], timezone) if given["until"] else None,
        timezone=timezone,
        strict=given["strict"],
        rejects=given["rejects"],
    )


def topology(given: Mapping[str, Any], node_names: Sequence[str]) -> Topology:
    """The switches between the log's nodes, as the machine file describes them; flat without one."""
    return read_machine(given["machine"]).topology(node_names) if given["machine"] is not None else FLAT


def links(given: Mapping[str, Any], switches: Topology) -> Links:
    """What the links between the nodes carry, as the machine file says."""
    if given["machine"] is None:
        return UNKNOWN_LINKS
    machine = read_machine(given["machine"])
    return Links.of_gbit(machine.node_gbit, machine.uplink_gbit, switches)


def warn_of_unheeded(given: Mapping[str, Any]) -> None:
    """Say what of the objective has no effect with the policy, of the options' and of the daemon's settings."""
    _, _, path = given["played_as"].partition("=")
    asked = {(given["policy"], given["objective"])}
    if path:
        decide = load_config(Path(path)).config.decide
        asked.add((decide.policy_with_options, decide.objective))
    for name, objective in sorted(asked):
        for sentence in filter(None, (renamed(name), unheeded(find_policy(name), name, objective))):
            click.echo(f"freetrain: {sentence}", err=True)


def prices(given: Mapping[str, Any]) -> Prices | None:
    """What the site's nodes have and cost; None: nobody said.

    Raises:
        ConfigError: the file cannot be read, or says something that cannot be.
        InputError: it was named for its prices and has none.
    """
    _, _, settings = given["played_as"].partition("=")
    path = given["prices"] or (Path(settings) if settings else None)
    found = load_config(path).config.prices if path else Prices()
    if given["prices"] and not found.say_anything:
        raise InputError(
            f"{path} says in no table [prices] what nodes have: gpus_per_node, watts_per_node or watts_of.",
            "docs/configuration.md describes the table.",
        )
    return found if found.say_anything else None


def draw(given: Mapping[str, Any], objective: str | None = None) -> PowerDraw:
    """What lent nodes take beyond idle, by the prices that were given.

    Args:
        given: the command's options.
        objective: name of what is maximised; None: as the options say.

    Raises:
        InputError: the objective counts it, and nobody says it.
    """
    known = prices(given)
    found = known.draw if known is not None else NO_DRAW
    name = objective or given["objective"]
    if read_aim(name).energy and not found.is_known:
        raise no_watts(name)
    return found


def costs(given: Mapping[str, Any]) -> Costs:
    """Costs that replace the trainers' own."""
    return Costs(
        given["scale_up"],
        given["scale_down"],
        given["forced_loss"],
        given["start"],
        given["boot"],
        given["as_published"],
    )
