"""What ``freetrain status``, ``jobs`` and ``nodes`` say, beside a daemon and without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.config import Config
from freetrain.daemon.controls.site_orders import Pause, write_pause
from freetrain.daemon.reports.status import LookStatus, NodeGroup, StatusFile, TrainerStatus
from freetrain.errors import ExitCode
from freetrain.slurm.queries import JOB_FIELDS, SEPARATOR
from tests.cli.fake_slurm import CONFIG, FakeSlurm

PARTITION = (
    "PartitionName=freetrain Nodes=n[1-4] State=UP PriorityTier=1 PreemptMode=REQUEUE "
    "GraceTime=0 MaxTime=UNLIMITED\n"
)
NODES = "".join(f"NodeName=n{number} State={{n{number}}} Partitions=freetrain\n" for number in range(1, 5))
COSTS = {"scale_up_s": 0.5, "scale_down_s": 0.25, "start_s": 10.0, "boot_s": 8.04}
LOOK = LookStatus(
    time_s=0.0,
    took_s=0.25,
    nodes=(
        NodeGroup("n1", "lent", "1", until_s=2e9),
        NodeGroup("n2", "asked for", "1"),
        NodeGroup("n3", "free"),
        NodeGroup("n4", "not lent", why="job 9 runs here"),
    ),
    trainers=(
        TrainerStatus(
            "1", "news", "active", lent="n1", asked="n2", samples_done=1234.0, ends={"preempted": 2}, costs=COSTS
        ),
        TrainerStatus("2", "games", "active"),
        TrainerStatus("3", "games", "resting", note="1 failures in a row; rests for 60 s"),
    ),
)


class Site:
    """A Slurm of four nodes, and what a daemon published."""

    def __init__(self, directory: Path, slurm: FakeSlurm) -> None:
        self.slurm = slurm
        self.state = directory / "state"
        self.stop_file = directory / "STOP"
        self.state.mkdir()
        self.config = Config.model_validate({"lend": {"mode": "act"}})
        self.has_states("ALLOCATED", "ALLOCATED", "IDLE", "ALLOCATED")

    def has_states(self, *states: str) -> None:
        """Slurm's words for the four nodes."""
        named = {f"n{number}": state for number, state in enumerate(states, 1)}
        self.slurm.answers("scontrol", NODES.format(**named), when="show nodes")

    def published(self, look: LookStatus | None = LOOK, ago_s: float = 7.0, mode: str = "act") -> StatusFile:
        """A daemon, which is this process, has looked."""
        at_s = time.time() - ago_s
        file = StatusFile(self.state, 30.0, False, lambda: at_s)
        lend = self.config.lend.model_copy(update={"mode": mode})
        file.looked(self.config.model_copy(update={"lend": lend}), look and replace(look, time_s=at_s))
        return file


def task(
    id_: str, state: str = "PENDING", node: str = "", user: str = "news", tag: str = "freetrain:min=1"
) -> str:
    account = "press" if user == "news" else "fun"
    fields = dict.fromkeys(JOB_FIELDS, "") | {"%i": id_, "%F": id_.split("_")[0], "%u": user, "%P": "freetrain"}
    fields |= {
        "%T": state,
        "%V": "1",
        "%S": "1",
        "%l": "1:00:00",
        "%D": "1",
        "%Q": "0",
        "%N": node,
        "%k": tag,
        "%a": account,
    }
    return SEPARATOR.join(("MARK", *fields.values())) + "\n"


