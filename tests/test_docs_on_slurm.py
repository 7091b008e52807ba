"""What the documentation tells Slurm is told a real one, page by page, and has the effect that it is there for."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from freetrain.lab import Lab, LabOptions
from tests.docs_shell import PAGES, ROOT, Command, Line, lines, mentioned, scripts
from tests.needed import several_people
from tests.slurm_lab import eventually, short_directory, started_lab

pytestmark = [pytest.mark.slurm, pytest.mark.slow, several_people]

PROGRAMS = ("sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "setpriv", "sinfo", "squeue", "srun")

INSTEAD: Mapping[str, str] = {
    "c[01-04]": "n[001-004]",
    "node=...": "node=4",
    "user freetrain": "user uucp",
    "account=any": "account=ml",
    "-S X -E Y": "-S now-1days -E now",
    "JOBID": "{job}",
    "JobId=ID": "JobId={job}",
    "release ID": "release {job}",
    "scancel ID": "scancel {job}",
    "$SLURM_JOB_ID": "{job}",
    "NodeName=…": "NodeName=n001",
    "freetrain:…": "freetrain:min=1",
}
"""Words of a page for what is there; ``{job}`` is a held job."""

PARTS = (
    "sacct --delimiter",
    "sacct -M",
    "scontrol hold",
    "scontrol uhold",
    "scontrol update",
    "squeue -O",
    "srun conda run '…'",
)
"""Of which a sentence speaks, without all that they need, or advises against."""

ELSEWHERE: Mapping[str, str] = {
    r"srun --ntasks=1 freetrain": "tests/test_docs_environment.py",
    r"srun --ntasks-per-node=4 ": "test_several_processes_start_on_each_node, below",
    r"sbatch --comment=freetrain:mim=2": "tests/slurm/test_job_submit.py",
}
"""What is run elsewhere, as more is needed for it."""

OWN_QOS = (
    "sacctmgr add qos freetrain",
    "sacctmgr modify account ml set QOS+=freetrain",
    "sacctmgr modify account root set QOS+=freetrain",
)
BEFORE: Mapping[str, tuple[str, ...]] = {
    r"sacctmgr modify .*[+]=freetrain": ("sacctmgr add qos freetrain",),
    r"sacctmgr modify .*[+]=spare": ("sacctmgr add qos spare",),
    r"sacctmgr modify user": ("sacctmgr add user uucp account=ml",),
    r"scontrol create .*ignore_jobs": ("scontrol delete reservation=repair", "sbatch -N4 --wrap 'sleep 600'"),
    r"scancel --partition": (
        "scontrol update PartitionName=freetrain State=UP",
        "sbatch -p freetrain --wrap 'sleep 600'",
    ),
    r"sacctmgr modify qos freetrain set GrpJobs=0": (
        *OWN_QOS,
        "sbatch -p main --qos=freetrain --begin=now+3 --wrap 'sleep 600'",
    ),
    r"scancel --qos": (
        *OWN_QOS,
        "sacctmgr modify qos freetrain set GrpJobs=-1",
        "sbatch -p main --qos=freetrain --wrap 'sleep 600'",
    ),
    r"scontrol release": ("scontrol uhold {job}",),
    r"scontrol update NodeName": ("scontrol update NodeName=n001 State=DRAIN Reason=repair",),
}
"""What somebody has done before."""

AFTER: Mapping[str, tuple[str, str]] = {
    r"sacctmgr add qos freetrain": (
        "sacctmgr -nP show qos freetrain format=PreemptMode,GraceTime,UsageFactor,GrpTRES,MaxSubmitJobsPU",
        r"requeue\|00:00:00\|0.0*\|node=4\|1000",
    ),
    r"sacctmgr -i add qos spare": ("sacctmgr -nP show qos spare format=UsageFactor", r"0.0+"),
    r"sacctmgr modify qos normal": ("sacctmgr -nP show qos normal format=Preempt", r"(.*,)?freetrain(,.*)?"),
    r"sacctmgr -i modify qos normal": ("sacctmgr -nP show qos normal format=Preempt", r"(.*,)?spare(,.*)?"),
    r"sacctmgr modify account": ("sacctmgr -nP show assoc account=ml user= format=QOS", r"(.*,)?freetrain(,.*)?"),
    r"sacctmgr -i modify account": ("sacctmgr -nP show assoc account=ml user= format=QOS", r"(.*,)?spare(,.*)?"),
    r"sacctmgr add user": ("sacctmgr -nP show user uucp format=User,DefaultAccount", r"uucp\|ml"),
    r"sacctmgr modify user": ("sacctmgr -nP show user uucp format=AdminLevel", r"Operator"),
    r"sacctmgr modify qos freetrain set GrpJobs=0": (
        "squeue -h -p main -o %r -j {last}",
        r"QOSGrpJobsLimit",
    ),
    r"scontrol create .*flags=maint$": ("scontrol -o show reservation repair", r".*Nodes=n\[001-004\] .*MAINT.*"),
    r"scontrol create .*ignore_jobs": (
        "scontrol -o show reservation repair",
        r".*Nodes=n\[001-004\] .*IGNORE_JOBS.*",
    ),
    r"scontrol update PartitionName": ("sinfo -h -p freetrain -o %a", r"down"),
    r"scontrol update NodeName": ("sinfo -h -p main -n n001 -o %T", r"idle"),
    r"scancel --partition": ("squeue -h -p freetrain -t RUNNING,COMPLETING", r""),
    r"scancel --qos": ("squeue -h -q freetrain -t RUNNING,COMPLETING", r""),
    r"scancel \d+": ("squeue -h -j {job} -t PENDING", r""),
    r"scontrol update JobId=\d+ Comment=freetrain": ("squeue -h -j {job} -o %k", r"freetrain:min=1"),
    r"scontrol update JobId=\d+ Comment=$": ("squeue -h -j {job} -o %k", r"(\(null\))?"),
    r"scontrol release": ("squeue -h -j {job} -o %r", r"(?!JobHeld).*"),
    r"(setpriv .*)?sbatch ": ("squeue -h -j {last} -o %i", r"\d+.*"),
    r"srun -N2 hostname": ("sacct -nPX -o NNodes,State --name=hostname", r"2\|COMPLETED"),
}
"""What Slurm says then, in its last line, if a command did what it is there for."""

CHANGES = re.compile(
    r"(setpriv .*)?sbatch |srun |scancel |scontrol (create|update|hold|release)|sacctmgr (-i )?(add|modify|delete)"
)


@dataclass
class Site:
    """A Slurm, and where its admin types."""

    lab: Lab
    directory: Path
    job: str = ""
    last: str = ""
    patience_s: float = 90.0

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        filled = [word.replace("{job}", self.job).replace("{last}", self.last) for word in words]
        if filled[0] == "sacctmgr":
            filled.insert(1, "-i")
        done = subprocess.run(
            filled, env=os.environ | self.lab.environment, cwd=self.directory,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if submitted := re.search(r"^Submitted batch job (\d+)", done.stdout):
            self.last = submitted[1]
        return done

    def complaint(self, command: str) -> str:
        """Type what a page shows, with what is there for its words: what Slurm says against it; empty: nothing."""
        for word, there in INSTEAD.items():
            command = command.replace(word, there)
        command = shlex.join(_words(command))
        before = next(
            (each for pattern, each in BEFORE.items() if re.match(pattern, command.replace("'", ""))), ()
        )
        for each in before:
            self._prepare(*_words(each))
        done = self.types(*_words(command))
        if done.returncode or "error" in done.stderr:
            return done.stderr + done.stdout
        command = command.replace("'", "").replace("{job}", self.job)
        if not CHANGES.match(command):
            return ""
        checks = [check for pattern, check in AFTER.items() if re.match(pattern, command)]
        return self._missed(*checks[0]) if checks else "nothing says what becomes of it"

    def _prepare(self, *words: str) -> None:
        done = self.types(*words)
        was_so = "Nothing new added" in done.stdout or "already exists" in done.stdout
        assert done.returncode == 0 or was_so, (words, done)
        if words[0] == "sbatch" and not any("--begin" in word for word in words):
            assert eventually(lambda: self.types("squeue", "-h", "-j", self.last, "-t", "R").stdout != "", 60.0)

    def _missed(self, question: str, answer: str) -> str:
        said = ""

        def is_so() -> bool:
            nonlocal said
            said = self.types(*_words(question)).stdout.strip().rpartition("\n")[2]
            return re.fullmatch(answer, said) is not None

        return "" if eventually(is_so, self.patience_s) else f"'{question}' says {said!r}"


def _words(command: str) -> tuple[str, ...]:
    (found,) = Line("", "", 0, command).commands
    return found.words


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    settings = {"PreemptType": "preempt/qos", "SchedulerParameters": "bf_interval=5"}
    with started_lab(LabOptions(nodes=4, gpus=4, accounting=True, nodes_per_leaf=2, settings=settings)) as lab:
        yield lab


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    """A Slurm as it is at first, with a held job, and a directory with the scripts that pages name."""
    with short_directory() as directory:
        for script in ("train.sh", "sweep.sh", "simulate.sh"):
            (directory / script).write_text("#!/bin/sh\n")
        directory.chmod(0o777)
        site = Site(lab, directory)
        site.types("sbatch", "--hold", "--wrap", "true")
        site.job = site.last
        yield site
        for command in (
            "scancel --user=root", "scancel --user=news", "scontrol delete reservation=repair",
            "scontrol update PartitionName=freetrain State=UP", "scontrol update NodeName=n001 State=RESUME",
            "sacctmgr delete user uucp", "sacctmgr delete qos freetrain,spare",
        ):  # fmt: skip
            site.types(*command.split())
        assert eventually(lambda: not site.types("squeue", "-h").stdout)
        assert eventually(lambda: set(site.types("sinfo", "-h", "-N", "-o", "%T").stdout.split()) == {"idle"})


def is_here(command: Command) -> bool:
    return command.program in PROGRAMS and not any(re.match(pattern, str(command)) for pattern in ELSEWHERE)


def of_blocks() -> Mapping[str, list[str]]:
    """Page and heading → what is told to Slurm below it, in its order."""
    found: dict[str, list[str]] = {}
    for command in [each for page in PAGES for line in lines(page) for each in line.commands]:
        if is_here(command):
            found.setdefault(f"{command.line.page}: {command.line.heading}", []).append(str(command))
    return found


def of_sentences() -> list[str]:
    """What is told to Slurm within sentences, as far as it is whole."""
    found = [str(each) for page in PAGES for each in mentioned(page, *PROGRAMS) if is_here(each)]
    return [command for command in dict.fromkeys(found) if command not in PARTS]


@pytest.mark.parametrize("place", of_blocks())
def test_what_a_page_tells_slurm_it_does(site: Site, place: str) -> None:
    for command in of_blocks()[place]:
        assert site.complaint(command) == "", command


@pytest.mark.parametrize("command", of_sentences())
def test_what_a_sentence_tells_slurm_it_does(site: Site, command: str) -> None:
    assert site.complaint(command) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        "sacctmgr add qos freetrain PreemptMode=reqeue",
        "sacctmgr modify qos freetrain set GrpJob=0",
        "sacctmgr modify user freetrain set AdminLevl=Operator",
        "sacctmgr -P show event Start=2024-06-01 format=Cluster,NodNam",
        "scontrol update PartitionName=freetrian State=DOWN",
        "scontrol create reservation=repair starttime=now duration=8:00:00 nodes=c[01-04] users=root flags=mant",
        "sbatch --hold --array=0-15 -N1 --exclusive --reqeue -p freetrain train.sh",
        "scancel --partition=freetrain --state=RUNING",
        "scancel --qos=freetrian --state=RUNNING",
        "sacct -a -X -o JobID,NodList",
        "squeue --me -o '%i %k' --steps-of=1",
        "srun -Ntwo hostname",
    ],
)
def test_a_wrong_line_is_found(site: Site, wrong: str) -> None:
    site.patience_s = 3.0
    assert site.complaint(wrong) != ""


@pytest.mark.parametrize("script", [each for page in PAGES for each in scripts(page) if "#SBATCH" in each])
def test_slurm_takes_a_script(site: Site, script: str) -> None:
    (site.directory / "shown.sh").write_text(script)
    assert site.types("sbatch", "--test-only", "shown.sh").returncode == 0
    (site.directory / "shown.sh").write_text(script.replace("#SBATCH --output", "#SBATCH --outptu"))
    assert site.types("sbatch", "--test-only", "shown.sh").returncode != 0


def test_what_is_elsewhere_is_shown_and_is_there() -> None:
    shown = [str(each) for page in PAGES for line in lines(page) for each in line.commands]
    shown += [str(each) for page in PAGES for each in mentioned(page, *PROGRAMS)]
    for pattern, where in ELSEWHERE.items():
        assert any(re.match(pattern, command) for command in shown), pattern
        assert Path(__file__).parents[1].joinpath(where).exists() or where.partition(",")[0] in globals()
    assert [part for part in PARTS if part not in shown] == []


def test_several_processes_start_on_each_node(site: Site) -> None:
    page = (ROOT / "docs/users/fillers.md").read_text()
    step = re.search(r"`(srun --ntasks-per-node=4 .*) …`", page)
    assert step is not None
    site.types("sbatch", "-W", "-N2", "--exclusive", "-o", "out", "--wrap", f"{step[1]} printenv SLURMD_NODENAME")
    names = (site.directory / "out").read_text().split()
    assert {name: names.count(name) for name in names} == {"n001": 4, "n002": 4}
