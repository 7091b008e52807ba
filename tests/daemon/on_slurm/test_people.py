"""What people may ask of the daemon on a real Slurm, what wakes it, and where it does not begin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.live.site import Site
from benchmarks.live.workload import SiteJob
from freetrain.slurm import commands
from tests.daemon.on_slurm.site import (
    NODES,
    POLL_S,
    daemon_that_polls_every,
    in_slurm,
    in_the_ledger,
    lent,
    states_of,
    wait_until,
)
from tests.needed import several_people

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

HALF = NODES // 2
HOSTILE = {
    "ten trainings": (10, 4, "min=1"),
    "impossible ones": (22, 17, "min=17"),
    "curves of 1e9": (2, 8, "min=8,max=8,curve=8:1e9"),
}


def test_ordinary_users_are_told_what_is_lent_and_what_stops_it(daemon: Site) -> None:
    trainer = daemon.submit_trainer("alice", 2, "min=1")
    wait_until(lambda: f"lent to {trainer}" in daemon.freetrain("bob", "nodes").stdout, 60, daemon)
    assert "runs here" not in daemon.freetrain("bob", "nodes").stdout
    assert daemon.freetrain("bob", "status").returncode == 0
    assert daemon.freetrain("bob", "history").returncode == (77 if os.geteuid() == 0 else 0)

    def row() -> dict[str, Any]:
        rows = json.loads(daemon.freetrain("bob", "jobs", "--json").stdout)["jobs"]
        (found,) = [row for row in rows if row["id"] == trainer]
        return dict(found)

    wait_until(lambda: len(row()["nodes"]) == 2, 30, daemon)
    assert (row()["samples"], row()["state"]) == (0, "running")
    stop_file = daemon.directory / "state" / "STOP"
    stop_file.touch()
    wait_until(lambda: lent(daemon, trainer) == 0, 60, daemon)
    told = lambda: daemon.freetrain("bob", "jobs").stdout  # noqa: E731
    wait_until(lambda: f"Nothing is lent: stopped by {stop_file}" in told(), 30, daemon)
    assert "idle nodes" not in told()
    daemon.stop_daemon()
    assert daemon.freetrain("bob", "jobs").stdout.startswith("No daemon is at work here: it was stopped")
    assert daemon.freetrain("bob", "status").returncode == 69


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
    shown = lambda: daemon.freetrain("bob", "jobs").stdout  # noqa: E731
    wait_until(lambda: "is not a number of nodes" in shown(), 20, daemon)
    assert alices in shown()
    assert not evil.exists()
    assert lent(daemon, alices) == 2
    wrong = daemon.freetrain("bob", "resume", bobs)
    assert (wrong.returncode, "not paused but refused" in wrong.stderr) == (2, True), wrong.stderr
    unknown = daemon.freetrain("bob", "resume", "4711")
    assert (unknown.returncode, "There is no training 4711" in unknown.stderr) == (2, True), unknown.stderr
    audit = daemon.freetrain("daemon", "audit", "--since", "5m", "--json")
    commands = json.loads(audit.stdout)["commands"]
    assert {"done"} == {command["result"] for command in commands}
    assert {f"JobId={alices}_0", f"JobId={alices}_1"} <= {
        word for command in commands for word in command["command"]
    }


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
    # Accounting hears of ends a little later.
    check = lambda: daemon.freetrain("daemon", "ledger", "--check").stdout  # noqa: E731
    wait_until(lambda: "none of 4 times" in check(), 30, daemon)


@several_people
@pytest.mark.parametrize(
    "kind", ["ten trainings", "impossible ones", pytest.param("curves of 1e9", marks=pytest.mark.soak)]
)
def test_an_honest_training_that_comes_later_gets_half(site: Site, kind: str) -> None:
    count, tasks, tag = HOSTILE[kind]
    with daemon_that_polls_every(POLL_S, site):
        hostile = [site.submit_trainer("bob", tasks, tag) for _ in range(count)]
        wait_until(lambda: lent(site, *hostile) > HALF or "min=17" in tag, 60, site)
        honest = site.submit_trainer("alice", NODES, "min=1")
        wait_until(lambda: lent(site, honest) >= HALF, 60, site)


@several_people
def test_an_owner_takes_tasks_back_that_the_daemon_has_held(daemon: Site) -> None:
    trainer = daemon.submit_trainer("alice", 2, "min=1")
    wait_until(lambda: lent(daemon, trainer) == 2, 60, daemon)
    daemon.run("alice", "scontrol", "update", f"JobId={trainer}", "Comment=")
    wait_until(lambda: set(states_of(daemon, trainer)) == {"PENDING"}, 60, daemon)
    daemon.run("daemon", *commands.hold(f"{trainer}_0", f"{trainer}_1"))
    daemon.run("alice", "scontrol", "release", trainer)  # which an operator's own hold would not let her
    reasons = daemon.run("bob", "squeue", "-h", "-a", "-r", "-j", trainer, "-o", "%r")
    assert "held" not in reasons.lower()


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


@pytest.fixture
def woken(site: Site) -> Iterator[Site]:
    """Slurm's plug-in tells the daemon of ends of jobs."""
    link = site.directory / "wake"
    link.symlink_to(site.directory / "state/wake")
    yield site
    link.unlink()


def test_a_byte_from_slurm_at_the_end_of_a_job_wakes_it_at_once(woken: Site) -> None:
    with daemon_that_polls_every(600, woken):
        if os.geteuid() == 0:
            shutil.chown(woken.directory / "state/wake", group="slurm")
        time.sleep(2)
        trainer = woken.submit_trainer("alice", 4, "min=1")
        woken.submit(SiteJob(0, 1, 1, 1))
        wait_until(lambda: lent(woken, trainer) == 4, 30, woken)
        assert "every 600 s" in woken.daemon_says, "no poll came in between"


def test_what_cannot_work_is_said_at_once(site: Site) -> None:
    ended = run_daemon(site, "daemon", "[slurm]\npartition = 'nope'\n")
    assert (ended.returncode, "Slurm has no partition nope" in ended.stderr) == (69, True), ended.stderr


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
    assert (ended.returncode, "has no right to steer" in ended.stderr) == (69, True), ended.stderr
    ended = run_daemon(site, "daemon", "", SLURM_CONF="/nowhere/slurm.conf")
    assert (ended.returncode, "/nowhere/slurm.conf" in ended.stderr) == (69, True), ended.stderr
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
