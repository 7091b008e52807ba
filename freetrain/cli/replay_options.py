"""The options of ``freetrain replay``, by what they are about, and what they become."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.core.objectives import OBJECTIVES
from freetrain.replay.logs import ReadOptions, parse_time
from freetrain.replay.presets import PRESETS
from freetrain.replay.study import Costs

_PATH = click.Path(path_type=Path)
_SECONDS = click.FloatRange(min=0)


log_options = options(
    click.option("--columns", metavar="A,B,…", help="Header of an sacct file that has none."),
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
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        metavar="N",
        help="Most trainers at once; the others wait, first come, first served.",
    ),
    click.option(
        "--scale-up", type=_SECONDS, metavar="SECONDS", help="Cost of growing [default: each trainer's]."
    ),
    click.option("--scale-down", type=_SECONDS, metavar="SECONDS", help="Cost of shrinking."),
    click.option("--forced-loss", type=_SECONDS, metavar="SECONDS", help="Cost of losing nodes to a site's job."),
    click.option("--start", type=_SECONDS, metavar="SECONDS", help="Cost of starting."),
)

aim_options = options(
    click.option(
        "--objective",
        metavar="NAME",
        default="speedup",
        show_default=True,
        help=f"What is maximised: {', '.join(OBJECTIVES)}, or your own module:function.",
    ),
    click.option(
        "--horizon",
        "horizon_s",
        type=click.FloatRange(min=0, min_open=True),
        default=120.0,
        show_default=True,
        metavar="SECONDS",
        help="How far ahead a decision counts its value.",
    ),
    click.option(
        "--poll",
        "poll_s",
        type=_SECONDS,
        default=0.0,
        show_default=True,
        metavar="SECONDS",
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
    click.option("--no-store", is_flag=True, help="Keep no record of the run."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--quiet", "-q", is_flag=True, help="Show no progress bars."),
)


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """How to read the log."""
    timezone = given["timezone"]
    return ReadOptions(
        columns=tuple(name.strip() for name in given["columns"].split(",")) if given["columns"] else (),
        nodes=given["nodes"],
        machine=given["machine"],
        only_nodes=given["only_nodes"],
        from_s=parse_time(given["from_"], timezone) if given["from_"] else None,
        until_s=parse_time(given["until"], timezone) if given["until"] else None,
        timezone=timezone,
        strict=given["strict"],
        rejects=given["rejects"],
    )


def costs(given: Mapping[str, Any]) -> Costs:
    """Costs that replace the trainers' own."""
    return Costs(given["scale_up"], given["scale_down"], given["forced_loss"], given["start"])
