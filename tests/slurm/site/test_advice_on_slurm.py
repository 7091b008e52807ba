"""What ``config check`` prints, typed as it is, on a real Slurm: from nothing and from wrong premises to ``act``.

Afterwards the site's own jobs run in all its partitions and QOS: none preempts another, and none is locked out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from freetrain.lab import Lab, LabOptions
from tests.needed import several_people
from tests.slurm_lab import run, started_lab

NODES = 4
JOBS = int(os.environ.get("SITE_JOBS", "12"))
"""Jobs of the site's in each case; by hand 200."""

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600 + 6 * JOBS), several_people]


@dataclass(frozen=True)
class Case:
    """A site, and what its admin begins with.

    Attributes:
        partitions: name → tier.
        preempts: QOS → those that it preempts; none: Slurm preempts nothing at first.
        more: partition → what else its line says.
        settings: of ``[slurm]``.
    """

    partitions: dict[str, int]
    preempts: dict[str, str] = field(default_factory=dict)
    more: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteJob:
    """A job of the site's that has ended; times as Slurm writes them, whose order is theirs.

    Attributes:
        kind: its partition and its QOS.
        state: as it ended.
        submitted: when it was submitted.
        started: when it began.
        ended: when it ended.
    """

    kind: str
    state: str
    submitted: str
    started: str
    ended: str

    def waited_for(self, other: SiteJob) -> bool:
        """Whether the other ran from before this one was submitted until it began, or nearly."""
        return other.started < self.submitted < other.ended <= self.started


