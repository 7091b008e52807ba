"""The daemon on a real Slurm, with people in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.lab import LabOptions
from freetrain.store.store import Store
from tests.slurm.lua import job_comp_with
from tests.slurm_lab import on_free_ports, require_python_for_all, short_directory

pytestmark = pytest.mark.slurm

several_people = pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="only root can play several people"
)
POLL_S = 3
NODES = 16
SLACK = 8
"""So much more time than an idle machine needs does a busy one have; whatever fails because of it never comes."""
SHARES = 3
"""Among so many workers are these tests dealt, each with a Slurm of its own."""
FAILS = """#!/bin/bash
[ -e {flag} ] || exit 1
srun --quiet bash -c 'trap "exit 0" TERM; sleep infinity & wait'
"""
ORDINARY = """#!/bin/bash
sleep 1
while [ $SLURM_ARRAY_TASK_ID -ge 8 ] && [ ! -e {out}/go-on ]; do sleep 0.2; done
echo ran >> {out}/task-$SLURM_ARRAY_TASK_ID
"""
DONE = """#!/bin/bash
srun --quiet bash -c 'trap "exit 0" TERM; while [ ! -e {flag} ]; do sleep 0.2; done'
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with site_of(LabOptions(nodes=NODES, accounting=True)) as site:
        yield site


@contextmanager
def site_of(options: LabOptions, more: Mapping[str, str] = {}) -> Iterator[Site]:
    require_python_for_all()
    planning = f"bf_continue,bf_interval={POLL_S},bf_resolution=60"
    with short_directory() as directory:
        job_comp = directory / "freetrain.lua"
        job_comp.write_text(job_comp_with(directory / "wake"))
        settings = {"SchedulerParameters": planning, "SlurmdTimeout": "15", **more}
        site = Site(directory, on_free_ports(replace(options, settings=settings, job_comp=job_comp)))
        try:
            yield site
        finally:
            site.close()


@pytest.fixture
def daemon(site: Site) -> Iterator[Site]:
    """The site with a daemon that has just begun to look, and nobody's jobs."""
    with daemon_that_polls_every(POLL_S, site):
        yield site


@contextmanager
def daemon_that_polls_every(
    poll_s: float, site: Site, nodes: int = NODES, launcher: str = "steer", margin_s: float = 5, pace: str = ""
) -> Iterator[None]:
    (site.directory / "daemon.log").unlink(missing_ok=True)
    site.start_daemon(poll_s, margin_s=margin_s, shortest_hole_s=10, launcher=launcher, pace=pace)
    try:
        wait_until(lambda: "mode act" in site.daemon_says, 60, site)
        yield
    finally:
        site.stop_daemon()
        for user in set(site.lab.users.values()):
            site.run("daemon", "scancel", f"--user={user}")
        wait_until(lambda: not site.run("bob", "squeue", "-h", "-a", "-o", "%T"), 40, site)
        wait_until(lambda: idle_nodes(site) == nodes, 60, site)
        shutil.rmtree(site.directory / "state")


def idle_nodes(site: Site) -> int:
    return site.run("bob", "sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N %t").count(" idle\n") + 1


def wait_until(fine: Callable[[], bool], seconds: float, site: Site) -> float:
    """Seconds until it was so.

    Args:
        fine: whether it is.
        seconds: that it may take on an idle machine.
        site: what is shown when it takes too long.
    """
    begin_s = time.monotonic()
    while not fine():
        if time.monotonic() - begin_s > SLACK * seconds:
            queue = site.run("bob", "squeue", "-a", "-o", "%i %P %T %r %N %l %k")
            nodes = site.run("bob", "sinfo", "-N", "-o", "%N %T")
            pytest.fail(f"not so within {SLACK * seconds} s\n{queue}\n{nodes}\n{site.daemon_says}")
        time.sleep(0.2)
    return time.monotonic() - begin_s


def nodes_of(site: Site, job: str) -> list[str]:
    found = site.run("bob", "squeue", "-h", "-a", "-t", "R", "-j", job, "-o", "%N")
    return sorted(found.split())


def lent(site: Site, *trainers: str) -> int:
    return sum(len(nodes_of(site, trainer)) for trainer in trainers)


