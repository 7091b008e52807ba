"""Every freetrain command that the documentation shows is run: beside stand-ins for Slurm, or where it is said."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.config import Config
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.daemon.reports.status import LookStatus, NodeGroup, StatusFile, TrainerStatus
from freetrain.slurm.queries import JOB_FIELDS, SEPARATOR
from freetrain.store import Store
from freetrain.store.ledger import DAEMON_COMMAND
from tests.cli.fake_slurm import FakeSlurm
from tests.cli.test_replay import LOG
from tests.cli.test_solve import PROBLEM
from tests.docs_shell import PAGES, freetrain_commands
from tests.store.samples import NAMES, decide, new_run
from tests.store.samples import PROBLEM as DECIDED

ME = pwd.getpwuid(os.geteuid()).pw_name

ELSEWHERE: Mapping[str, str] = {
    r"daemon\b": "goes on until it is stopped: tests/daemon/test_service.py",
    r"web\b": "goes on until it is stopped: tests/web/test_server.py",
    r"lab\b": "starts a real Slurm: tests/cli/test_lab.py",
    r"freeze\b": "runs a program under a freezer: tests/elastic/on_node/test_freezing.py",
    r"run\b": "starts a training: tests/test_docs_environment.py, tests/examples/test_examples.py",
    r"poke\b": "needs a training that runs: tests/elastic/on_node/test_agent.py",
    r"curve\b": "needs a training that has run: tests/cli/test_curve.py",
    r"sweep\b": "takes minutes: tests/cli/test_sweep.py",
    r"runs compare(?! \d)": "needs a sweep: tests/cli/test_sweep.py",
    r"replay .*--policy first-come": "needs the package that the page shows: tests/policies/test_installed.py",
    r"replay .*site_objectives": "needs the file that the page shows: tests/test_docs.py",
    r"ledger .*--check": "needs accounting: tests/cli/test_ledger.py",
    r"config check --prove": "needs a Slurm that a job can be tried in: tests/cli/test_config_check_on_slurm.py",
    r"drain .*--wait": "needs a daemon: tests/cli/test_drain.py",
}
"""What cannot be run here, why, and where it is."""

INSTEAD: Mapping[str, str] = {
    "JOBID": "7",
    "PARTITION": "main",
    "YOUR_LOG.psv": "june.psv",
    "node_events.csv.gz --only-nodes 0-255 --from 2021-02-10T20:21:15": "june.psv",
    "trainers_hpo_shufflenet_1000.json.gz": "preset:hpo",
    "june.psv": "june.psv --as ideal --no-report",
    "--decision 12:480": "--decision 1:1",
    "--decision 3:120": "--decision 1:1",
    "2026-01-31T18:00": "now+2hours",
    "config init": "config init --force",
    "runs show 3": "runs show 1",
    "runs compare 3 4 7": "runs compare 2 3",
    "runs compare 3 4": "runs compare 2 3",
}
"""Words of a page for what is there."""

MAY_END: Mapping[str, set[int]] = {
    "config check": {0, 78},
    "config init": {0, 78},
    "health": {0, 1, 2},
}
"""With these statuses, where not 0: they judge this site of stand-ins."""

BEFORE: Mapping[str, str] = {"undrain": "drain c[01-04]", "resume": "pause"}
"""What somebody has done before."""

LOOK = LookStatus(
    time_s=0.0,
    took_s=0.1,
    nodes=(NodeGroup("c[01-02]", "lent", "4711"), NodeGroup("c[03-04]", "free")),
    trainers=(TrainerStatus("4711", ME, "active", lent="c[01-02]"),),
)


def record(id_: str, **changes: str) -> str:
    fields = dict.fromkeys(JOB_FIELDS, "") | {"%i": id_, "%F": id_.split("_")[0], "%u": ME, "%P": "main"}
    fields |= {"%T": "PENDING", "%r": "Priority", "%V": "1", "%l": "1:00:00", "%D": "1", "%Q": "1"}
    fields |= {f"%{letter}": value for letter, value in changes.items()}
    return SEPARATOR.join(("MARK", *fields.values())) + "\n"


QUEUES: Mapping[str, str] = {
    "register": record("7_[0-15]"),
    "unregister": record("7_[0-15]", P="freetrain", k="freetrain:min=1"),
}
"""What squeue says of the job that is asked about."""


def stand_ins(directory: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    names = ("squeue", "scontrol", "sacct", "sacctmgr", "sdiag", "sbatch", "scancel")
    slurm = FakeSlurm.on_path(directory, monkeypatch, *names)
    slurm.answers(
        "squeue", record("7_[0-15]") + record("4711_0", P="freetrain", T="RUNNING", N="c01", k="freetrain:min=1")
    )
    nodes = "".join(f"NodeName=c0{number} State=IDLE Partitions=freetrain,main\n" for number in range(1, 5))
    slurm.answers("scontrol", nodes, when="show nodes")
    partitions = (
        "PartitionName=main Nodes=c[01-04] State=UP PriorityTier=10 PreemptMode=OFF GraceTime=0 "
        "MaxTime=UNLIMITED\n"
        "PartitionName=freetrain Nodes=c[01-04] State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0 "
        "MaxTime=UNLIMITED\n"
    )
    slurm.answers("scontrol", partitions, when="show partition")
    slurm.answers("scontrol", partitions, when="-o show")
    slurm.answers("scontrol", "No reservations in the system\n", when="show reservation")
    config = (Path(__file__).parent / "slurm" / "recorded" / "config_22.05.txt").read_text()
    slurm.answers("scontrol", config.replace("slurmdbd", "none"), when="show config")
    slurm.answers("sbatch", "4712\n")
    return slurm


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The daemon's database, and a user's with three replays."""
    folder = tmp_path_factory.mktemp("stores")
    daemons = Store.open(folder / "freetrain.db")
    with daemons.begin_run(new_run(DAEMON_COMMAND, NAMES), batch_decisions=1) as journal:
        journal.record(DECIDED, decide())
        journal.finish({}, [], 1020.0)
    ledger = daemons.ledger()
    ledger.save_trainers([KnownTrainer("4711", ME, "freetrain:min=1", TrainerState.ACTIVE, 1.0)])
    started_s = time.time() - 3600
    ledger.save_fragments(
        [Fragment("4711_0", "4711", "c01", FragmentState.RUNNING, started_s, 9e4, started_s, decision="1:1")]
    )
    shutil.copy(folder / "freetrain.db", folder / "users.db")
    (folder / "june.psv").write_text(LOG)
    for policy in ("freetrain", "equal-share"):
        options = ("--as", "ideal", "--policy", policy, "--no-report", "-q", "--store", str(folder / "users.db"))
        assert CliRunner().invoke(cli, ["replay", str(folder / "june.psv"), *options]).exit_code == 0
    return folder