THREE = {"normal": "freetrain", "low": "freetrain", "high": "freetrain,low", "freetrain": ""}
OWN = {"main": 2, "freetrain": 1}
NOTHING = {
    "tiers 1 and 5": Case({"main": 1, "high": 5}),
    "tiers 10, 20 and 40": Case({"main": 10, "debug": 20, "high": 40}),
    "equal tiers": Case({"main": 1, "debug": 1}),
    "three QOS": Case({"main": 1}, {"normal": "", "low": "", "high": "low"}),
}
WRONG = {
    "an ordinary QOS is admitted": Case(OWN, THREE, {"freetrain": "AllowQos=freetrain,normal"}),
    "the QOS is forgotten": Case({"main": 1}, THREE, settings={"partition": "main"}),
    "the QOS is everybody's": Case({"main": 1}, THREE, settings={"partition": "main", "qos": "normal"}),
    "the QOS is misspelt": Case({"main": 1}, THREE, settings={"partition": "main", "qos": "freetrian"}),
    "the partition is the site's": Case({"main": 1, "high": 5}, settings={"partition": "main"}),
    "the partition is misspelt": Case(OWN, settings={"partition": "freetrian"}),
}
ALWAYS = ("an ordinary QOS is admitted",)
CASES = [
    pytest.param(case, id=name, marks=() if name in ALWAYS else pytest.mark.soak)
    for name, case in {**NOTHING, **WRONG}.items()
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A real Slurm, which each case lays out again."""
    with started_lab(LabOptions(nodes=NODES, accounting=True)) as lab:
        yield lab


@dataclass
class Admin:
    """Whoever lays the site out, and types what is printed."""

    lab: Lab
    case: Case
    path: Path

    @property
    def conf(self) -> Path:
        """slurm.conf."""
        return Path(self.lab.environment["SLURM_CONF"])

    def lay_out(self) -> None:
        """The site as it is at first."""
        case = self.case
        kept = [line for line in self.conf.read_text().splitlines() if not re.match(r"Partition|Preempt", line)]
        mode = "PreemptMode=REQUEUE" if case.preempts else "PreemptMode=OFF"
        preempt_type = "preempt/qos" if case.preempts.get("high") else "preempt/none"
        lines = [
            f"PartitionName={name} Nodes=ALL PriorityTier={tier} Default={'YES' if number == 0 else 'NO'} "
            f"OverSubscribe=EXCLUSIVE MaxTime=1-0 State=UP {case.more.get(name, '')}".rstrip()
            for number, (name, tier) in enumerate(case.partitions.items())
        ]
        for name in self.qos() - {"normal"}:
            self.type("sacctmgr", "-i", "delete", "qos", name)
        for name in case.preempts.keys() - {"normal"}:
            self.type("sacctmgr", "-i", "add", "qos", name)
        # A QOS that was just made preempts none; to set that makes Slurm 22.05 find a loop in the next one.
        for name, preempted in filter(all, case.preempts.items()):
            self.type("sacctmgr", "-i", "modify", "qos", name, "set", f"Preempt={preempted}")
        if case.preempts:
            self.type("sacctmgr", "-i", "modify", "account", "ml", "set", f"QOS={','.join(case.preempts)}")
        self.restart([f"PreemptType={preempt_type}", mode if case.preempts else "PreemptMode=OFF", *kept, *lines])
        self.write(case.settings)

    def qos(self) -> set[str]:
        return set(self.type("sacctmgr", "-n", "-P", "show", "qos", "format=Name").split())

    def restart(self, lines: Sequence[str]) -> None:
        self.lab.stop_controller()
        self.conf.write_text("\n".join(lines) + "\n")
        self.lab.start_controller()

    def write(self, settings: dict[str, str]) -> None:
        state = self.path.parent / "state"
        slurm = "".join(f'{key} = "{value}"\n' for key, value in settings.items())
        self.path.write_text(
            f'[slurm]\nbackend = "cli"\n{slurm}[lend]\nmode = "act"\n'
            f'[state]\ndirectory = "{state}"\nstop_file = "{state}/STOP"\n'
        )

    def type(self, *command: str) -> str:
        return run(self.lab, *command)

    def findings(self) -> list[dict[str, object]]:
        done = self._freetrain(
            "config", "check", "--config", str(self.path), "--user", self.lab.users["daemon"], "--json"
        )
        found: list[dict[str, object]] = json.loads(done.stdout)["findings"]
        return found

    def errors(self) -> list[str]:
        return [str(finding["what"]) for finding in self.findings() if finding["is_error"]]

    def mend(self) -> None:
        """Type every line that is printed, each where it belongs, in the order in which they are printed."""
        lines = [
            (mend["place"], mend["line"])
            for finding in self.findings()
            if finding["is_error"] or "state.directory" not in str(finding["what"])
            for mend in finding["mends"]  # type: ignore[attr-defined]
        ]
        for place, line in lines:
            if place == "run" and not line.startswith("chown"):
                self.type(*shlex.split(line))
        conf = [line for place, line in lines if place == "slurm.conf"]
        if conf:
            self.restart(typed_into(self.conf.read_text().splitlines(), conf))
        toml = "\n".join(dict.fromkeys(line for place, line in lines if place == "freetrain.toml"))
        given = tomllib.loads(toml).get("slurm", {})
        if given:
            self.write({**self.case.settings, **given})
            self.case.settings.update(given)

    def daemon_lends(self) -> subprocess.CompletedProcess[str]:
        return self._freetrain("daemon", "--config", str(self.path), "--cycles", "1")

    def _freetrain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "freetrain", *arguments]
        environment = os.environ | self.lab.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)

    def run_jobs(self) -> list[SiteJob]:
        """Jobs of all kinds, of which few wait at a time, so that each kind arrives while others run."""
        qos = [name for name in self.case.preempts if name != "freetrain"] or [""]
        partitions = [name for name in self.case.partitions if name != "freetrain"]
        kinds = [f"{partition} {name}".strip() for partition, name in product(partitions, qos)]
        kind_of = {}
        for number in range(JOBS):
            self.wait_until_at_most(NODES)
            kind = kinds[number % len(kinds)]
            options = [f"--{key}={name}" for key, name in zip(("partition", "qos"), kind.split(), strict=False)]
            script = ["--wrap", "sleep 2", "-o", "/dev/null", "--parsable"]
            command = ["sbatch", *options, f"-N{1 + number % 2}", "--no-requeue", *script]
            kind_of[run(self.lab, *command, role="alice").strip()] = kind
        self.wait_until_at_most(0)
        fields = ("-o", "JobID,State,Submit,Start,End", "-j", ",".join(kind_of))
        while "Unknown" in (shown := self.type("sacct", "-D", "-n", "-P", "-X", *fields)):
            time.sleep(1)  # accounting hears of an end a little later
        rows = (row.split("|") for row in shown.splitlines())
        return [SiteJob(kind_of[job], *row) for job, *row in rows]

    def wait_until_at_most(self, waiting: int) -> None:
        """Until so few jobs wait."""
        deadline_s = time.monotonic() + 300
        while self.type("squeue", "-h", "-o", "%T").count("PENDING") > waiting:
            assert time.monotonic() < deadline_s, self.type("squeue")
            time.sleep(0.2)


def typed_into(conf: list[str], lines: Sequence[str]) -> list[str]:
    """slurm.conf with these lines: a setting replaces the old one, a field stands in its partition's line."""
    for line in lines:
        if change := re.fullmatch(r"PartitionName=(\S+) … (\w+)=(.*)", line):
            name, key, value = change.groups()
            conf = [
                re.sub(rf"(?i) {key}=\S+", "", old) + f" {key}={value}"
                if re.match(rf"PartitionName={name}\b", old)
                else old
                for old in conf
            ]
        elif line.startswith("PartitionName="):
            conf = [*conf, line]
        else:
            conf = [line, *(old for old in conf if not old.startswith(f"{line.partition('=')[0]}="))]
    return conf


@pytest.mark.parametrize("case", CASES)
def test_the_printed_lines_lead_to_lending_and_the_sites_own_jobs_feel_nothing_of_them(
    lab: Lab, case: Case, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    admin = Admin(
        lab, Case(case.partitions, case.preempts, case.more, dict(case.settings)), tmp_path / "freetrain.toml"
    )
    admin.lay_out()
    assert admin.errors(), "it is not as it must be at first"
    deadline_s = time.monotonic() + 120
    while (errors := admin.errors()) and time.monotonic() < deadline_s:
        admin.mend()
    assert errors == []
    done = admin.daemon_lends()
    assert done.returncode == 0, done.stderr
    jobs = admin.run_jobs()
    record_property("jobs", len(jobs))  # of each case, in the file of --junitxml
    record_property("ended", dict(Counter(f"{job.kind} {job.state}" for job in jobs)))
    waits = Counter((job.kind, other.kind) for job in jobs for other in jobs if job.waited_for(other))
    record_property("waited", {f"{kind} for {other}": count for (kind, other), count in waits.items()})
    preempted_before = {"main low"} if case.preempts.get("high") else set()
    assert len(jobs) == JOBS
    assert {job.kind for job in jobs if job.state != "COMPLETED"} <= preempted_before, jobs
    assert {job.state for job in jobs} <= {"COMPLETED", "PREEMPTED"}
    # Few jobs do not meet in all ways.
    assert JOBS < 200 or waits.keys() >= {(a, b) for a, b in product({job.kind for job in jobs}, repeat=2)}