def settled(site: Site, *trainers: str) -> bool:
    """Whether all nodes are lent, and to all."""
    sizes = [len(nodes_of(site, trainer)) for trainer in trainers]
    return sum(sizes) == NODES and min(sizes) > 0


def in_the_ledger(site: Site) -> dict[str, str]:
    fragments = Store.open_existing(site.directory / "state" / "freetrain.db").ledger().open_fragments()
    return {fragment.job: fragment.node for fragment in fragments}


def in_slurm(site: Site) -> dict[str, str]:
    text = site.run("bob", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%i %N")
    return dict(line.split() for line in text.splitlines())


def submit_three(site: Site) -> list[str]:
    return [
        site.submit_trainer("alice", NODES, "min=1"),
        site.submit_trainer("alice", 8, "min=2,max=8"),
        site.submit_trainer("bob", NODES, "min=1"),
    ]


def test_trainers_grow_into_idle_nodes_and_shrink_for_the_site(daemon: Site) -> None:
    trainers = submit_three(daemon)
    wait_until(lambda: lent(daemon, *trainers) == NODES, POLL_S + 10, daemon)
    wait_until(lambda: settled(daemon, *trainers), 4 * POLL_S + 10, daemon)

    job = daemon.submit(SiteJob(0, 6, 15, 1))
    wait_until(lambda: job in daemon.started_s(), 5, daemon)
    wait_until(lambda: lent(daemon, *trainers) == NODES - 6, 10, daemon)
    wait_until(lambda: settled(daemon, *trainers), 30, daemon)
    ends = {str(end) for trainer in trainers for end in ledger_ends(daemon, trainer)}
    assert {"preempted", "released"} <= ends


def ends_of_lent(site: Site, nodes: set[str]) -> list[float | None]:
    """When the holes of those of the nodes end that are lent, as the daemon says."""
    shown = json.loads(site.freetrain("daemon", "nodes", "--json").stdout)["nodes"]
    return [group["until"] for group in shown if nodes & set(group["nodes"]) and group["state"] == "lent"]


def test_nodes_are_empty_before_a_maintenance_begins(site: Site) -> None:
    with daemon_that_polls_every(POLL_S, site, margin_s=20):
        trainers = submit_three(site)
        wait_until(lambda: settled(site, *trainers), 4 * POLL_S + 20, site)
        begin_s = int(time.time()) + 45
        start = time.strftime("starttime=%Y-%m-%dT%H:%M:%S", time.gmtime(begin_s))
        admin = subprocess.run(
            ["scontrol", "create", "reservation=m", start, "duration=5", "nodes=n[001-004]", "users=root",
             "flags=maint,ignore_jobs"],
            env=site.environment, capture_output=True, text=True,
        )  # fmt: skip
        assert admin.returncode == 0, admin.stderr
        reserved = {"n001", "n002", "n003", "n004"}
        wait_until(lambda: all(ends_of_lent(site, reserved)), 15, site)
        wait_until(lambda: not reserved & set(in_slurm(site).values()), 45, site)
        assert time.time() < begin_s, "the nodes were not empty before the maintenance began"
        subprocess.run(["scontrol", "delete", "reservation=m"], env=site.environment, check=True)
        wait_until(lambda: settled(site, *trainers), 30, site)


def test_ordinary_users_are_told_what_is_lent_and_what_stops_it(daemon: Site) -> None:
    trainer = daemon.submit_trainer("alice", 2, "min=1")
    wait_until(lambda: f"lent to {trainer}" in daemon.freetrain("bob", "nodes").stdout, 60, daemon)
    assert "runs here" not in daemon.freetrain("bob", "nodes").stdout
    assert daemon.freetrain("bob", "status").returncode == 0
    rows = json.loads(daemon.freetrain("bob", "jobs", "--json").stdout)["jobs"]
    (row,) = [row for row in rows if row["id"] == trainer]
    assert (len(row["nodes"]), row["samples"], row["state"]) == (2, 0, "running")
    stop_file = daemon.directory / "state" / "STOP"
    stop_file.touch()
    wait_until(lambda: lent(daemon, trainer) == 0, 60, daemon)
    shown = daemon.freetrain("bob", "jobs").stdout
    assert f"Nothing is lent: stopped by {stop_file}" in shown
    assert "idle nodes" not in shown
    daemon.stop_daemon()
    assert daemon.freetrain("bob", "jobs").stdout.startswith("No daemon is at work here: it was stopped")
    assert daemon.freetrain("bob", "status").returncode == 69


def ledger_ends(site: Site, trainer: str) -> list[str]:
    ledger = Store.open_existing(site.directory / "state" / "freetrain.db").ledger()
    return [str(end) for end in ledger.ends_by_trainer().get(trainer, {})]


def test_when_a_trainer_completes_the_others_grow(daemon: Site) -> None:
    flag = daemon.out / "flag"
    first = daemon.submit_trainer("alice", 8, "min=1,name=short", DONE.format(flag=flag))
    second = daemon.submit_trainer("bob", NODES, "min=1")
    wait_until(lambda: settled(daemon, first, second), 40, daemon)
    flag.touch()
    wait_until(lambda: lent(daemon, second) == NODES, 30, daemon)
    wait_until(lambda: "complete" in daemon.daemon_says, 10, daemon)
    flag.unlink()


def test_killed_and_started_again_nothing_is_doubled_and_nothing_lost(daemon: Site) -> None:
    trainers = submit_three(daemon)
    for delay_s in (0.9, 1.3, 2.0):
        time.sleep(delay_s)
        daemon.kill_daemon()
        daemon.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    wait_until(lambda: settled(daemon, *trainers), 60, daemon)
    wait_until(lambda: in_the_ledger(daemon) == in_slurm(daemon), 20, daemon)
    running = in_slurm(daemon)
    daemon.kill_daemon()
    time.sleep(2 * POLL_S)
    assert in_slurm(daemon) == running, "fragments go on without the daemon"
    daemon.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    time.sleep(3 * POLL_S)
    assert in_slurm(daemon) == running == in_the_ledger(daemon)


def test_a_lost_database_is_found_again_in_slurm(daemon: Site) -> None:
    trainers = submit_three(daemon)
    wait_until(lambda: settled(daemon, *trainers), 60, daemon)
    wait_until(lambda: in_the_ledger(daemon) == in_slurm(daemon), 20, daemon)
    running = in_slurm(daemon)
    daemon.stop_daemon()
    shutil.rmtree(daemon.directory / "state")
    daemon.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10)
    wait_until(lambda: (daemon.directory / "state" / "freetrain.db").exists(), 20, daemon)
    wait_until(lambda: in_the_ledger(daemon) == running, 20, daemon)
    assert in_slurm(daemon) == running


