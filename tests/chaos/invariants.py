"""What must hold, as sentences of what does not: at every look at the site, when all is mended, and at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator

from benchmarks.live.site import Ran
from freetrain.core.fragment import End
from freetrain.store.ledger import UNKNOWN
from freetrain.store.store import Store
from tests.chaos.scene import Job, Scene, task_s

_DEFECT = ("this is a defect", "Traceback")
_FEW_COUNTS = 0.01
_FORGETS_S = 30.0
"""What a slurmctld that is killed may not have written down; on an idle machine it is five seconds."""


class Watch:
    """What is violated while faults happen.

    Attributes:
        looks: how often all jobs were looked at.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._samples, self._heard = 0, 0
        self._was_without_nodes = True
        self.looks = 0

    def look(self) -> Iterator[str]:
        """What can be seen at any moment."""
        while self._scene.wrong:
            yield self._scene.wrong.pop()
        jobs = self._scene.queue()
        if not jobs:
            return
        self.looks += 1
        yield from _site_jobs(jobs)
        nodes = Counter(job.nodes for job in jobs if job.partition == "freetrain" and job.state == "RUNNING")
        yield from (f"{count} fragments on {node}" for node, count in nodes.items() if count > 1)
        if self._scene.has_daemon:
            yield from self._training(jobs)
            yield from self._log()

    def _training(self, jobs: list[Job]) -> Iterator[str]:
        """A training that lost all its nodes goes on from its checkpoint; any other never steps back."""
        samples = self._scene.samples_done()
        has_nodes = any(job.id.startswith(f"{self._scene.training}_") and job.state == "RUNNING" for job in jobs)
        if samples < self._samples and not self._was_without_nodes:
            yield f"the training's samples went back from {self._samples} to {samples}"
        self._was_without_nodes = not has_nodes or (self._was_without_nodes and samples <= self._samples)
        self._samples = samples

    def _log(self) -> Iterator[str]:
        text = self._scene.site.daemon_says
        new, self._heard = text[self._heard :], len(text)
        yield from (
            f"the daemon says: {line}" for line in new.splitlines() if any(word in line for word in _DEFECT)
        )


def _site_jobs(jobs: list[Job]) -> Iterator[str]:
    for job in (job for job in jobs if job.partition == "main"):
        if job.state in ("PREEMPTED", "CANCELLED", "SUSPENDED") or "Held" in job.reason:
            yield f"job {job.id} of the site's is {job.state} ({job.reason})"


def converged(scene: Scene) -> str:
    """What is not yet as it should be when all is mended; empty: all is."""
    ledger = scene.ledger()
    if ledger is None:
        return "there is no database"
    books = {fragment.job: fragment.node for fragment in ledger.open_fragments()}
    jobs = scene.queue()
    slurm = {job.id: job.nodes for job in jobs if job.partition == "freetrain" and job.state == "RUNNING"}
    if (scene.state / "STOP").exists() and (books or slurm):
        return f"not given back: {books or slurm}"
    booked, shown = dict(books.items() - slurm.items()), dict(slurm.items() - books.items())
    return f"only in the books {booked}, only in Slurm {shown}" if booked or shown or not jobs else ""


def at_the_end(scene: Scene) -> Iterator[str]:
    """What can be told only then: accounting, audit, ledger and tasks."""
    yield from _accounting(scene)
    if scene.has_daemon:
        yield from _orders_without_a_row(scene)
        yield from _tasks(scene)
        yield from _ledger(scene)


def _accounting(scene: Scene) -> Iterator[str]:
    """How the site's jobs ended: only a node that vanished may end one early, or hide its end."""
    allowed = {"COMPLETED", "RUNNING", "PENDING"} | (
        {"NODE_FAIL", "REQUEUED", "FAILED", "TIMEOUT"} if scene.crashed_nodes else set()
    )
    for ran in scene.site.accounting("main"):
        if ran.state.split()[0] not in allowed:
            yield f"job {ran.id} of the site's ended as {ran.state}"


