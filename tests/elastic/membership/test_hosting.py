from __future__ import annotations

from collections.abc import Mapping

import pytest

from freetrain.elastic.membership.hosting import MOVES_BEFORE_S, Hosting, hosting
from freetrain.elastic.on_disk.members import Generation, Member
from freetrain.elastic.on_disk.next_generation import View

NOW_S = 1e9
RUN, KEEP, END = Hosting.RUN, Hosting.KEEP, Hosting.END


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
