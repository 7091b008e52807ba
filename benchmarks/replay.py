"""Replay speed: events per second on the sample logs, with few and many trainings at a time."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from freetrain.cli.listing import print_table
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.course import ReplaySetup
from freetrain.replay.foresight import Foresight
from freetrain.replay.logs import ReadOptions, SiteLog, read_site_log
from freetrain.replay.study import study
from freetrain.replay.trainers import PRESETS

SAMPLE_LOGS = Path(__file__).parent.parent / "sample_logs"
LOGS = ("small-cluster.sacct.gz", "large-machine.swf.gz")
REPEATS = 3


def measure_replay(log: SiteLog, max_running: int) -> dict[str, Any]:
    """Replay a log a few times: median and range of events/s, and what came of it."""
    setup = ReplaySetup(PRESETS["mix"], Goal.of(find_policy("freetrain"), "speedup"), time.perf_counter)
    speeds, outcome = [], None
    for _ in range(REPEATS):
        done = study(log.holes, setup, Foresight(), max_running)
        speeds.append(done.events_per_s)
        outcome = done.outcome
    assert outcome is not None
    return {
        "max_running": max_running,
        "events": outcome.events,
        "events_per_s_p50": statistics.median(speeds),
        "events_per_s_min": min(speeds),
        "events_per_s_max": max(speeds),
        "solve_p50_s": outcome.solve_p50_s,
        "u_dedicated": outcome.u_dedicated,
        "u_oracle": outcome.u_oracle,
    }


def main() -> None:
    """Measure, print a table, and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="keep the figures here")
    parser.add_argument("--quick", action="store_true", help="the small log alone")
    given = parser.parse_args()
    rows = []
    for name in LOGS[:1] if given.quick else LOGS:
        log = read_site_log([SAMPLE_LOGS / name], ReadOptions())
        rows += [{"log": name, **measure_replay(log, max_running)} for max_running in (10, 50)]
    _print(rows)
    if given.json:
        given.json.write_text(json.dumps({"format": "freetrain-bench-replay/1", "rows": rows}, indent=2) + "\n")


def _print(rows: list[dict[str, Any]]) -> None:
    columns = ("log", "running", "events", "events/s p50", "min–max", "solve p50", "U", "U oracle")
    cells = [
        (
            row["log"],
            str(row["max_running"]),
            f"{row['events']:,}",
            f"{row['events_per_s_p50']:,.0f}",
            f"{row['events_per_s_min']:,.0f}–{row['events_per_s_max']:,.0f}",
            f"{1e3 * row['solve_p50_s']:.2f} ms",
            f"{row['u_dedicated']:.3f}",
            f"{row['u_oracle']:.3f}",
        )
        for row in rows
    ]
    print_table(columns, cells, right=columns[1:])


if __name__ == "__main__":
    main()