@pytest.fixture
def site(tmp_path: Path, stores: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where a daemon has looked, in whose home there are the files that the pages name."""
    stand_ins(tmp_path / "bin", monkeypatch)
    state = tmp_path / "state"
    state.mkdir()
    shutil.copy(stores / "freetrain.db", state / "freetrain.db")
    shutil.copy(stores / "users.db", tmp_path / "users.db")
    settings = f"[slurm]\nbackend = 'cli'\n[state]\ndirectory = '{state}'\nstop_file = '{tmp_path}/STOP'\n"
    (tmp_path / "freetrain.toml").write_text(settings)
    monkeypatch.setenv("FREETRAIN_CONFIG", str(tmp_path / "freetrain.toml"))
    monkeypatch.setenv("FREETRAIN_STORE", str(tmp_path / "users.db"))
    config = Config.model_validate({"lend": {"mode": "act"}, "state": {"directory": str(state)}})
    StatusFile(state, 30.0, False).looked(config, replace(LOOK, time_s=time.time()))
    (tmp_path / "june.psv").write_text(LOG)
    (tmp_path / "problem.json").write_text(json.dumps(PROBLEM))
    for script in ("train.sh", "sweep.sh", "simulate.sh", "hq-worker.sh"):
        (tmp_path / script).write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands() -> list[str]:
    """All that are shown, once each, with what is there instead of a page's words."""
    found = dict.fromkeys(command for page in PAGES for command in freetrain_commands(page))
    for word, there in INSTEAD.items():
        found = dict.fromkeys(command.replace(word, there) for command in found)
    return list(found)


def is_elsewhere(command: str) -> bool:
    return any(re.match(pattern, command) for pattern in ELSEWHERE)


@pytest.mark.parametrize("command", [command for command in commands() if not is_elsewhere(command)])
def test_a_command_that_is_shown_does_what_it_says(site: Path, command: str) -> None:
    if before := BEFORE.get(command.split()[0]):
        assert CliRunner().invoke(cli, shlex.split(before)).exit_code == 0
    if (queue := QUEUES.get(command.split()[0])) is not None:
        FakeSlurm(site / "bin").answers("squeue", queue)
    done: Result = CliRunner().invoke(cli, shlex.split(command))
    expected = next((statuses for words, statuses in MAY_END.items() if command.startswith(words)), {0})
    assert done.exit_code in expected, done.output
    assert "Usage: " not in done.output
    assert "defect in freetrain" not in done.output


def test_what_is_elsewhere_is_shown_and_is_there() -> None:
    everything = commands()
    for pattern, why in ELSEWHERE.items():
        assert any(re.match(pattern, command) for command in everything), f"no page shows {pattern}"
        for path in re.findall(r"tests/[a-z_/]+\.py", why):
            assert Path(__file__).parents[1].joinpath(path).exists(), path


def test_most_are_run_here() -> None:
    everything = commands()
    assert sum(map(is_elsewhere, everything)) < len(everything) / 2
