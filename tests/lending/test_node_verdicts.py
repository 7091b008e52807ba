"""Of several verdicts on a node the first of the table is shown; one keeps nodes for the first waiting job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, WaitsFor
from freetrain.core.node import Partition
from freetrain.core.place import Place
from freetrain.lending.facts import Facts, SiteOrders
from freetrain.lending.hole_ends import nodes_of_next
from freetrain.lending.judge import shadow_of
from freetrain.lending.memory import Memory
from freetrain.lending.node_verdicts import NODE_VERDICTS, NOT_COMPETING, NodeContext, judge_nodes
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow
from freetrain.lending.sightings import Sightings
from tests.facts import node

NEVER_STARTED = Fragment("7_1", "7", "n1", FragmentState.ASKED, 0.0, 3600.0)
MACHINE = Snapshot(
    1000.0, (node("n1"), node("n2")), (), partitions={"freetrain": Partition("freetrain", frozenset({"n1", "n2"}))}
)
NOTHING = NodeContext(
    facts=Facts(MACHINE, (NEVER_STARTED,)),
    memory=Memory(),
    shadow=Shadow(1000.0, (), frozenset()),
    nodes=NodeRules(FragmentQueue("freetrain")),
)
STOPPED = replace(NOTHING.facts, orders=SiteOrders(stopped="a stop"))
PAUSED = replace(NOTHING.facts, orders=SiteOrders(paused="a pause"))


def test_what_no_verdict_names_is_offered() -> None:
    assert judge_nodes(NOTHING).offered == (Place("n1", holder="7"), Place("n2"))


@pytest.mark.parametrize(
    ("context", "due", "withheld"),
    [
        (replace(NOTHING, late=(NEVER_STARTED,)), {"n1": "Slurm does not start what it is lent for"}, {}),
        (replace(NOTHING, facts=STOPPED, late=(NEVER_STARTED,)), {"n1": "a stop"}, {"n2": "a stop"}),
        (replace(NOTHING, claimed={"n1": "a job"}, facts=STOPPED), {"n1": "a job"}, {"n2": "a stop"}),
        (replace(NOTHING, facts=PAUSED), {}, {"n2": "nothing more is lent: a pause"}),
        (replace(NOTHING, facts=PAUSED, backing_off="a stop"), {"n1": "a stop"}, {"n2": "a stop"}),
    ],
)
def test_the_first_verdict_that_names_a_node_says_why(
    context: NodeContext, due: dict[str, str], withheld: dict[str, str]
) -> None:
    found = judge_nodes(context)
    assert (found.due, found.withheld) == (due, withheld)


def test_what_is_not_offered_names_its_verdict() -> None:
    orders = SiteOrders("a stop", kept_off={"drained": {"n2": "drained by the site"}})
    assert judge_nodes(replace(NOTHING, facts=replace(NOTHING.facts, orders=orders))).verdicts == {
        "n1": "stopped",
        "n2": "drained",
    }


def test_a_verdict_on_idle_nodes_leaves_lent_ones_and_one_on_lent_nodes_leaves_idle_ones() -> None:
    resting = Memory(Sightings(resting_until_s={"n1": 2000.0, "n2": 2000.0}))
    assert judge_nodes(replace(NOTHING, memory=resting)).verdicts == {"n2": "at rest"}
    of_nobody = NOT_COMPETING.applied(judge_nodes(NOTHING), replace(NOTHING, competing=()))
    assert of_nobody.due == {"n1": "trainer 7 does not compete for nodes"}
    assert [offer.name for offer in of_nobody.offered] == ["n2"]


def test_a_lent_node_in_a_state_that_slurm_does_not_know_is_left_as_it_is() -> None:
    unknown = replace(MACHINE, nodes=(node("n1", "UNKNOWN"), node("n2", "UNKNOWN")))
    found = judge_nodes(replace(NOTHING, facts=replace(NOTHING.facts, snapshot=unknown)))
    assert (found.due, found.verdicts) == ({}, {"n1": "not free", "n2": "not free"})


def test_each_verdict_has_a_name_of_its_own_and_says_what_would_change_it() -> None:
    verdicts = [*NODE_VERDICTS, NOT_COMPETING]
    assert len({verdict.name for verdict in verdicts}) == len(verdicts)
    assert all(verdict.ends_when.endswith(".") for verdict in verdicts)


NOW_S = 1_000_000.0
LEFT, RIGHT = frozenset({"a1", "a2", "a3", "a4"}), frozenset({"b1", "b2"})
RULES = NodeRules(FragmentQueue("freetrain"), next_within_s=60.0)


def running(number: int, *names: str, age_s: float = 20.0, left_s: float = 600.0) -> Job:
    return Job(
        str(number), str(number), "games", "main", JobState.RUNNING, nodes=frozenset(names),
        start_s=NOW_S - age_s, end_s=NOW_S + left_s, limit_s=age_s + left_s,
    )  # fmt: skip


def waiting(number: int, wants: int, partition: str = "main") -> Job:
    return Job(
        str(number), str(number), "games", partition, JobState.PENDING, node_count=wants,
        submitted_s=NOW_S - 1000 + number, limit_s=600.0, waits_for=WaitsFor.NODES,
    )  # fmt: skip


def kept(*jobs: Job, rules: NodeRules = RULES, lent: tuple[str, ...] = ()) -> set[str]:
    busy = frozenset().union(*(job.nodes for job in jobs))
    names = sorted(LEFT | RIGHT)
    partitions = {"main": LEFT, "other": RIGHT, "freetrain": LEFT | RIGHT}
    found = Snapshot(
        NOW_S,
        tuple(node(name, "ALLOCATED" if name in busy else "IDLE") for name in names),
        jobs,
        partitions={name: Partition(name, its) for name, its in partitions.items()},
    )
    offered = [Place(name, None, "7" if name in lent else None) for name in names if name not in busy]
    return set(nodes_of_next(offered, shadow_of(Facts(found), rules, Sightings()), found, rules))


def test_its_nodes_are_kept_lent_or_not_when_one_young_job_is_in_the_way() -> None:
    assert kept(running(1, "a1"), waiting(2, 4), lent=("a3",)) == {"a2", "a3", "a4"}


def test_an_end_that_is_expected_late_keeps_nothing() -> None:
    assert kept(running(1, "a1", age_s=300.0), waiting(2, 4)) == set()
    assert kept(running(1, "a1", age_s=300.0, left_s=40.0), waiting(2, 4)) == {"a2", "a3", "a4"}
    assert kept(running(1, "a1"), waiting(2, 4), rules=NodeRules(FragmentQueue("freetrain"))) == set()


def test_where_more_than_one_has_to_end_nothing_is_kept() -> None:
    assert kept(running(1, "a1"), running(2, "a2"), waiting(3, 4)) == set()
    assert kept(running(1, "a1", "a2"), waiting(3, 4)) == {"a3", "a4"}


def test_only_the_first_of_each_partition_is_next() -> None:
    assert kept(running(1, "a1", "a2", "a3"), waiting(2, 3), waiting(3, 2)) <= {"a4"}
    assert kept(running(1, "b1"), waiting(2, 2, "other")) == {"b2"}


def test_an_end_in_another_partition_helps_nobody() -> None:
    elsewhere = running(1, "b1")
    assert kept(elsewhere, running(2, "a1", age_s=300.0), waiting(3, 4)) == set()


def test_who_can_start_now_is_not_next() -> None:
    assert kept(running(1, "a1"), waiting(2, 3)) == set()