def test_slurm_stopped_and_started_again_changes_nothing(daemon: Site) -> None:
    trainers = submit_three(daemon)
    wait_until(lambda: settled(daemon, *trainers), 60, daemon)
    wait_until(lambda: in_the_ledger(daemon) == in_slurm(daemon), 20, daemon)
    running = in_slurm(daemon)
    wait_until_saved(daemon)
    daemon.lab.kill_controller()
    wait_until(lambda: "does not answer" in daemon.daemon_says, 30, daemon)
    assert daemon.daemon_says.count("does not answer") == 1
    daemon.lab.start_controller()
    wait_until(lambda: "answers again" in daemon.daemon_says, 30, daemon)
    time.sleep(2 * POLL_S)
    assert in_slurm(daemon) == running == in_the_ledger(daemon)


def wait_until_saved(site: Site) -> None:
    """Until Slurm has written down its jobs, which it does a few seconds after a change."""
    saved, begin_s = site.lab.directory / "state" / "job_state", time.time()
    site.run("bob", "sbatch", "--hold", "-o", "/dev/null", "--wrap=true")
    wait_until(lambda: saved.exists() and saved.stat().st_mtime > begin_s, 10, site)


def test_a_node_that_dies_is_a_node_that_failed(daemon: Site) -> None:
    trainer = daemon.submit_trainer("alice", 4, "min=1")
    wait_until(lambda: lent(daemon, trainer) == 4, 30, daemon)
    node = nodes_of(daemon, trainer)[0]
    daemon.lab.crash(node)
    wait_until(lambda: f"on {node}: node failed" in daemon.daemon_says, 90, daemon)
    wait_until(lambda: len(set(nodes_of(daemon, trainer)) - {node}) == 4, 90, daemon)
    daemon.lab.start_node(node)


