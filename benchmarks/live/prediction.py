"""What ``freetrain replay --as daemon`` says of a site on which freetrain lent, from what its own jobs did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.live.site import Ran
from freetrain.core.known_trainer import prior_curve

HEADER = "JobID|Partition|State|Submit|Start|End|Timelimit|NNodes|NCPUS|NodeList"


def predict_node_hours(
    site: Sequence[Ran],
    sizes: Sequence[tuple[int, int]],
    nodes: Sequence[str],
    window_s: tuple[float, float],
    interval_s: float,
    configuration: str,
) -> float:
    """Node-hours lent, as the replay of these jobs has it for trainers of these sizes.

    Args:
        site: the site's runs.
        sizes: fewest and most nodes of each trainer.
        nodes: the machine's.
        window_s: from when to when.
        interval_s: Slurm's bf_interval.
        configuration: the daemon's.
    """
    folder = Path(__file__).parents[1] / "results"
    folder.mkdir(exist_ok=True)
    log, trainers, settings = folder / "live.psv", folder / "live-trainers.json", folder / "live.toml"
    settings.write_text(configuration)
    log.write_text("\n".join([HEADER, *map(_row, site)]) + "\n")
    trainers.write_text(
        json.dumps({"format": "freetrain-trainers/1", "trainers": list(map(_trainer, sizes, range(9)))})
    )
    argv = [
        sys.executable, "-m", "freetrain.cli.main", "replay", str(log), "--trainers", str(trainers), "--no-store",
        "--no-report", "--json", "--quiet", "--nodes", str(len(nodes)), "--from", str(window_s[0]),
        "--until", str(window_s[1]), "--as", f"daemon={settings}", "--bf-interval", str(interval_s),
    ]  # fmt: skip
    ran = subprocess.run(argv, capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return float(json.loads(ran.stdout)["as_daemon"]["outcome"]["lent_node_hours"])


def _row(ran: Ran) -> str:
    times = "|".join(f"{at_s:.0f}" for at_s in (ran.submitted_s, ran.start_s, ran.end_s))
    count = len(ran.node_names)
    return f"{ran.id}|main|COMPLETED|{times}|{ran.limit_s / 60:.0f}|{count}|{4 * count}|{ran.nodes}"


def _trainer(size: tuple[int, int], number: int) -> dict[str, Any]:
    costs = {"scale_up_s": 0.5, "scale_down_s": 0.5, "start_s": 10.0}
    return {
        "id": str(number),
        "min_nodes": size[0],
        "max_nodes": size[1],
        "throughput": prior_curve(size[1]),
        **costs,
    }
