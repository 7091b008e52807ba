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
from tests.needed import several_people
from tests.slurm_lab import require_python_for_all, run, started_lab

pytestmark = [pytest.mark.slurm, several_people]

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
    assert mended(lab, path) == []
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


def mend(lab: Lab, path: Path, findings: list[Finding]) -> None:
    """Do as is said; slurm.conf is left alone where a command has the same effect."""
    settings: list[str] = []
    for finding in findings:
        commands = [shlex.split(line) for place, line in lines(finding) if place == "run"]
        for command in commands:
            admin(lab, *command)
        settings += [line for place, line in lines(finding) if place == "freetrain.toml"]
        conf = [line for place, line in lines(finding) if place == "slurm.conf"]
        if conf and not commands:
            configure(lab, *conf)
    if settings:
        write(path, "\n".join(dict.fromkeys(settings)) + "\n")


def configure(lab: Lab, *new: str) -> None:
    """Put lines in slurm.conf in the place of those with their keys."""
    conf = Path(lab.environment["SLURM_CONF"])
    keys = tuple(f"{line.partition('=')[0]}=" for line in new)
    kept = [line for line in conf.read_text().splitlines() if not line.startswith(keys)]
    conf.write_text("\n".join([*new, *kept]) + "\n")
    admin(lab, "scontrol", "reconfigure")


def mended(lab: Lab, path: Path) -> list[Finding]:
    """What is still found after all has been done that was said: slurmctld hears of it a moment later."""
    deadline_s = time.monotonic() + 120
    while (found := check(lab, path)) and time.monotonic() < deadline_s:
        mend(lab, path, found)
    return found


def said(findings: list[Finding]) -> set[str]:
    return {line for finding in findings for _, line in lines(finding)}


OURS = "scontrol update PartitionName=freetrain"


def test_what_is_planted_in_slurm_is_found_and_the_printed_lines_mend_it(lab: Lab, path: Path) -> None:
    for change in (
        "GraceTime=600", "PriorityTier=10", "PreemptMode=OFF", "State=DOWN", "RootOnly=YES", "MinNodes=2",
        "MaxTime=1", "OverTimeLimit=10", "TRESBillingWeights=CPU=1.0", "QOS=normal",
    ):  # fmt: skip
        admin(lab, *shlex.split(f"{OURS} {change}"))
    account = lab.users["daemon"]
    admin(lab, "sacctmgr", "-i", "modify", "user", account, "set", "AdminLevel=None")
    found = check(lab, path)
    assert len(found) == 11
    assert {f"{OURS} {mend}" for mend in ("GraceTime=0", "PriorityTier=9", "PreemptMode=REQUEUE", "State=UP")} | {
        f"{OURS} {mend}" for mend in ("RootOnly=NO", "MinNodes=0", "MaxTime=1-00:00:00", "OverTimeLimit=0")
    } | {
        f"{OURS} TRESBillingWeights=CPU=0.0",
        f"{OURS} QOS=freetrain",
        f"sacctmgr -i modify user {account} set AdminLevel=Operator",
    } <= said(found)
    assert mended(lab, path) == []


def test_what_is_planted_in_slurm_conf_is_found_and_the_printed_lines_mend_it(lab: Lab, path: Path) -> None:
    configure(lab, "CompleteWait=90", "PreemptExemptTime=00:05:00", "SchedulerParameters=defer,bf_interval=30")
    found = check(lab, path)
    assert {"CompleteWait=0", "PreemptExemptTime=00:00:00", "SchedulerParameters=bf_interval=30"} <= said(found)
    assert mended(lab, path) == []


def test_what_is_planted_in_freetrains_file_is_found_and_the_printed_lines_mend_it(lab: Lab, path: Path) -> None:
    write(path, '[slurm]\npartition = "freetrian"\n')
    assert said(check(lab, path)) == {"[slurm]", 'partition = "freetrain"'}
    assert mended(lab, path) == []
    write(path, '[lend]\nexclude_nodes = "n[001,077]"\nshares = {nobody2 = 2}\n[decide]\npolicy = "freetrian"\n')
    right = ["[lend]", 'exclude_nodes = "n001"', "shares = {}", "[decide]", 'policy = "freetrain"']
    assert said(check(lab, path)) == set(right)
    write(path, "\n".join(right))
    assert check(lab, path) == []


def test_the_first_configuration_fits_the_slurm_that_it_was_made_for(lab: Lab, path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new" / "freetrain.toml"
    done = freetrain(lab, "config", "init", str(new))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{new} is written: partition freetrain, mode observe.\n")
    # Whether this machine's own /var/lib/freetrain is the lab's account's is no matter here.
    assert [one["what"] for one in check(lab, new) if "(state.directory)" not in str(one["what"])] == []


def test_the_rights_of_the_daemons_account_are_proved_with_a_job_that_is_gone_afterwards(lab: Lab) -> None:
    require_python_for_all()
    account = lab.users["daemon"]
    path = lab.directory / "check.toml"
    path.write_text(f'[state]\ndirectory = "{lab.directory}/none"\n')
    check = ("config", "check", "--config", str(path), "--user", account, "--prove", "--json")
    document = json.loads(run(lab, sys.executable, "-m", "freetrain", *check, role="daemon"))
    (done,) = [note for note in document["notes"] if "was submitted" in note]
    job = done.split()[3]
    assert done.startswith(f"As {account}, job {job} was submitted to partition freetrain, held, changed")
    assert run(lab, "squeue", "-h", "-t", "all", "-j", job, "-o", "%T %j") == "CANCELLED freetrain-check\n"
    assert [one for one in document["findings"] if "does not let" in str(one["what"])] == []


def test_without_a_controller_the_status_says_so(lab: Lab, path: Path) -> None:
    lab.stop_controller()
    try:
        done = freetrain(lab, "config", "check", "--config", str(path))
        assert done.returncode == 69, done.stderr
        assert "Slurm was not asked." in done.stdout
    finally:
        lab.start_controller()