@several_people
def test_bob_cannot_touch_alices_trainer_and_hostile_tags_only_get_an_answer(daemon: Site) -> None:
    alices = daemon.submit_trainer("alice", 2, "min=1")
    wait_until(lambda: lent(daemon, alices) == 2, 30, daemon)
    for command in (
        ("scontrol", "update", f"JobId={alices}", "Comment=freetrain:max=1"),
        ("scontrol", "requeue", alices),
    ):
        refused = subprocess.run(
            daemon.command("bob", *command), env=daemon.environment, capture_output=True, text=True
        )
        assert refused.returncode != 0
    assert daemon.freetrain("bob", "resume", alices).returncode != 0
    evil = daemon.out / "evil"
    hostile = f"min=1$(touch {evil}),`touch {evil}`;touch {evil}\n|sh"
    bobs = daemon.submit_trainer("bob", 1, hostile)
    wait_until(lambda: " | " in daemon.run("bob", "squeue", "-h", "-a", "-j", bobs, "-o", "%k"), 20, daemon)
    shown = daemon.freetrain("bob", "jobs")
    assert shown.returncode == 0, shown.stderr
    assert "is not a number of nodes" in shown.stdout
    assert alices in shown.stdout
    assert not evil.exists()
    assert lent(daemon, alices) == 2
    wrong = daemon.freetrain("bob", "resume", bobs)
    assert (wrong.returncode, "not paused but refused" in wrong.stderr) == (2, True), wrong.stderr
    unknown = daemon.freetrain("bob", "resume", "4711")
    assert (unknown.returncode, "There is no training 4711" in unknown.stderr) == (2, True), unknown.stderr
    audit = daemon.freetrain("daemon", "audit", "--since", "5m", "--json")
    commands = json.loads(audit.stdout)["commands"]
    assert {"done"} == {command["result"] for command in commands}
    assert {f"JobId={alices}_0", f"JobId={alices}_1"} <= {word for one in commands for word in one["command"]}


@several_people
def test_its_owner_cancels_a_training_and_audit_and_ledger_tell_of_it_as_accounting_does(daemon: Site) -> None:
    alice, trainer = daemon.lab.users["alice"], daemon.submit_trainer("alice", 4, "min=1")
    wait_until(lambda: lent(daemon, trainer) == 4, 30, daemon)
    refused = daemon.freetrain("bob", "cancel", trainer)
    assert (refused.returncode, f"Only {alice} and" in refused.stderr) == (77, True), refused.stderr
    cancelled = daemon.freetrain("alice", "cancel", trainer)
    assert (cancelled.returncode, "is cancelled" in cancelled.stdout) == (0, True), cancelled.stderr
    wait_until(lambda: not in_slurm(daemon) and not in_the_ledger(daemon), 30, daemon)

    def told() -> list[list[str]]:
        audit = daemon.freetrain("daemon", "audit", "--since", "5m", "-P", "-h", "-o", "actor,why")
        return [line.split("|") for line in audit.stdout.splitlines()]

    wait_until(lambda: [alice, f"training {trainer} of {alice} was cancelled"] in told(), 30, daemon)
    check = daemon.freetrain("daemon", "ledger", "--check")
    assert (check.returncode, "none of 4 times" in check.stdout) == (0, True), f"{check.stdout}{check.stderr}"


def test_a_nudge_wakes_it_at_once(site: Site) -> None:
    with daemon_that_polls_every(600, site):
        time.sleep(2)
        trainer = site.submit_trainer("alice", 4, "min=1")
        if os.geteuid() == 0:
            stranger = site.freetrain("bob", "nudge")
            assert (stranger.returncode, "takes no nudge" in stranger.stderr) == (77, True), stranger.stderr
        nudged = site.freetrain("root", "nudge")
        assert nudged.returncode == 0, nudged.stderr
        wait_until(lambda: lent(site, trainer) == 4, 30, site)
        assert "every 600 s" in site.daemon_says, "no poll came in between"
        if os.geteuid() == 0:  # who owns a trainer may nudge, as soon as that is known
            wait_until(lambda: site.freetrain("alice", "nudge").returncode == 0, 20, site)


