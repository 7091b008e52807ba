"""Of several verdicts on a node the first of the table is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.node import Partition
from freetrain.core.place import Place
from freetrain.lending.facts import Facts
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
STOPPED = replace(NOTHING.facts, stopped="a stop")
PAUSED = replace(NOTHING.facts, paused="a pause")


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
    drained = replace(NOTHING, facts=replace(STOPPED, drained={"n2": "drained by the site"}))
    assert judge_nodes(drained).verdicts == {"n1": "stopped", "n2": "drained"}


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
