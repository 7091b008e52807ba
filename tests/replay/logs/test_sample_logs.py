from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from freetrain.replay.logs import parse_log_time
from tests.replay.logs.build import read

SAMPLES = Path(__file__).parents[3] / "sample_logs"
OWN_WINDOW = {"from_s": None, "until_s": None}


def generate(output: Path, *options: str) -> Path:
    command = [sys.executable, str(SAMPLES / "generate.py"), "--output", str(output), *options]
    subprocess.run(command, check=True)
    return output


@pytest.mark.parametrize(("name", "nodes"), [("small-cluster.sacct.gz", 64), ("large-machine.swf.gz", 1024)])
def test_a_sample_log_reads_clean_and_is_of_a_busy_machine(name: str, nodes: int) -> None:
    log = read(SAMPLES / name, **OWN_WINDOW)
    assert log.rows.rejected == 0
    assert len(log.holes.node_names) == nodes
    assert 0.85 < 1 - log.holes.mean_idle_nodes / nodes < 0.92


def test_the_same_seed_makes_the_same_log(tmp_path: Path) -> None:
    options = ("--days", "1", "--nodes", "16", "--seed", "7")
    first, again = (generate(tmp_path / name, *options) for name in ("one.gz", "two.gz"))
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != generate(tmp_path / "three.gz", *options[:-1], "8").read_bytes()


def test_no_node_has_two_jobs_at_a_time(tmp_path: Path) -> None:
    path = generate(tmp_path / "log", "--days", "1", "--nodes", "16")
    unnamed = tmp_path / "unnamed"
    unnamed.write_text(re.sub(r"\|n[\d\[\],-]+$", "|", path.read_text(), flags=re.MULTILINE))
    named, packed = read(path, **OWN_WINDOW), read(unnamed, nodes=16, **OWN_WINDOW)
    assert packed.packed
    # Packing never puts two jobs on a node: as many idle hours means that the named nodes do not overlap either.
    assert named.holes.idle_node_hours == pytest.approx(packed.holes.idle_node_hours)
    assert not any("no room" in note for note in packed.notes)


def test_every_broken_row_is_found(tmp_path: Path) -> None:
    log = read(generate(tmp_path / "log", "--rows", "2000", "--broken-every", "100"), **OWN_WINDOW)
    assert (log.rows.read, log.rows.rejected) == (2000, 20)
    assert [reject.line for reject in log.rows.first_rejects[:3]] == [101, 201, 301]


def whole_jobs() -> list[dict[str, str]]:
    """The small sample's jobs without their steps, by column."""
    lines = gzip.decompress((SAMPLES / "small-cluster.sacct.gz").read_bytes()).decode().splitlines()
    names = lines[0].split("|")
    # A pipe in a job's name, which stands second, would shift what follows.
    rows = [line.split("|") for line in lines[1:]]
    jobs = [dict(zip(names, [row[0], "", *row[len(row) - len(names) + 2 :]], strict=True)) for row in rows]
    return [job for job in jobs if "." not in job["JobID"]]


def seconds(time: str) -> int:
    return int(parse_log_time(time)) if time[:1].isdigit() else 0


def as_json(job: dict[str, str]) -> dict[str, object]:
    times = {name: seconds(job[column]) for name, column in TIMES.items()}
    return {
        "job_id": job["JobID"], "partition": job["Partition"], "state": {"current": [job["State"].split()[0]]},
        "time": times, "allocation_nodes": int(job["NNodes"]), "nodes": job["NodeList"], "cluster": "sample",
    }  # fmt: skip


def as_swf(number: int, job: dict[str, str]) -> str:
    submit_s, start_s, end_s = (seconds(job[column]) for column in TIMES.values())
    wait_s, run_s = (start_s - submit_s if start_s else -1), (end_s - start_s if end_s else 10**6)
    return f"{number} {submit_s - 1} {wait_s} {run_s} {job['NNodes']} -1 -1 -1 -1 -1 1 1 1 -1 1 1 -1 -1"


TIMES = {"submission": "Submit", "start": "Start", "end": "End"}


def test_the_same_jobs_leave_the_same_nodes_idle_in_any_form(tmp_path: Path) -> None:
    jobs = whole_jobs()
    json_log, swf_log = tmp_path / "log.json", tmp_path / "log.swf"
    json_log.write_text(json.dumps({"jobs": [as_json(job) for job in jobs]}))
    swf_log.write_text(
        "; UnixStartTime: 1\n; MaxNodes: 64\n"
        + "\n".join(as_swf(*numbered) for numbered in enumerate(jobs))
        + "\n"
    )
    sample = read(SAMPLES / "small-cluster.sacct.gz", **OWN_WINDOW)
    window = {"from_s": sample.holes.from_s, "until_s": sample.holes.until_s}
    as_others = read(json_log, **window), read(swf_log, **window)
    assert [log.rows.used for log in as_others] == [sample.rows.used] * 2
    for log in as_others:
        assert log.holes.idle_node_hours == pytest.approx(sample.holes.idle_node_hours, rel=1e-9)
