from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.members import Generation, Member
from freetrain.elastic.on_disk.next_generation import View
from freetrain.elastic.on_node.servers import MOVES_BEFORE_S, Hosting, ServerNodes, hosting, servers_in
from freetrain.slurm.comments import with_answer, with_servers

NOW_S = 1e9
RUN, KEEP, END = Hosting.RUN, Hosting.KEEP, Hosting.END
TAG = "freetrain:min=2,servers=3"


def view(ends_in_s: Mapping[str, float], servers: str = "", in_world: str = "", leaving: str = "") -> View:
    """Agents A, B, … with a worker each, whose nodes end then (0: unknown); servers are 1 on A, 2 on B, …"""
    workers = [name.lower() for name in ends_in_s]
    members = {}
    for place, (agent, end_s) in enumerate(ends_in_s.items(), 1):
        ends_s = NOW_S + end_s if end_s else 0.0
        facts = (agent, "host", "address", 1, 1, "2.13", "mark")
        members[agent.lower()] = Member(
            agent.lower(), *facts, joined_s=place, ends_s=ends_s, switches=f"top.leaf.node-{agent}"
        )
        if str(place) in servers:
            members[str(place)] = Member(str(place), *facts, joined_s=9.0, ends_s=ends_s, is_server=True)
    generation = Generation(3, tuple(workers), "host", "address", 1, "nonce", "", tuple(in_world))
    return View(generation, members, frozenset(leaving))


def decided(seen: View, servers: int = 1) -> dict[str, Hosting]:
    agents = dict.fromkeys(member.agent for member in seen.members.values())
    return {agent: hosting(seen, agent, servers, NOW_S) for agent in agents}


def told(seen: View, *nodes: str) -> dict[str, Hosting]:
    """Where freetrain has named nodes."""
    agents = dict.fromkeys(member.agent for member in seen.members.values())
    names = {f"node-{node}" for node in nodes}
    return {agent: hosting(seen, agent, len(names), NOW_S, names) for agent in agents}


@pytest.mark.parametrize(
    ("ends_in_s", "host"),
    [
        ({"A": 3600, "B": 7200, "C": 5400}, "B"),
        ({"A": 3600, "B": 0, "C": 5400}, "B"),
        ({"A": 0, "B": 0}, "A"),
        ({"A": 50, "B": 40}, "A"),
        ({"A": 50, "B": MOVES_BEFORE_S + 1}, "B"),
    ],
)
def test_a_server_is_started_on_the_node_that_stays_longest(ends_in_s: dict[str, float], host: str) -> None:
    assert [agent for agent, what in decided(view(ends_in_s)).items() if what is RUN] == [host]


def test_as_many_nodes_have_one_as_there_should_be() -> None:
    ends_in_s = {"A": 3600.0, "B": 7200.0, "C": 5400.0}
    assert decided(view(ends_in_s), 2) == {"A": KEEP, "B": RUN, "C": RUN}
    assert set(decided(view(ends_in_s), 5).values()) == {RUN}


def test_a_server_stays_where_it_is_though_another_node_stays_longer() -> None:
    assert decided(view({"A": 3600, "B": 7200}, servers="1", in_world="1")) == {"A": RUN, "B": END}


@pytest.mark.parametrize("in_world", ["1", "12"])
def test_before_the_end_of_its_node_it_moves_and_goes_on_until_the_other_is_there(in_world: str) -> None:
    seen = view({"A": MOVES_BEFORE_S - 1, "B": 7200}, servers=in_world, in_world=in_world)
    assert decided(seen) == {"A": KEEP if in_world == "1" else END, "B": RUN}


def test_where_all_nodes_end_soon_it_stays() -> None:
    assert decided(view({"A": 60, "B": 100}, servers="1", in_world="1")) == {"A": RUN, "B": END}


def test_no_server_is_started_where_workers_are_leaving() -> None:
    seen = view({"A": 3600, "B": 7200}, servers="2", in_world="2", leaving="b2")
    assert decided(seen) == {"A": RUN, "B": KEEP}


def test_two_that_were_started_at_once_come_down_to_one() -> None:
    assert decided(view({"A": 3600, "B": 7200}, servers="12", in_world="12")) == {"A": END, "B": RUN}


def test_servers_run_on_the_nodes_that_freetrain_names_and_nowhere_else() -> None:
    seen = view({"A": 3600, "B": 50, "C": 7200})
    assert told(seen, "B") == {"A": KEEP, "B": RUN, "C": KEEP}
    assert told(seen, "A", "B") == {"A": RUN, "B": RUN, "C": KEEP}
    assert RUN not in told(seen, "D").values(), "a node that is not there yet"


def test_where_freetrain_names_another_node_the_server_goes_on_until_that_one_has_its_own() -> None:
    ends_in_s = {"A": 7200.0, "B": 3600.0}
    assert told(view(ends_in_s, servers="1", in_world="1"), "B") == {"A": KEEP, "B": RUN}
    assert told(view(ends_in_s, servers="12", in_world="12"), "B") == {"A": END, "B": RUN}