def test_a_byte_from_slurm_at_the_end_of_a_job_wakes_it_at_once(site: Site) -> None:
    (site.directory / "wake").symlink_to(site.directory / "state/wake")
    with daemon_that_polls_every(600, site):
        if os.geteuid() == 0:
            shutil.chown(site.directory / "state/wake", group="slurm")
        time.sleep(2)
        trainer = site.submit_trainer("alice", 4, "min=1")
        site.submit(SiteJob(0, 1, 1, 1))
        wait_until(lambda: lent(site, trainer) == 4, 30, site)
        assert "every 600 s" in site.daemon_says, "no poll came in between"
    (site.directory / "wake").unlink()


def test_a_training_whose_tasks_have_all_failed_is_kept_and_its_owner_can_resume_it(site: Site) -> None:
    flag = site.out / "mended"
    script = FAILS.format(flag=flag)
    pace = 'back_off = "1s"\nfailures_to_pause = 2'
    with daemon_that_polls_every(POLL_S, site, pace=pace):
        trainers = [site.submit_trainer("alice", tasks, "min=1", script) for tasks in (1, 2, 40)]
        wait_until(lambda: all(" | paused after" in comment_of(site, one) for one in trainers), 120, site)
        assert {state for one in trainers for state in states_of(site, one)} == {"PENDING"}, "Slurm forgets others"
        site.kill_daemon()
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10, pace=pace)
        flag.touch()
        if os.geteuid() == 0:
            assert site.freetrain("bob", "resume", trainers[0]).returncode != 0
        for trainer in trainers:
            resumed = site.freetrain("alice", "resume", trainer)
            assert (resumed.returncode, "competes for nodes again" in resumed.stdout) == (0, True), resumed.stderr
        wait_until(lambda: all(lent(site, one) for one in trainers), 60, site)
        wait_until(lambda: all(comment_of(site, one) == "freetrain:min=1" for one in trainers), 30, site)
    flag.unlink()


def test_of_an_ordinary_array_every_task_runs_once_and_none_is_cancelled(daemon: Site) -> None:
    array = daemon.submit_trainer("alice", 12, "min=2,max=4", ORDINARY.format(out=daemon.out))
    ran = lambda: {path.name: path.read_text() for path in daemon.out.glob("task-*")}  # noqa: E731
    wait_until(lambda: len(ran()) > 4, 60, daemon)
    shown = daemon.freetrain("alice", "jobs")
    assert "its end cannot be told" in shown.stdout, shown.stdout + shown.stderr
    (daemon.out / "go-on").touch()
    wait_until(lambda: len(ran()) == 12, 120, daemon)
    wait_until(
        lambda: f"trainer {array} of" in daemon.daemon_says and "complete" in daemon.daemon_says, 30, daemon
    )
    time.sleep(2 * POLL_S)
    assert set(ran().values()) == {"ran\n"}, "each exactly once"
    assert set(states_of(daemon, array)) == {"COMPLETED"}
    assert set(ledger_ends(daemon, array)) == {"completed"}


def comment_of(site: Site, job: str) -> str:
    """What Slurm shows of the tasks that have not ended."""
    return site.run("bob", "squeue", "-h", "-a", "-j", job, "-o", "%k").partition("\n")[0]


def states_of(site: Site, job: str) -> list[str]:
    return site.run("bob", "squeue", "-h", "-a", "-t", "all", "-r", "-j", job, "-o", "%T").split()


@several_people
def test_fragments_that_root_submits_run_as_their_owner_and_nothing_is_doubled(site: Site) -> None:
    with daemon_that_polls_every(POLL_S, site, launcher="submit"):
        pattern = site.submit_trainer("alice", 1, "min=1,max=4")
        alice = site.lab.users["alice"]
        wait_until(lambda: len(running_as(site, alice)) == 4, 30, site)
        assert not nodes_of(site, pattern), "the pattern itself never runs"
        wait_until(lambda: bool(list(site.out.glob("slurm-*.out"))), 10, site)  # where the pattern was submitted
        wait_until(lambda: in_the_ledger(site) == in_slurm(site), 20, site)

        site.kill_daemon()
        site.start_daemon(POLL_S, margin_s=5, shortest_hole_s=10, launcher="submit")
        time.sleep(3 * POLL_S)
        assert len(in_slurm(site)) == 4
        assert in_the_ledger(site) == in_slurm(site)

        job = site.submit(SiteJob(0, NODES - 2, 10, 1))
        wait_until(lambda: job in site.started_s(), 10, site)
        wait_until(lambda: len(running_as(site, alice)) == 4, 40, site)
        site.run("alice", "scancel", pattern)
        wait_until(lambda: not in_slurm(site), 20, site)


