from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freetrain.core.fragment import FragmentState
from freetrain.core.job import JobState
from freetrain.slurm.errors import SlurmUnreachableError
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import NODES, FakeSlurm
from tests.facts import node


def one_owner_per_node(daemon: Daemon) -> bool:
    nodes = [
        fragment.node for fragment in daemon.cluster.books.open if fragment.state is not FragmentState.LEAVING
    ]
    return len(nodes) == len(set(nodes))


def same_as_slurm(daemon: Daemon) -> bool:
    known = {
        (fragment.job, fragment.node)
        for fragment in daemon.cluster.books.open
        if fragment.state is not FragmentState.LEAVING
    }
    running = {
        (job.id, name)
        for job in daemon.slurm.jobs.values()
        if job.state is JobState.RUNNING and job.comment.startswith("freetrain:")
        for name in job.nodes
    }
    return known == running


@pytest.mark.parametrize(
    ("second", "answers"),
    [
        *(("freetrain:min=1", answers) for answers in range(1, 14)),
        *(("freetrain:kind=tasks,nodes=2-3", answers) for answers in range(2, 14, 3)),
    ],
)
def test_wherever_slurm_falls_silent_the_next_cycles_repair_it(
    slurm: FakeSlurm, start_daemon: StartDaemon, second: str, answers: int
) -> None:
    arrays = [slurm.submit_array(tag, tasks=8) for tag in ("freetrain:min=1", second)]
    daemon = start_daemon()
    slurm.deaf_after = answers
    with suppress(SlurmUnreachableError):
        daemon.cycle()
    slurm.deaf_after, slurm.away = None, False
    restarted = start_daemon()
    for _ in range(5):
        restarted.cycle()
        assert one_owner_per_node(restarted)
    assert same_as_slurm(restarted)
    assert sum(len(slurm.running(array)) for array in arrays) == len(NODES)


@pytest.mark.parametrize("answers", range(0, 14, 3))
def test_every_order_has_a_row_that_was_written_before_it_and_is_settled_after_a_crash(
    slurm: FakeSlurm, start_daemon: StartDaemon, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    class KilledError(BaseException):
        """The process ends here: nothing catches it."""

    slurm.submit_array("freetrain:min=1", tasks=8)
    daemon, perform = start_daemon(), slurm.perform
    orders: list[tuple[str, ...]] = []

    def order(command: tuple[str, ...], stdin: str = "") -> str:
        said = perform(command, stdin)
        if command[0] in ("scontrol", "scancel", "sbatch") and "show" not in command:
            assert [tuple(row.argv) for row in daemon.ledger.unknown_commands()] == [command]
            orders.append(command)
            if len(orders) > answers:
                raise KilledError
        return said

    monkeypatch.setattr(slurm, "perform", order)
    with suppress(KilledError):
        for _ in range(3):
            daemon.cycle()
    monkeypatch.setattr(slurm, "perform", perform)
    assert [row.result for row in daemon.ledger.unknown_commands()] == ["unknown"] * (len(orders) > answers)
    start_daemon().cycle()
    assert daemon.ledger.unknown_commands() == []
    settled = [row for row in daemon.ledger.commands() if "then Slurm showed" in row.result]
    assert len(settled) == (len(orders) > answers)


def test_a_lost_database_is_rebuilt_from_slurm(
    slurm: FakeSlurm, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    array = slurm.submit_array("freetrain:min=1")
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    for file in tmp_path.glob("freetrain.db*"):
        file.unlink()
    told = len(slurm.told)
    rebuilt = start_daemon()
    rebuilt.cycle()
    assert len(rebuilt.cluster.books.open) == len(slurm.running(array)) == 4
    assert len(slurm.told) == told


EVENTS = (
    "site job",
    "site job ends",
    "restart",
    "task fails",
    "node down",
    "node up",
    "silence",
    "trainer",
    "tasks of several nodes",
    "cancel",
)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 7)), max_size=25))
def test_whatever_happens_no_node_has_two_owners_and_the_books_agree_with_slurm(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
    from tests.daemon.conftest import (
        start_daemon as fixture,
    )  # the fixture's function, for a new database each time

    slurm, folder = FakeSlurm(), tmp_path_factory.mktemp("books")
    start = fixture.__wrapped__(slurm, folder)  # type: ignore[attr-defined]
    untouchable = slurm.submit_array("mine, hands off")
    slurm.submit_array("freetrain:min=1", tasks=6)
    daemon = start()
    for event, number in events:
        happen(slurm, event, number)
        if event == "restart":
            daemon = start()
        with suppress(SlurmUnreachableError):
            daemon.cycle()
        slurm.deaf_after, slurm.away = None, False
        assert one_owner_per_node(daemon)
        for name in NODES:
            owners = [job for job in slurm.jobs.values() if job.state.has_nodes and name in job.nodes]
            assert len(owners) <= 1
    daemon.cycle()
    daemon.cycle()
    assert same_as_slurm(daemon)
    assert all(slurm.jobs[f"{untouchable}_{task}"].is_held for task in range(4))
    touched = {word for command in slurm.told for word in command[2:]}
    assert not any(untouchable in word for word in touched)


def happen(slurm: FakeSlurm, event: str, number: int) -> None:
    site = [job.id for job in slurm.jobs.values() if job.partition == "main" and job.state is JobState.RUNNING]
    tasks = [
        job.id for job in slurm.jobs.values() if job.partition == "freetrain" and job.state is JobState.RUNNING
    ]
    trainers = sorted({job.array for job in slurm.jobs.values() if job.comment.startswith("freetrain:")})
    match event:
        case "site job":
            slurm.submit(nodes=1 + number % 4)
        case "site job ends" if site:
            slurm.finish(site[number % len(site)])
        case "task fails" if tasks:
            slurm.finish(tasks[number % len(tasks)], JobState.FAILED)
        case "node down" | "node up":
            name = NODES[number]
            state = "DOWN" if event == "node down" else "IDLE"
            slurm.nodes[name] = node(name, state)
        case "silence":
            slurm.deaf_after = number
        case "trainer":
            slurm.submit_array(f"freetrain:min={1 + number % 3}", tasks=6)
        case "tasks of several nodes":
            slurm.submit_array(f"freetrain:kind=tasks,nodes={1 + number % 2}-{2 + number % 3}", tasks=4)
        case "cancel" if trainers:
            slurm.perform(("scancel", trainers[number % len(trainers)]))