def _orders_without_a_row(scene: Scene) -> Iterator[str]:
    given = Counter(scene.programs.orders())
    rows = Counter[tuple[str, ...]]()
    for path in (*scene.lost, scene.state / "freetrain.db"):
        commands = Store.open(path).ledger().commands()
        rows.update(_as_the_program_sees_it(row.argv) for row in commands)
        if path == scene.state / "freetrain.db":
            yield from (
                f"the result of {row.argv} is unknown for ever" for row in commands if row.result == UNKNOWN
            )
    for order, count in (given - rows).items():
        if not _renews_mark(order):
            yield f"{count} times no row before {' '.join(order)}"


def _renews_mark(order: tuple[str, ...]) -> bool:
    """Whether it renews the mark by which a daemon shows that it is there."""
    return order[0] == "scontrol" and "freetrain-daemon:" in order[-1]


def _as_the_program_sees_it(argv: list[str]) -> tuple[str, ...]:
    """Without what comes before sbatch so that it runs as somebody else."""
    names = [number for number, word in enumerate(argv) if word in ("sbatch", "scontrol", "scancel")]
    return tuple(argv[names[0] :]) if names else tuple(argv)


def _tasks(scene: Scene) -> Iterator[str]:
    """A task that accounting calls complete has been done, and once; a sample counts as often as any other.

    Of a task that ran when slurmctld was killed, that may know nothing afterwards, and lets it run again. A task
    that is taken back between its last line and its end is done again.
    """
    forgotten = _forgotten(scene)
    runs = [run for run in scene.site.accounting("freetrain") if run.id.partition("_")[0] == scene.filler]
    cut_off = Counter(
        run.id for run in runs if run.state != "COMPLETED" and run.end_s - run.start_s >= _task_s(run)
    )
    for run in runs:
        path = scene.site.out / f"task-{run.id.partition('_')[2]}"
        if run.state == "COMPLETED" and run.id not in forgotten:
            times = path.read_text().count("done") if path.exists() else 0
            if not 1 <= times <= 1 + cut_off[run.id]:
                yield f"{path.name} was done {times} times"
    for path in (scene.site.out / "counting").glob("counts-*.json"):
        counts = json.loads(path.read_text())
        if max(counts) - min(counts) > 1 + _FEW_COUNTS:
            yield f"samples of the training counted {min(counts):.2f} to {max(counts):.2f} times"


def _task_s(run: Ran) -> float:
    return task_s(int(run.id.partition("_")[2]))


def _forgotten(scene: Scene) -> set[str]:
    """Jobs that were started so shortly before slurmctld was killed that it may not have written that down."""
    runs = [
        run
        for path in (*scene.lost, scene.state / "freetrain.db")
        for run in Store.open(path).ledger().fragments(0.0)
    ]
    return {run.job for run in runs if _was_forgotten(scene, run.asked_s)}


def _was_forgotten(scene: Scene, began_s: float) -> bool:
    return any(0.0 <= killed_s - began_s < _FORGETS_S for killed_s in scene.controller_killed_s)


def _ledger(scene: Scene) -> Iterator[str]:
    """Against accounting, since the database was lost last."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(scene.lost_at_s + 60))
    ran = scene.site.freetrain("root", "ledger", "--check", "--json", "--from", since)
    if ran.returncode not in (0, 1) or not ran.stdout:
        yield f"ledger --check ended with {ran.returncode}: {ran.stderr[-300:]}"
        return
    ledger = Store.open(scene.state / "freetrain.db").ledger()
    failed = {(run.job, run.started_s) for run in ledger.fragments(0.0) if run.end is End.FAILED}
    forgotten = _forgotten(scene)
    for difference in json.loads(ran.stdout)["differences"]:
        # Slurm 22.05 moves the end of a failed run in accounting to when its task is requeued.
        is_moved = (difference["job"], difference["started"]) in failed
        is_longer = (difference["ledger_s"] or 0.0) > (difference["accounting_s"] or 0.0)
        # A slurmctld that forgot a job gives its number to the next one; the first never ends in accounting.
        is_forgotten = difference["job"] in forgotten or _was_forgotten(scene, difference["started"])
        if not is_forgotten and (is_longer or not is_moved):
            yield f"ledger: {difference}"
