"""How long reading a large sacct log takes, and how much memory: from the file to the machine's holes.

Run from the repository's root as ``python -m benchmarks.reading``. The log is the small sample log, repeated time
after time on more and more nodes; a process of its own reads it, so that the memory is that of reading alone.
Another one has polars scan the same file into columns of text, and then do what no reader can do without.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import machine_facts, version_facts
from freetrain.cli.listing import print_table
from freetrain.replay.logs import ReadOptions, read_site_log

SAMPLE = Path(__file__).parent.parent / "sample_logs" / "small-cluster.sacct.gz"
SIZES = [100_000, 1_000_000, 10_000_000]
WEEKS = 40
"""So many weeks of jobs run on one copy of the sample's machine before the next copy begins."""
APART = timedelta(weeks=2)
"""From one week of jobs to the next; by then all have ended, so that jobs never overlap on a node."""


def write_log(path: Path, rows: int) -> None:
    """Write an sacct log of so many rows."""
    header, *sample = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    with path.open("w") as file:
        file.write(header + "\n")
        file.writelines(islice(_rows(header.split("|"), [line.split("|") for line in sample]), rows))


def _rows(columns: list[str], sample: list[list[str]]) -> Iterator[str]:
    # Counted from the right: a job's name, which stands before all these, may hold pipes.
    times, nodes = [columns.index(name) - len(columns) for name in ("Submit", "Start", "End")], -1
    assert columns[nodes] == "NodeList"
    number = 0
    while True:
        machine, week = divmod(number // len(sample), WEEKS)
        ids: dict[str, int] = {}
        for fields in sample:
            number += 1
            job, *step = fields[0].split(".", 1)
            # A step has the number of its job, which stands before it.
            id_ = ids.get(job, number) if step else ids.setdefault(job, number)
            row = [".".join((str(id_), *step)), *fields[1:]]
            for at in times:
                row[at] = _later(row[at], week)
            if row[nodes].startswith("n"):
                row[nodes] = f"m{machine}{row[nodes]}"
            yield "|".join(row) + "\n"


def _later(time_: str, weeks: int) -> str:
    try:
        return (datetime.fromisoformat(time_) + weeks * APART).isoformat()
    except ValueError:
        return time_


def read(path: Path) -> dict[str, Any]:
    """Read a log: seconds, and the most memory that this process ever had."""
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    log = read_site_log([path], ReadOptions())
    return {
        "rows": log.rows.read,
        "used": log.rows.used,
        "holes": len(log.holes),
        "wall_s": time.perf_counter() - begin_s,
        "cpu_s": time.process_time() - cpu_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def scan(path: Path) -> dict[str, Any]:
    """Scan a log, then do what every reader of such a log has to do besides: seconds until then."""
    begin_s = time.process_time()
    lazy = pl.scan_csv(path, separator="|", quote_char=None, infer_schema=False, truncate_ragged_lines=True)
    rows = lazy.collect()
    scanned_s = time.process_time()
    # A newline or separator in free text is found by counting both.
    text = np.frombuffer(path.read_bytes(), np.uint8)
    marks = np.flatnonzero((text == ord("\n")) | (text == ord("|")))
    np.diff(np.flatnonzero(text[marks] == ord("\n")))
    times = rows.select(pl.col("Submit", "Start", "End").str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False))
    nodes = rows.select(pl.col("NNodes", "NCPUS").cast(pl.Int64, strict=False))["NNodes"].fill_null(0).to_numpy()
    # Overlapping dumps repeat rows.
    np.sort(rows.select("JobID", "Start").hash_rows().to_numpy())
    # A row for each node of a job, ordered by node and time, since holes lie between these.
    lists = rows["NodeList"].cast(pl.Categorical).to_physical().to_numpy()
    starts = times["Start"].dt.timestamp("ms").fill_null(0).to_numpy()
    np.lexsort((np.repeat(starts, nodes), np.repeat(lists, nodes)))
    return {"scan_cpu_s": scanned_s - begin_s, "least_cpu_s": time.process_time() - begin_s}


def main() -> None:
    """Measure, print a table, and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="sizes of the logs")
    parser.add_argument("--read", type=Path, help="read this file and print the figures, nothing else")
    parser.add_argument("--scan", type=Path, help="only scan this file, likewise")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    given = parser.parse_args()
    for path, measure in ((given.read, read), (given.scan, scan)):
        if path is not None:
            print(json.dumps(measure(path)))
            return
    rows = [_measured(count) for count in given.rows]
    print_table(
        ("rows", "CPU", "of a scan", "the least", "wall", "memory"),
        [
            (
                f"{row['rows']:,}",
                f"{row['cpu_s']:.1f} s",
                f"{row['cpu_s'] / row['scan_cpu_s']:.1f} times",
                f"{row['least_cpu_s'] / row['scan_cpu_s']:.1f} times",
                f"{row['wall_s']:.1f} s",
                f"{row['peak_bytes'] / 1e9:.2f} GB",
            )
            for row in rows
        ],
        right=("rows", "CPU", "of a scan", "the least", "wall", "memory"),
    )
    if given.json:
        facts = {**machine_facts(), **version_facts("polars", "numpy"), "load": os.getloadavg()}
        given.json.write_text(
            json.dumps({"format": "freetrain-bench-reading/1", "machine": facts, "rows": rows}, indent=2) + "\n"
        )


def _measured(rows: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.sacct"
        write_log(path, rows)
        for what in ("--scan", "--read"):
            command = [sys.executable, "-m", "benchmarks.reading", what, str(path)]
            found |= json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


if __name__ == "__main__":
    main()
