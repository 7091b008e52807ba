from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
