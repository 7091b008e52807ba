"""``freetrain config check`` on a real Slurm: what it prints is what Slurm takes, and mends what was planted."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.lab import Lab, LabOptions
from tests.slurm_lab import run, started_lab

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0 and "CI" not in os.environ, reason="only root can play several people"),
]

Finding = dict[str, object]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A site whose Slurm is as it must be, but for what tests plant and mend."""
    with started_lab(LabOptions(nodes=3, accounting=True)) as lab:
        yield lab


@pytest.fixture
def path(lab: Lab, tmp_path: Path) -> Path:
    """The configuration of a site without mistakes: what a plain lab lacks has been mended as check says."""
    path = tmp_path / "freetrain.toml"
    write(path)
    for _ in range(2):
        for finding in check(lab, path):
            mend(lab, path, finding)
    assert eventually_clean(lab, path) == []
    return path


def write(path: Path, more: str = "") -> None:
    path.write_text(f'[state]\ndirectory = "{path.parent}"\n{more}')


def admin(lab: Lab, *command: str) -> str:
    return run(lab, *command)


def freetrain(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "freetrain", *arguments]
    return subprocess.run(
        command, env=os.environ | lab.environment, capture_output=True, text=True, check=False, timeout=120
    )


def check(lab: Lab, path: Path) -> list[Finding]:
    account = lab.users["daemon"]
    done = freetrain(lab, "config", "check", "--config", str(path), "--user", account, "--json")
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["not_checked"] == []
    found: list[Finding] = document["findings"]
    assert done.returncode == (78 if any(one["is_error"] for one in found) else 0)
    return found


def lines(finding: Finding) -> list[tuple[str, str]]:
    mends = finding["mends"]
    assert isinstance(mends, list)
    return [(mend["place"], mend["line"]) for mend in mends]


def mend(lab: Lab, path: Path, finding: Finding) -> None:
    """Do as is said; slurm.conf is left alone where a command has the same effect."""
    done = [shlex.split(line) for place, line in lines(finding) if place == "run"]
    for command in done:
        admin(lab, *command)
    settings = [line for place, line in lines(finding) if place == "freetrain.toml"]
    if settings:
        write(path, "\n".join(settings) + "\n")
    conf = [line for place, line in lines(finding) if place == "slurm.conf"]
    if conf and not done:
        configure(lab, *conf)


def configure(lab: Lab, *new: str) -> None:
    """Put lines in slurm.conf in the place of those with their keys."""
    conf = Path(lab.environment["SLURM_CONF"])
    keys = tuple(f"{line.partition('=')[0]}=" for line in new)
    kept = [line for line in conf.read_text().splitlines() if not line.startswith(keys)]
    conf.write_text("\n".join([*new, *kept]) + "\n")
    admin(lab, "scontrol", "reconfigure")


def eventually_clean(lab: Lab, path: Path) -> list[Finding]:
    """What is found once slurmctld has heard from accounting, or has read its configuration."""
    deadline_s = time.monotonic() + 60
    while (found := check(lab, path)) and time.monotonic() < deadline_s:
        time.sleep(0.5)
    return found


@pytest.mark.parametrize(
    "planted",
    [
        "scontrol update PartitionName=freetrain GraceTime=600",
        "scontrol update PartitionName=freetrain PriorityTier=10",
        "scontrol update PartitionName=freetrain PreemptMode=OFF",
        "scontrol update PartitionName=freetrain State=DOWN",
        "scontrol update PartitionName=freetrain RootOnly=YES",
        "scontrol update PartitionName=freetrain MinNodes=2",
        "scontrol update PartitionName=freetrain MaxTime=1",
        "scontrol update PartitionName=freetrain OverTimeLimit=10",
        "scontrol update PartitionName=freetrain TRESBillingWeights=CPU=1.0",
        "scontrol update PartitionName=freetrain QOS=normal",
        "sacctmgr -i modify user {daemon} set AdminLevel=None",
    ],
)
def test_what_is_planted_in_slurm_is_found_and_the_printed_lines_mend_it(
    lab: Lab, path: Path, planted: str
) -> None:
    admin(lab, *shlex.split(planted.format(daemon=lab.users["daemon"])))
    (found,) = check(lab, path)
    mend(lab, path, found)
    assert eventually_clean(lab, path) == []


@pytest.mark.parametrize("planted", ["CompleteWait=90", "PreemptExemptTime=00:05:00", "OverTimeLimit=10"])
def test_what_is_planted_in_slurm_conf_is_found_and_the_printed_lines_mend_it(
    lab: Lab, path: Path, planted: str
) -> None:
    configure(lab, planted)
    for _ in range(2):  # reconfiguring forgets what scontrol changed
        found = check(lab, path)
        assert found
        for one in found:
            mend(lab, path, one)
        if eventually_clean(lab, path) == []:
            break
    assert check(lab, path) == []


@pytest.mark.parametrize(
    "planted",
    [
        '[slurm]\npartition = "freetrian"\n',
        '[lend]\nexclude_nodes = "n[001,077]"\n',
        "[lend.shares]\nnobodyatall = 2\n",
        '[decide]\npolicy = "freetrian"\n',
    ],
)
def test_what_is_planted_in_freetrains_file_is_found_and_the_printed_lines_mend_it(
    lab: Lab, path: Path, planted: str
) -> None:
    write(path, planted)
    (found,) = check(lab, path)
    mend(lab, path, found)
    assert check(lab, path) == []


def test_the_first_configuration_fits_the_slurm_that_it_was_made_for(lab: Lab, path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new" / "freetrain.toml"
    done = freetrain(lab, "config", "init", str(new))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{new} is written: partition freetrain, mode observe.\n")
    assert [one["what"] for one in check(lab, new)] == []


def test_without_a_controller_the_status_says_so(lab: Lab, path: Path) -> None:
    lab.stop_controller()
    try:
        done = freetrain(lab, "config", "check", "--config", str(path))
        assert done.returncode == 69, done.stderr
        assert "Slurm was not asked." in done.stdout
    finally:
        lab.start_controller()
