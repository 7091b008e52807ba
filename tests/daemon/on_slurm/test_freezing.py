"""A filler's task that cannot save itself, on a real Slurm: saved on one node, thawed on the other, done once."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, nodes_of, site_of, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.soak]

NODES = 2
FREEZER = """
[freeze.launch]
small = 'exec "$@" 0'
[freeze.save]
small = 'tail -n 1 lines > "$FREEZE_DIR/image"'
[freeze.thaw]
small = 'exec "$@" "$(cat "$FREEZE_IMAGE/image")"'
"""
SCRIPT = """#!/bin/bash
cd {out}
export FREETRAIN_CONFIG={config}
srun --quiet --ntasks=1 {python} -m freetrain.cli.main freeze -- {program}
"""
COUNT = """n=$1
while [ ! -e enough ]; do n=$((n + 1)); echo $n >> lines; sleep 0.1; done
echo $SLURMD_NODENAME >> ends
"""


def count(
    site: Site, name: str = "small", freezer: str = FREEZER, program: str = "sh {out}/count.sh"
) -> list[int]:
    """The lines of a program that counts, from two nodes each of which was taken from it."""
    out = site.out / name
    out.mkdir()
    out.chmod(0o777)
    (out / "count.sh").write_text(COUNT)
    script = SCRIPT.format(
        out=out, config=site.directory / "freetrain.toml", python=sys.executable, program=program.format(out=out)
    )
    with daemon_that_polls_every(POLL_S, site, NODES, more=freezer):
        array = site.submit_trainer("bob", 1, f"kind=tasks,freeze={name},dir={out}/frozen", script)
        for _ in range(2):
            works(site, array, out)
            job = site.submit(SiteJob(0, NODES, 3, 1))
            wait_until(partial(has_started, site, job), 60, site)
        works(site, array, out)
        (out / "enough").touch()
        wait_until(lambda: f"trainer {array} of {site.lab.users['bob']} is complete" in site.daemon_says, 60, site)
    assert len((out / "ends").read_text().splitlines()) == 1
    assert list((out / "frozen").iterdir()) == [], "nothing was lost, and nothing is left"
    return lines(out)


def works(site: Site, array: str, out: Path) -> None:
    """It has a node, and gets on there."""
    wait_until(lambda: len(nodes_of(site, array)) == 1, 30, site)
    before = len(lines(out))
    wait_until(lambda: len(lines(out)) > before + 5, 30, site)


def has_started(site: Site, job: str) -> bool:
    return job in site.started_s()


def lines(out: Path) -> list[int]:
    file = out / "lines"
    return list(map(int, file.read_text().split())) if file.exists() else []


def test_it_goes_on_with_its_next_line_on_the_node_that_it_is_lent_next() -> None:
    with site_of(LabOptions(nodes=NODES, accounting=True)) as site:
        counted = count(site)
    # What it did after it was saved, and before Slurm took the node, it does again.
    assert sorted(set(counted)) == list(range(1, max(counted) + 1))
    assert len(counted) - len(set(counted)) < 20