def running_as(site: Site, user: str) -> list[str]:
    """Nodes on which this user's jobs run."""
    return sorted(site.run("bob", "squeue", "-h", "-a", "-t", "R", "-u", user, "-o", "%N").split())


def test_with_a_grace_time_who_leaves_in_good_order_has_not_completed() -> None:
    """Slurm counts a task that leaves when it is asked to as completed; its training goes on all the same."""
    nodes = 4
    with (
        site_of(LabOptions(nodes=nodes, accounting=True, grace_s=30)) as site,
        daemon_that_polls_every(POLL_S, site, nodes),
    ):
        trainer = site.submit_trainer("alice", nodes, "min=1")
        wait_until(lambda: lent(site, trainer) == nodes, 30, site)
        for _ in range(2):
            job = site.submit(SiteJob(0, nodes, 4, 1))
            wait_until(lambda job=job: job in site.started_s(), 15, site)  # type: ignore[misc]
            wait_until(lambda: lent(site, trainer) == nodes, 60, site)
        assert "is complete" not in site.daemon_says
        assert set(ledger_ends(site, trainer)) <= {"preempted", "released"}, site.daemon_says


def test_what_cannot_work_is_said_at_once(site: Site) -> None:
    ended = run_daemon(site, "daemon", "[slurm]\npartition = 'nope'\n")
    assert (ended.returncode, "Slurm has no partition nope" in ended.stderr) == (78, True), ended.stderr


def test_pyslurm_is_used_or_it_is_said_why_not(site: Site) -> None:
    """There is none for Debian's Slurm; with a Slurm of its version it works."""
    automatic = run_daemon(site, "daemon", "")
    assert automatic.returncode == 0, automatic.stderr
    works = "Slurm is asked through pyslurm" in automatic.stderr
    ended = run_daemon(site, "daemon", "[slurm]\nbackend = 'pyslurm'\n")
    assert ended.returncode == (0 if works else 78), ended.stderr
    assert ("Slurm is asked through pyslurm" if works else "'pyslurm', which cannot be used") in ended.stderr


@several_people
def test_without_rights_or_slurm_or_a_place_to_write_it_does_not_begin(site: Site) -> None:
    ended = run_daemon(site, "bob", "[lend]\nmode = 'act'\n")
    assert (ended.returncode, "has no right to steer" in ended.stderr) == (78, True), ended.stderr
    ended = run_daemon(site, "daemon", "", SLURM_CONF="/nowhere/slurm.conf")
    assert (ended.returncode, "/nowhere/slurm.conf" in ended.stderr) == (78, True), ended.stderr
    ended = run_daemon(site, "daemon", "", state="/proc/freetrain")
    assert (ended.returncode, "cannot be used" in ended.stderr) == (74, True), ended.stderr
    site.lab.stop_controller()
    try:
        ended = run_daemon(site, "daemon", "")
    finally:
        site.lab.start_controller()
    assert (ended.returncode, "does not answer" in ended.stderr) == (69, True), ended.stderr


def test_a_second_daemon_is_refused(daemon: Site) -> None:
    ended = run_daemon(daemon, "daemon", "", state=str(daemon.directory / "state"))
    assert (ended.returncode, "Another daemon" in ended.stderr) == (75, True), ended.stderr


def run_daemon(
    site: Site, person: str, settings: str, state: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """A daemon that looks once, in a directory of its own."""
    folder = Path(state) if state else site.out / f"state-{time.monotonic_ns()}"
    config = site.out / "other.toml"
    config.write_text(f'{settings}\n[state]\ndirectory = "{folder}"\n')
    program = [sys.executable, "-m", "freetrain.cli.main", "daemon", "--config", str(config), "--cycles", "1"]
    return subprocess.run(
        site.command(person, *program),
        env={**site.environment, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
    )