def test_where_freetrain_names_no_node_any_more_servers_end() -> None:
    assert told(view({"A": 7200, "B": 3600}, servers="1", in_world="1")) == {"A": END, "B": END}


def test_nobody_runs_one_where_nobody_wants_any() -> None:
    assert RUN not in decided(view({"A": 3600}), servers=0).values()


@pytest.mark.parametrize("nodes", [(), ("c1",), ("c1", "gpu-node_07.site.org")])
def test_what_the_daemon_writes_is_read(nodes: tuple[str, ...]) -> None:
    assert servers_in(with_servers(TAG, nodes) + "\n") == nodes
    assert servers_in(with_servers(with_answer(TAG, "paused after 5 failures"), nodes)) == nodes


@pytest.mark.parametrize(
    "said", ["", TAG, with_answer(TAG, "paused after 5 failures"), f"{TAG} | servers on $(x)"]
)
def test_anything_else_names_no_nodes(said: str) -> None:
    assert servers_in(said) == ()


def seen_by(*agents: str) -> View:
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
    first, other = (ServerNodes(directory, agent, lambda: slurm.now_s) for agent in "AB")
    slurm.say("c2")
    assert other.look(seen_by("A", "B")) == frozenset()
    until(lambda: first.look(seen_by("A", "B")) == {"c2"})
    assert other.look(seen_by("A", "B")) == {"c2"}
    assert slurm.asked == ["--noheader --format=%k --jobs=42"]


def test_it_asks_often_when_the_nodes_have_changed_and_now_and_then_later(tmp_path: Path, slurm: Slurm) -> None:
    told = ServerNodes(TrainerDirectory.open(tmp_path / "trainer"), "A", lambda: slurm.now_s)
    slurm.say("c2")
    until(lambda: told.look(seen_by("A", "B")) == {"c2"})
    slurm.say("c1")
    assert told.look(seen_by("A", "B")) == {"c2"}
    assert len(slurm.asked) == 1
    slurm.now_s += 4.0
    until(lambda: told.look(seen_by("A", "B")) == {"c1"})
    slurm.now_s += 60.0
    slurm.say("c2")
    until(lambda: told.look(seen_by("A", "B")) == {"c2"})
    slurm.say()
    slurm.now_s += 4.0
    assert told.look(seen_by("A", "B")) == {"c2"}
    assert len(slurm.asked) == 3
    until(lambda: told.look(seen_by("A")) == frozenset())
    assert len(slurm.asked) == 4


def test_the_job_that_stands_for_the_trainer_is_asked_for(
    tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.say("c1")
    for number, (name, value) in enumerate(
        [("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_ARRAY_TASK_ID", "3"), ("FREETRAIN_FRAGMENT_OF", "9")]
    ):
        monkeypatch.setenv(name, value)
        told = ServerNodes(TrainerDirectory.open(tmp_path / f"trainer{number}"), "A", lambda: slurm.now_s)
        until(lambda told=told: told.look(seen_by("A")) == {"c1"})  # type: ignore[misc]
    assert [line.rpartition("=")[2] for line in slurm.asked] == ["42", "7_3", "9"]


def test_an_answer_that_does_not_come_changes_nothing_and_ends_with_the_agent(
    tmp_path: Path, slurm: Slurm
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 600\n")
    directory = TrainerDirectory.open(tmp_path / "trainer")
    directory.place_servers(["c3"])
    told = ServerNodes(directory, "A", lambda: slurm.now_s)
    assert told.look(seen_by("A")) == {"c3"}
    slurm.now_s += 31.0
    assert told.look(seen_by("A")) == {"c3"}
    told.close()


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error: Invalid job id specified"])
def test_where_slurm_does_not_show_the_job_servers_stay(tmp_path: Path, slurm: Slurm, said: str) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    directory.place_servers(["c3"])
    (tmp_path / "said").write_text(said)
    told = ServerNodes(directory, "A", lambda: slurm.now_s)
    for number in range(1, 4):
        until(lambda count=number: bool(told.look(seen_by("A"))) and len(slurm.asked) == count)  # type: ignore[misc]
        slurm.now_s += 31.0
    assert told.look(seen_by("A")) == {"c3"}


def test_where_there_is_no_squeue_it_is_said_once(
    tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    told = ServerNodes(TrainerDirectory.open(tmp_path / "trainer"), "A", lambda: slurm.now_s)
    for _ in range(3):
        assert told.look(seen_by("A")) == frozenset()
        slurm.now_s += 31.0
    assert caplog.text.count("cannot ask Slurm where servers are to run") == 1


def test_where_there_is_no_slurm_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(tmp_path, monkeypatch, job="")
    told = ServerNodes(TrainerDirectory.open(tmp_path / "trainer"), "A", lambda: slurm.now_s)
    assert told.look(seen_by("A")) == frozenset()
    assert slurm.asked == []
