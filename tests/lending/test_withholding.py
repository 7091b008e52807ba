"""Of several rules that take a node back the first one says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.problem import Offer
from freetrain.lending.facts import Facts
from freetrain.lending.memory import Memory
from freetrain.lending.offers import Offers
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow
from freetrain.lending.withholding import WithholdContext, withhold

OFFERS = Offers((Offer("n1", held_by="7"), Offer("n2")), {}, {})
IN_VAIN = Fragment("7_1", "7", "n1", FragmentState.ASKED, 0.0, 3600.0)
NOTHING = WithholdContext(
    facts=Facts(Snapshot(1000.0, (), ())),
    memory=Memory(),
    shadow=Shadow(1000.0, (), frozenset()),
    nodes=NodeRules(FragmentQueue("freetrain")),
    rooms=None,
    claimed={},
    stopped="",
    crowded_out=(),
    late=(),
)
PAUSED = replace(NOTHING.facts, paused="a pause")


def test_without_any_ground_all_stays_offered() -> None:
    assert withhold(OFFERS, NOTHING) == OFFERS


@pytest.mark.parametrize(
    ("context", "due", "withheld"),
    [
        (replace(NOTHING, late=(IN_VAIN,)), {"n1": "Slurm does not start what it is lent for"}, {}),
        (replace(NOTHING, stopped="a stop", late=(IN_VAIN,)), {"n1": "a stop"}, {"n2": "a stop"}),
        (replace(NOTHING, claimed={"n1": "a job"}, stopped="a stop"), {"n1": "a job"}, {"n2": "a stop"}),
        (replace(NOTHING, facts=PAUSED), {}, {"n2": "nothing more is lent: a pause"}),
        (replace(NOTHING, facts=PAUSED, stopped="a stop"), {"n1": "a stop"}, {"n2": "a stop"}),
    ],
)
def test_the_first_rule_that_names_a_node_says_why(
    context: WithholdContext, due: dict[str, str], withheld: dict[str, str]
) -> None:
    found = withhold(OFFERS, context)
    assert (found.due, found.withheld) == (due, withheld)
