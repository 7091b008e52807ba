from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation, Member
from freetrain.elastic.on_disk.next_generation import View
from freetrain.elastic.on_node.told_servers import ToldServers, servers_in
from freetrain.slurm.comments import with_answer, with_servers

TAG = "freetrain:min=2,servers=3"


@pytest.mark.parametrize("nodes", [(), ("c1",), ("c1", "gpu-node_07.site.org")])
def test_what_the_daemon_writes_is_read(nodes: tuple[str, ...]) -> None:
    assert servers_in(with_servers(TAG, nodes) + "\n") == nodes
    assert servers_in(with_servers(with_answer(TAG, "paused after 5 failures"), nodes)) == nodes


@pytest.mark.parametrize(
    "said", ["", TAG, with_answer(TAG, "paused after 5 failures"), f"{TAG} | servers on $(x)"]
)
def test_anything_else_names_no_nodes(said: str) -> None:
    assert servers_in(said) == ()


def view(*agents: str) -> View:
    """A world of one worker of each of these agents, in this order."""
    facts = ("host", "address", 1, 1, "2.13", "mark", 9.0)
    members = {agent.lower(): Member(agent.lower(), agent, *facts) for agent in agents}
    return View(Generation(1, tuple(members), "host", "address", 1, "nonce", ""), members)


class Slurm:
    """A squeue of the imagination, and the clock of those who ask it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, job: str = "42") -> None:
        self.now_s = 100.0
        self._asked, self._said = folder / "asked", folder / "said"
        squeue = folder / "squeue"
        squeue.write_text(f'#!/bin/sh\necho "$@" >> {self._asked}\nexec cat {self._said}\n')
        squeue.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        for name in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "FREETRAIN_FRAGMENT_OF", "SLURM_JOB_ID"):
            monkeypatch.delenv(name, raising=False)
        if job:
            monkeypatch.setenv("SLURM_JOB_ID", job)

    def say(self, *nodes: str) -> None:
        self._said.write_text(with_servers(TAG, nodes) + "\n")

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().split("\n")[:-1] if self._asked.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    return Slurm(tmp_path, monkeypatch)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_the_agent_of_the_first_worker_asks_and_tells_the_others(tmp_path: Path, slurm: Slurm) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    first, other = (ToldServers(directory, agent, lambda: slurm.now_s) for agent in "AB")
    slurm.say("c2")
    assert other.look(view("A", "B")) == frozenset()
    until(lambda: first.look(view("A", "B")) == {"c2"})
    assert other.look(view("A", "B")) == {"c2"}
    assert slurm.asked == ["--noheader --format=%k --jobs=42"]


def test_it_asks_often_when_the_nodes_have_changed_and_now_and_then_later(tmp_path: Path, slurm: Slurm) -> None:
    told = ToldServers(TrainerDirectory.open(tmp_path / "trainer"), "A", lambda: slurm.now_s)
    slurm.say("c2")
    until(lambda: told.look(view("A", "B")) == {"c2"})
    slurm.say("c1")
    assert told.look(view("A", "B")) == {"c2"}
    assert len(slurm.asked) == 1
    slurm.now_s += 4.0
    until(lambda: told.look(view("A", "B")) == {"c1"})
    slurm.now_s += 60.0
    slurm.say("c2")
    until(lambda: told.look(view("A", "B")) == {"c2"})
    slurm.say()
    slurm.now_s += 4.0
    assert told.look(view("A", "B")) == {"c2"}
    assert len(slurm.asked) == 3
    until(lambda: told.look(view("A")) == frozenset())
    assert len(slurm.asked) == 4


def test_the_job_that_stands_for_the_trainer_is_asked_for(
    tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.say("c1")
    for number, (name, value) in enumerate(
        [("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_ARRAY_TASK_ID", "3"), ("FREETRAIN_FRAGMENT_OF", "9")]
    ):
        monkeypatch.setenv(name, value)
        told = ToldServers(TrainerDirectory.open(tmp_path / f"trainer{number}"), "A", lambda: slurm.now_s)
        until(lambda told=told: told.look(view("A")) == {"c1"})  # type: ignore[misc]
    assert [line.rpartition("=")[2] for line in slurm.asked] == ["42", "7_3", "9"]


def test_an_answer_that_does_not_come_changes_nothing_and_ends_with_the_agent(
    tmp_path: Path, slurm: Slurm
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 600\n")
    directory = TrainerDirectory.open(tmp_path / "trainer")
    directory.tell_servers(["c3"])
    told = ToldServers(directory, "A", lambda: slurm.now_s)
    assert told.look(view("A")) == {"c3"}
    slurm.now_s += 31.0
    assert told.look(view("A")) == {"c3"}
    told.close()


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error: Invalid job id specified"])
def test_where_slurm_does_not_show_the_job_servers_stay(tmp_path: Path, slurm: Slurm, said: str) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    directory.tell_servers(["c3"])
    (tmp_path / "said").write_text(said)
    told = ToldServers(directory, "A", lambda: slurm.now_s)
    for number in range(1, 4):
        until(lambda count=number: bool(told.look(view("A"))) and len(slurm.asked) == count)  # type: ignore[misc]
        slurm.now_s += 31.0
    assert told.look(view("A")) == {"c3"}


def test_where_there_is_no_squeue_it_is_said_once(
    tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    told = ToldServers(TrainerDirectory.open(tmp_path / "trainer"), "A", lambda: slurm.now_s)
    for _ in range(3):
        assert told.look(view("A")) == frozenset()
        slurm.now_s += 31.0
    assert caplog.text.count("cannot ask Slurm where servers are to run") == 1


def test_where_there_is_no_slurm_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(tmp_path, monkeypatch, job="")
    told = ToldServers(TrainerDirectory.open(tmp_path / "trainer"), "A", lambda: slurm.now_s)
    assert told.look(view("A")) == frozenset()
    assert slurm.asked == []
