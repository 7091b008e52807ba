"""``python -m benchmarks.listings``: whether what freetrain's commands list agrees with squeue and sacct.

A virtual site with jobs of its own, trainings and ordinary tasks of two users, and a daemon that is paused, killed
and left without Slurm meanwhile. Needs to be root, and an hour.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from benchmarks.fillers import SHORTEST_S, TASK
from benchmarks.live.site import Ran, Site
from benchmarks.live.woken import options_with_wakes, start_daemon
from benchmarks.live.workload import SAMPLE_LOG, SiteJob, draw, read_samples

EVERY_S = 20.0
SAME_S = 2.0
"""Slurm tells whole seconds, and squeue and sacct sometimes differ by one."""

Lent = Mapping[str, frozenset[str]]
"""Training → its nodes."""
END_OF = {"PREEMPTED": "preempted", "COMPLETED": "completed", "REQUEUED": "released", "NODE_FAIL": "node failed"}


class Findings:
    """What was compared, and what differed."""

    def __init__(self) -> None:
        self.compared: Counter[str] = Counter()
        self.moving = 0
        self.differences: list[str] = []

    def compare(self, what: str, told: object, is_so: object) -> None:
        """Note whether a listing tells what is so."""
        self.compared[what] += 1
        if told != is_so:
            self.differences.append(f"{what}: told {told}, is {is_so}")
            click.echo(f"  {self.differences[-1]}", err=True)


class PatientSite(Site):
    """Its users submit again until Slurm answers."""

    def submit(self, job: SiteJob) -> str:
        """See :meth:`Site.submit`."""
        while True:
            try:
                return super().submit(job)
            except RuntimeError:
                time.sleep(1)


@click.command()
@click.option("--nodes", default=16, show_default=True)
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--load", default=0.6, show_default=True, help="Share of the machine that the site's jobs fill.")
@click.option("--seed", default=1, show_default=True)
@click.option("--port", default=27000, show_default=True, help="First of free ports, 20 more than nodes.")
@click.option("--daemon-log", "log", type=click.Path(path_type=Path), help="Where to put what the daemon said.")
def main(nodes: int, minutes: float, load: float, seed: int, port: int, log: Path | None) -> None:
    """Run it, and print what was compared and what differed."""
    jobs = draw(read_samples(SAMPLE_LOG), nodes, minutes * 60, load, seed)
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        site = PatientSite(Path(folder), options_with_wakes(Path(folder), nodes, port))
        try:
            start_daemon(site)
            _hand_in(site, nodes, seed)
            playing = threading.Thread(target=site.play, args=(jobs,))
            playing.start()
            _look_on(site, minutes * 60, findings)
            playing.join()
            site.wait_for(list(site.submitted_s), 1200)
            _when_all_is_given_back(site, findings)
            _without_daemon(site, findings)
        finally:
            if log:
                shutil.copy(site.directory / "daemon.log", log)
            site.close()
    for what, count in sorted(findings.compared.items()):
        differ = sum(each.startswith(f"{what}:") for each in findings.differences)
        click.echo(f"{what:58} {count:6} compared, {differ} differ")
    click.echo(f"left out, as Slurm changed meanwhile: {findings.moving}")


def _hand_in(site: Site, nodes: int, seed: int) -> None:
    dice = random.Random(seed)
    site.submit_trainer("alice", nodes, "min=1")
    site.submit_trainer("alice", nodes // 2, "min=2")
    site.submit_trainer("bob", nodes, "min=1,weight=2")
    run_s = [round(dice.uniform(SHORTEST_S, 60.0), 1) for _ in range(200)]
    script = TASK.format(run_s=" ".join(map(str, run_s)), out=site.out)
    site.submit_trainer("bob", len(run_s), f"kind=tasks,shortest={SHORTEST_S:g},start=1", script)


def _look_on(site: Site, duration_s: float, findings: Findings) -> None:
    """Compare all the time, and do at their times what an admin or bad luck does."""
    begin_s = time.monotonic()
    troubles = iter(_troubles(site, findings, duration_s))
    at_s, trouble = next(troubles)
    while (now_s := time.monotonic() - begin_s) < duration_s:
        if now_s >= at_s:
            trouble()
            at_s, trouble = next(troubles, (float("inf"), trouble))
        _compare_now(site, findings)
        time.sleep(EVERY_S)


def _troubles(site: Site, findings: Findings, duration_s: float) -> Iterator[tuple[float, Callable[[], None]]]:
    """When, as a share of the time, and what."""
    stop_file = site.directory / "state/STOP"

    def paused() -> None:
        site.freetrain("daemon", "pause", "--reason", "test")
        _told_within(site, findings, "paused", lambda: "paused by" in _status(site)["paused_by"])
        site.freetrain("daemon", "resume")

    def killed() -> None:
        site.kill_daemon()
        _told_within(site, findings, "killed", lambda: not _status(site)["is_at_work"])
        _compare_now(site, findings)
        start_daemon(site)

    def without_slurm() -> None:
        site.lab.stop_controller()
        _told_within(site, findings, "no Slurm", lambda: _status(site)["slurm_answers"] is False)
        findings.compare("no Slurm: jobs, nodes, holes end with 69", _exit_statuses(site), [69, 69, 69])
        site.lab.start_controller()
        _told_within(site, findings, "Slurm again", lambda: _status(site)["slurm_answers"] is True)

    def panic() -> None:
        site.freetrain("root", "panic", "--yes")
        _told_within(site, findings, "stopped", lambda: bool(_status(site)["stopped_by"]))
        findings.compare("stopped: nothing runs", _lent_by_slurm(site), {})
        stop_file.unlink()

    for share, trouble in ((0.2, paused), (0.4, killed), (0.6, without_slurm), (0.8, panic)):
        yield share * duration_s, trouble


def _told_within(site: Site, findings: Findings, what: str, is_told: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 120
    while not (told := is_told()) and time.monotonic() < until_s:
        time.sleep(1)
    findings.compare(f"{what}: status says so", told, True)


def _status(site: Site) -> dict[str, Any]:
    said: dict[str, Any] = _listed(site, "status")["daemon"]
    return said


def _exit_statuses(site: Site) -> list[int]:
    return [site.freetrain("alice", command).returncode for command in ("jobs", "nodes", "holes")]


def _listed(site: Site, *command: str, person: str = "alice") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(site.freetrain(person, *command, "--json").stdout)
    return found


@contextmanager
def _at_rest(site: Site, findings: Findings) -> Iterator[Callable[[str, object, object], None]]:
    """Comparisons count only if Slurm has shown the same before and after."""
    before, noted = _queue(site), list[tuple[str, object, object]]()
    yield lambda what, told, is_so: noted.append((what, told, is_so))
    if _queue(site) != before:
        findings.moving += 1
        return
    for each in noted:
        findings.compare(*each)


def _queue(site: Site) -> str:
    # Since when a job runs: on a busy machine one is given back and starts again between two commands.
    all_jobs, running = ("PD,R,CG,S,CF", "%i %P %T %N"), ("R", "%i %S")
    return "".join(
        site.run("alice", "squeue", "-h", "-a", "-r", "-t", states, "-o", fields)
        for states, fields in (all_jobs, running)
    )


def _compare_now(site: Site, findings: Findings) -> None:
    with _at_rest(site, findings) as compare:
        lent = _lent_by_slurm(site)
        jobs = {one["id"]: frozenset(one["nodes"]) for one in _listed(site, "jobs")["jobs"] if one["nodes"]}
        compare("jobs: nodes of each training", jobs, lent)
    with _at_rest(site, findings) as compare:
        lent = _lent_by_slurm(site)
        groups = _listed(site, "nodes")["nodes"]
        compare("nodes: lent to whom", _lent_in(groups), lent)
        compare("nodes: each once", sorted(n for one in groups for n in one["nodes"]), sorted(site.lab.node_names))
        for node, job in _said_to_run(groups):
            there = site.run("alice", "squeue", "-h", "-a", "-w", node, "-o", "%A %i").split()
            compare("nodes: the job that is said to run there", job in there, True)
        free = {node for one in groups if one["state"] == "free" for node in one["nodes"]}
        compare("nodes: those said to be free are", sorted(free - _idle(site)), [])
    with _at_rest(site, findings) as compare:
        holes = _listed(site, "holes")["holes"]
        compare("holes: lent to whom", _lent_in(holes), _lent_by_slurm(site))
        compare("holes: none where the site's jobs run", sorted(_named(holes) & _of_the_site(site)), [])
    with _at_rest(site, findings) as compare:
        _await_look(site)
        rows = [one for one in _history(site) if one["state"] == "running"]
        compare("history: what runs", {one["job"]: one["node"] for one in rows}, _fragments_by_slurm(site))


def _await_look(site: Site) -> None:
    """The database tells what the last look found."""
    from_s = time.time()
    while (_status(site)["last_look_s"] or 0.0) < from_s and time.time() < from_s + 60:
        time.sleep(0.5)


def _lent_in(groups: list[dict[str, Any]]) -> Lent:
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for one in groups:
        if one["state"] in ("lent", "due back"):
            nodes[one["trainer"]] |= set(one["nodes"])
    return {trainer: frozenset(names) for trainer, names in nodes.items()}


def _named(groups: list[dict[str, Any]]) -> set[str]:
    return {node for one in groups for node in one["nodes"]}


def _said_to_run(groups: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for one in groups:
        words = (one["why"] or "").split()
        if words[:1] == ["job"] and words[2:] == ["runs", "here"]:
            yield from ((node, words[1]) for node in one["nodes"])


def _fragments_by_slurm(site: Site) -> dict[str, str]:
    text = site.run("alice", "squeue", "-h", "-a", "-t", "R", "-p", "freetrain", "-o", "%i %N")
    return dict(line.split() for line in text.splitlines())


def _lent_by_slurm(site: Site) -> Lent:
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for job, node in _fragments_by_slurm(site).items():
        nodes[job.partition("_")[0]].add(node)
    return {trainer: frozenset(names) for trainer, names in nodes.items()}


def _of_the_site(site: Site) -> set[str]:
    text = site.run("alice", "squeue", "-h", "-a", "-t", "R", "-p", "main", "-o", "%N")
    return {name for line in text.splitlines() for name in Ran("", 0, 0, 0, line, "").node_names}


def _idle(site: Site) -> set[str]:
    return set(site.run("alice", "sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N").split())


def _when_all_is_given_back(site: Site, findings: Findings) -> None:
    """What is told of the past, once nothing runs any more."""
    site.freetrain("root", "panic", "--yes")
    until_s = time.monotonic() + 120
    while _lent_in(_listed(site, "nodes")["nodes"]) and time.monotonic() < until_s:
        time.sleep(1)
    time.sleep(15)
    ran = {
        (one.id, round(one.start_s)): one for one in site.accounting("freetrain") if one.nodes != "None assigned"
    }
    told = {(one["job"], round(one["started"])): one for one in _history(site) if one["started"]}
    unknown = sorted(told.keys() - _near(ran.keys()))
    findings.compare("history: runs that sacct does not know", unknown, [])
    for job, start_s in unknown:
        click.echo(f"  {told[job, start_s]}\n  {_in_accounting(site, job, start_s)}", err=True)
    findings.compare("history: runs that only sacct knows", sorted(ran.keys() - _near(told.keys())), [])
    for key in sorted(told.keys() & ran.keys()):
        one, run = told[key], ran[key]
        findings.compare("history: node", one["node"], run.nodes)
        findings.compare("history: end within 2 s", abs(one["ended"] - run.end_s) <= SAME_S, True)
        findings.compare("history: how it ended", one["end"], _end_of(one["end"], run.state))
    evicted = Counter(run.id.partition("_")[0] for run in ran.values() if run.state == "PREEMPTED")
    for one in _listed(site, "jobs")["jobs"]:
        findings.compare("jobs: evictions", (one["ends"] or {}).get("preempted", 0), evicted[one["id"]])
    checked = site.freetrain("daemon", "ledger", "--check", "--json")
    findings.compare("ledger --check: differences", json.loads(checked.stdout)["differences"], [])
    lent = [
        one for one in _listed(site, "audit", "--since", "1d", person="daemon")["commands"] if "lend" in one["why"]
    ]
    findings.compare("audit: at least an order for each run", len(lent) >= len(ran), True)


def _in_accounting(site: Site, job: str, start_s: int) -> str:
    """All that Slurm's accounting has of a job around a run that it does not show."""
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(start_s + shift)) for shift in (-60, 60))
    return site.run(
        "daemon", "sacct", "-D", "-X", "-P", "-j", job, "-S", begin, "-E", end,
        "-o", "JobID,DBIndex,Submit,Eligible,Start,End,NodeList,State",
    )  # fmt: skip


def _near(keys: Any) -> set[tuple[str, int]]:
    return {(job, start_s + shift) for job, start_s in keys for shift in (-1, 0, 1)}


def _end_of(told: str, state: str) -> str:
    """What accounting's word comes to; of a run that was requeued once more it forgets how it had ended."""
    word = state.split()[0]
    if (told, word) in {("released", "CANCELLED"), ("released", "COMPLETED"), ("failed", "REQUEUED")}:
        return told
    return END_OF.get(word, word)


def _history(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _listed(site, "history", "--since", "1d", person="daemon")["fragments"]
    return found


def _without_daemon(site: Site, findings: Findings) -> None:
    site.stop_daemon()
    findings.compare("stopped daemon: status", site.freetrain("alice", "status").returncode, 69)
    findings.compare("stopped daemon: health", site.freetrain("alice", "health").returncode, 2)
    findings.compare("stopped daemon: is_at_work", _listed(site, "jobs")["daemon"]["is_at_work"], False)
    states = {one["state"] for one in _listed(site, "nodes")["nodes"]}
    findings.compare("stopped daemon: what is said of nodes", sorted(states), ["not lent"])


if __name__ == "__main__":
    main()