QUEUE = (
    task("1_0", "RUNNING", "n1")
    + task("1_1")
    + task("2_[0-3]", user="games")
    + task("3_0", user="games")
    + task("4_0", user="games")
    + task("5_0", user="games", tag="freetrain:mni=1")
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    slurm = FakeSlurm.on_path(tmp_path / "bin", monkeypatch, "squeue", "scontrol")
    slurm.answers("squeue", QUEUE)
    slurm.answers("scontrol", PARTITION, when="show partition")
    slurm.answers("scontrol", "No reservations in the system\n", when="show reservation")
    slurm.answers("scontrol", CONFIG, when="show config")
    config = tmp_path / "freetrain.toml"
    config.write_text(
        f"[slurm]\nbackend = 'cli'\n[state]\ndirectory = '{tmp_path}/state'\nstop_file = '{tmp_path}/STOP'\n"
    )
    monkeypatch.setenv("FREETRAIN_CONFIG", str(config))
    return Site(tmp_path, slurm)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def job_states() -> dict[str, str]:
    return {row["id"]: row["state"] for row in json.loads(run("jobs", "--json").stdout)["jobs"]}


def node_states() -> dict[str, tuple[str, str]]:
    rows = json.loads(run("nodes", "--json").stdout)["nodes"]
    return {
        name: (f"{row['state']} {row['trainer'] or ''}".strip(), row["why"])
        for row in rows
        for name in row["nodes"]
    }


def test_of_a_filler_it_says_how_many_of_its_tasks_had_their_turn(site: Site) -> None:
    tag = "freetrain:kind=tasks"
    site.slurm.answers("squeue", task("1_5", "RUNNING", "n1", tag=tag) + task("1_6", tag=tag))
    one = TrainerStatus("1", "news", "active", lent="n1", ends={"completed": 3, "failed": 1, "preempted": 2})
    site.published(replace(LOOK, trainers=(one,)))
    assert job_states() == {"1": "running; of its tasks 3 completed and 1 failed"}


def test_of_tasks_of_several_nodes_it_says_how_many_each_may_have(site: Site) -> None:
    tag = "freetrain:kind=tasks,nodes=2-3"
    site.slurm.answers("squeue", task("1_5", "RUNNING", "n[1-2]", tag=tag) + task("1_6", tag=tag))
    site.published(replace(LOOK, trainers=(TrainerStatus("1", "news", "active", lent="n[1-2]"),)))
    (row,) = json.loads(run("jobs", "--json").stdout)["jobs"]
    assert (row["nodes"], row["task_nodes"], row["max_nodes"]) == (["n1", "n2"], [2, 3], 6)
    assert "2-3 each" in run("jobs").stdout


def test_every_listing_begins_with_how_the_daemon_stands(site: Site) -> None:
    site.published()
    for command in ("status", "jobs", "nodes"):
        first, second, *_ = run(command).stdout.splitlines()
        assert first.startswith(f"The daemon (process {os.getpid()}) has run since 20")
        assert first.endswith("mode act, launcher steer, partition freetrain.")
        assert re.fullmatch(r"Last look \d+ s ago, in 0.2 s. Slurm answers.", second)


@pytest.mark.parametrize("with_daemon", [True, False])
def test_where_parts_are_lent_a_node_with_jobs_may_be_free(site: Site, tmp_path: Path, with_daemon: bool) -> None:
    with (tmp_path / "freetrain.toml").open("a") as config:
        config.write("[lend]\nshare = 'any'\n")
    details = "CPUTot=8 CPUAlloc={} RealMemory=100 AllocMem=0 Gres=(null) State=MIXED Partitions=freetrain\n"
    used = {"n1": 8, "n2": 8, "n3": 2, "n4": 8}
    nodes = "".join(f"NodeName={name} {details.format(cpus)}" for name, cpus in used.items())
    site.slurm.answers("scontrol", nodes, when="-o show")
    if with_daemon:
        site.published()
        assert node_states()["n3"] == ("free", "")
    else:
        assert node_states()["n3"] == ("not lent", "could be lent, if a daemon were at work")
        assert node_states()["n4"] == ("not lent", "jobs have all of it")


def test_the_speeds_that_are_believed_are_shown_as_a_tag_says_them(site: Site) -> None:
    first, *others = LOOK.trainers
    known = replace(first, speeds={"a100": 1.0, "v100": 0.11})
    site.published(replace(LOOK, trainers=(known, *others)))
    assert json.loads(run("jobs", "--json").stdout)["jobs"][0]["speeds"] == {"a100": 1.0, "v100": 0.11}
    (line,) = [line for line in run("jobs").stdout.splitlines() if line.startswith("1 ")]
    assert "running; speed=a100:1/v100:0.11" in line


def test_lent_is_told_from_asked(site: Site) -> None:
    site.published()
    site.slurm.answers("squeue", QUEUE + task("9", "RUNNING", "n4", tag=""))
    first = json.loads(run("jobs", "--json").stdout)["jobs"][0]
    assert (first["nodes"], first["asked_nodes"], first["samples"]) == (["n1"], ["n2"], 1234.0)
    assert first["ends"] == {"preempted": 2}
    assert first["costs"] == COSTS
    assert node_states() == {
        "n1": ("lent 1", ""), "n2": ("asked for 1", ""), "n3": ("free", ""), "n4": ("not lent", "job 9 runs here")
    }  # fmt: skip
    (line,) = [line for line in run("jobs").stdout.splitlines() if line.startswith("1 ")]
    assert line.split() == [
        "1", "–", "news", "1", "1", "1-2", "1,234", "2", "0.5/0.25/10/8.04", "running", "n1",
    ]  # fmt: skip
    assert "asked for 1" in run("nodes").stdout


def test_what_has_started_or_ended_since_the_last_look_is_seen(site: Site) -> None:
    site.published()
    site.slurm.answers("squeue", task("1_0") + task("1_1", "RUNNING", "n2"))
    site.has_states("IDLE", "ALLOCATED", "ALLOCATED", "ALLOCATED")
    assert node_states() == {
        "n1": ("not lent", "the fragment of 1 has just ended"),
        "n2": ("lent 1", ""),
        "n3": ("not lent", "Slurm says ALLOCATED"),
        "n4": ("not lent", "Slurm says ALLOCATED"),
    }
    (row,) = json.loads(run("jobs", "--json").stdout)["jobs"]
    assert (row["nodes"], row["asked_nodes"]) == (["n2"], [])


def test_who_has_a_node_now_is_told_not_who_had_it(site: Site) -> None:
    groups = (NodeGroup("n1", "lent", "1"), NodeGroup("n2", "due back", "1"), NodeGroup("n3", "due back", "1"))
    site.published(replace(LOOK, nodes=groups))
    site.slurm.answers("squeue", task("2_0", "RUNNING", "n1") + task("1_1", "RUNNING", "n2"))
    assert node_states() == {
        "n1": ("lent 2", ""),
        "n2": ("due back 1", ""),
        "n3": ("not lent", "the fragment of 1 has just ended"),
    }


@pytest.mark.parametrize(
    ("found", "state", "job", "now"),
    [
        ("job 9 runs here", "ALLOCATED", "9", "job 9 runs here"),
        ("job 9 runs here", "ALLOCATED", "11", "job 11 runs here"),
        ("job 9 runs here", "IDLE", "", "job 9 has just ended"),
        ("job 9 runs here", "DOWN", "", "Slurm says DOWN"),
        ("Slurm says DOWN", "DOWN", "", "Slurm says DOWN"),
        ("Slurm says DOWN", "IDLE+DRAIN", "", "Slurm says IDLE+DRAIN"),
        ("Slurm says DOWN", "IDLE", "", "Slurm showed DOWN a moment ago"),
        ("Slurm says DOWN", "ALLOCATED", "11", "job 11 runs here"),
        ("excluded by the site", "ALLOCATED", "11", "excluded by the site"),
        ("", "ALLOCATED", "11", "job 11 runs here"),
    ],
)
def test_why_a_node_is_not_lent_is_not_what_has_ended_meanwhile(
    site: Site, found: str, state: str, job: str, now: str
) -> None:
    group = NodeGroup("n4", "not lent", why=found) if found else NodeGroup("n4", "free")
    site.published(replace(LOOK, nodes=(group,)))
    site.slurm.answers("squeue", task(job, "RUNNING", "n4", tag="") if job else "")
    site.has_states("IDLE", "IDLE", "IDLE", state)
    assert node_states() == {"n4": ("not lent", now)}


def test_why_a_trainer_has_nothing_is_the_daemons_word(site: Site) -> None:
    site.published()
    assert job_states() == {
        "1": "running",
        "2": "waits for idle nodes",
        "3": "1 failures in a row; rests for 60 s",
        "4": "waits for the daemon's next look",
        "5": "refused: there is no key mni; did you mean min?",
    }
    waiting = replace(LOOK.trainers[1], why="waits for 3 more nodes")
    site.published(replace(LOOK, trainers=(LOOK.trainers[0], waiting)))
    assert job_states()["2"] == "waits for 3 more nodes"


def test_a_stop_file_is_named_before_and_after_the_daemon_has_seen_it(site: Site) -> None:
    site.stop_file.touch()
    site.published()
    assert f"Nothing is lent: stopped by {site.stop_file}, as of the next look." in run("nodes").stdout
    why = f"stopped by {site.stop_file}"
    site.published(replace(LOOK, stopped_by=why, nodes=(NodeGroup("n[1-4]", "not lent", why=why),)))
    assert f"Nothing is lent: {why}." in run("nodes").stdout
    assert job_states()["2"] == why
    site.slurm.answers("squeue", task("1_0"))
    assert set(node_states().values()) == {("not lent", why)}


def test_without_a_daemon_nothing_waits_for_idle_nodes(site: Site) -> None:
    shown = run("jobs").stdout
    assert shown.startswith(f"No daemon is at work here: there is no {site.state}/status.json.\n")
    assert "idle nodes" not in shown
    assert job_states()["1"] == "running; no daemon is at work"
    assert job_states()["2"] == "waits for a daemon"
    assert node_states() == {
        "n1": ("lent 1", ""),
        "n2": ("not lent", "Slurm says ALLOCATED"),
        "n3": ("not lent", "could be lent, if a daemon were at work"),
        "n4": ("not lent", "Slurm says ALLOCATED"),
    }


def test_orders_of_the_sites_count_for_nodes_without_a_daemon_too(site: Site) -> None:
    write_pause(site.state, Pause(by="root", reason="", since_s=1.0))
    assert node_states()["n3"] == ("not lent", "nothing more is lent: paused by root")
    site.stop_file.touch()
    assert node_states()["n3"] == ("not lent", f"stopped by {site.stop_file}")


def test_a_daemon_that_only_observes_is_not_waited_for(site: Site) -> None:
    site.published(mode="observe")
    assert job_states()["2"] == "the daemon lends nothing in mode observe"


def test_a_daemon_that_was_stopped_died_or_hangs_is_not_at_work(site: Site) -> None:
    site.published().stopped()
    assert "No daemon is at work here: it was stopped 7 s ago." in run("jobs").stdout
    site.published(ago_s=600)
    hangs = f"process {os.getpid()} should look every 30 s, and was heard of 10 min ago."
    assert hangs in run("nodes").stdout
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    path = site.state / "status.json"
    site.published()
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {dead.stdout.strip()}'))
    assert f"process {dead.stdout.strip()} is gone, and was heard of 7 s ago." in run("status").stdout
    path.write_text(path.read_text().replace('"host": "', '"host": "login-'))
    assert "what is published is of login-" in run("status").stdout
    assert json.loads(run("jobs", "--json").stdout)["jobs"][0]["samples"] == 1234.0


def test_a_slurm_that_does_not_answer_the_daemon_is_said(site: Site) -> None:
    site.published().silent("Slurm's answer to squeue cannot be understood: \x1b[31m.")
    result = run("status")
    assert "No look has succeeded since 20" in result.stdout
    assert "cannot be understood: ?[31m." in result.stdout
    assert result.exit_code == ExitCode.UNREACHABLE


def test_lines_that_were_not_understood_are_shown(site: Site) -> None:
    site.published(replace(LOOK, rejected=3, rejected_examples=("job '8': hm",)))
    assert "3 lines of Slurm's were not understood, as job '8': hm" in run("nodes").stdout


def test_the_status_counts_and_its_exit_status_says_whether_all_is_well(site: Site) -> None:
    assert run("status").exit_code == ExitCode.UNREACHABLE
    site.published(None)
    assert "It has not looked yet." in run("status").stdout
    site.published()
    result = run("status")
    assert "Nodes: 1 lent, 1 asked for, 1 free, 1 not lent. Trainers: 2 active, 1 resting." in result.stdout
    assert result.exit_code == ExitCode.OK
    fields = run("status", "-P", "-h")
    assert fields.stdout.splitlines()[:2] == ["nodes|lent|1", "nodes|asked for|1"]
    assert fields.stderr.startswith("The daemon (process")
    assert run("status", "--csv", "-o", "state,count").stdout.splitlines()[-1] == "resting,1"
    document = json.loads(run("status", "--json").stdout)
    assert document["nodes"] == {"lent": 1, "asked for": 1, "free": 1, "not lent": 1}
    assert document["daemon"]["is_at_work"] is True
    assert site.slurm.calls == []


def test_holes_are_idle_and_lent_nodes_those_that_are_wanted_soonest_first(site: Site) -> None:
    soon = NodeGroup("n4", "free", until_s=time.time() + 600)
    site.has_states("ALLOCATED", "ALLOCATED", "IDLE", "IDLE")
    site.published(replace(LOOK, nodes=(*LOOK.nodes[:3], soon)))
    rows = [
        line.split("|") for line in run("holes", "-P", "-h", "-o", "nodes,count,lasts,state").stdout.splitlines()
    ]
    assert rows[0][0] == "n4"
    assert re.fullmatch(r"00:(09:5\d|10:00)", rows[0][2])
    assert [[row[0], row[3]] for row in rows[1:]] == [["n1", "lent to 1"], ["n2", "asked for 1"], ["n3", "free"]]
    assert rows[3][2] == "–"
    document = json.loads(run("holes", "--json").stdout)
    assert (document["format"], len(document["holes"])) == ("freetrain-holes/1", 4)


def test_scripts_read_fields_and_the_state_of_the_daemon_stands_beside(site: Site) -> None:
    site.published()
    result = run("jobs", "-P", "--format", "id,state")
    assert result.stdout.splitlines()[:2] == ["ID|STATE", "1|running"]
    assert result.stderr.startswith("The daemon (process")
    assert run("jobs", "-h").stdout.splitlines()[0].split()[0] == "1"
    assert "there is no column NODE" in run("jobs", "--format", "node").stderr
    assert "Usage:" in run("jobs", "--help").stdout


def test_a_pause_is_said_and_waited_for(site: Site) -> None:
    site.published(replace(LOOK, paused_by="paused by root (new firmware)"))
    assert "Nothing more is lent: paused by root (new firmware)." in run("nodes").stdout
    assert job_states()["2"] == "nothing more is lent: paused by root (new firmware)"
    assert job_states()["1"] == "running"


@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        (("-u", "news"), {"1"}),
        (("-u", "news,games"), {"1", "2", "3", "4", "5"}),
        (("-A", "press"), {"1"}),
        (("-t", "running"), {"1"}),
        (("-t", "pending"), {"2", "4"}),
        (("-t", "resting,refused"), {"3", "5"}),
        (("-w", "n2"), {"1"}),
        (("-w", "n[3-4]"), set()),
    ],
)
def test_trainings_are_chosen_as_by_squeue(site: Site, options: tuple[str, ...], jobs: set[str]) -> None:
    site.published()
    assert {row["id"] for row in json.loads(run("jobs", "--json", *options).stdout)["jobs"]} == jobs


def test_no_listing_needs_the_database(site: Site) -> None:
    site.published()
    (site.state / "freetrain.db").write_bytes(b"garbage" * 1000)
    (site.state / "freetrain.db").chmod(0)
    assert [run(command).exit_code for command in ("status", "jobs", "nodes")] == [0, 0, 0]


def test_what_users_write_does_not_steer_a_terminal(site: Site) -> None:
    site.slurm.answers("squeue", task("1_0", tag="freetrain:min=1 | \x1b]0;title\x07\x1b[2J"))
    assert "\x1b" not in run("jobs").stdout
    assert "\x07" not in run("jobs").stdout


def test_a_slurm_that_is_away_or_talks_nonsense_is_said_below_the_header(site: Site) -> None:
    site.published()
    site.slurm.answers("scontrol", "", when="show partition")
    for command in ("jobs", "nodes"):
        result = run(command)
        assert result.exit_code == ExitCode.UNREACHABLE
        assert result.stdout.startswith("The daemon (process")
        assert "answer to scontrol -a -o show partition cannot be understood" in result.stderr


def test_the_status_says_what_the_daemon_costs_slurm_and_whether_it_is_ever_woken(site: Site) -> None:
    site.published(replace(LOOK, calls=1440))
    assert (
        "Questions and commands to Slurm in the last hour: 1440; nothing has woken the daemon"
        in run("status").stdout
    )
    site.published(replace(LOOK, calls=1440, woken_s=5.0))
    assert "Questions and commands to Slurm in the last hour: 1440.\n" in run("status").stdout


def test_what_a_training_does_not_say_and_the_policy_needs_is_said(site: Site, tmp_path: Path) -> None:
    site.slurm.answers("squeue", task("1_0") + task("2_0", tag="freetrain:min=1,target=1e6,servers=2"))
    assert "names no target" not in run("jobs").stdout, "freetrain's own policy needs none"
    config = tmp_path / "freetrain.toml"
    config.write_text(f"{config.read_text()}[decide]\npolicy = 'smd'\n")
    rows = {row["id"]: row["lacks"] for row in json.loads(run("jobs", "--json").stdout)["jobs"]}
    assert rows == {"1": "names no target", "2": "names no measured steps of their servers"}
    assert "; names no target" in run("jobs").stdout
    listed = run("policies")
    assert "smd: 1 of 2 trainings name no target (1): assumed is a day's work at its fastest rate" in listed.stdout
    assert "gadget: 1 of 2 trainings name no target (1)" in listed.stdout
    assert "gradients (" not in listed.stdout, "there are no links on which to reserve anything"
    assert json.loads(run("policies", "--json").stdout)["missing"].keys() == {"gadget", "smd"}
