from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.decision import Decision, Status
from freetrain.core.placement import Placement
from freetrain.core.problem import Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.core.verify import verify
from freetrain.policies import find_policy

PROBLEM = Problem(
    now_s=1000.0,
    nodes=(
        Offer("n1", None, "A"),
        Offer("n2", None, "A"),
        Offer("n3"),
        Offer("gone", 900.0),
    ),
    trainers=(
        Trainer("A", ((1, 10.0), (2, 18.0), (3, 25.0))),
        Trainer("B", ((2, 12.0), (3, 17.0)), min_nodes=2),
    ),
    objective="throughput",
)


def decision(placement: Placement) -> Decision:
    return Decision(Status.HEURISTIC, 0.0, placement, "by hand")


def test_a_good_decision_passes() -> None:
    assert verify(PROBLEM, find_policy("freetrain").decide(PROBLEM)) == ()


@pytest.mark.parametrize(
    ("placement", "complaint"),
    [
        ({"A": ("n1", "n9")}, "n9 is lent, which is not among"),
        ({"A": ("n1", "gone")}, "gone is lent, which is not among"),
        ({"A": ("n1", "n3"), "B": ("n2", "n3")}, "n3 is lent twice over"),
        ({"A": ("n1", "n1")}, "n1 is lent twice over"),
        ({"B": ("n3",)}, "trainer B gets 1 nodes, outside its 2 to 3"),
        ({"A": ("n1", "n3")}, "trainer A would migrate: it loses n2 and gains n3"),
        ({"C": ("n3",)}, "C is none of the problem's trainers"),
    ],
)
def test_a_wrong_placement_is_found(placement: Placement, complaint: str) -> None:
    assert complaint in "; ".join(verify(PROBLEM, decision(placement)))


def test_a_wrong_value_is_found() -> None:
    good = find_policy("freetrain").decide(PROBLEM)
    (wrong,) = verify(PROBLEM, replace(good, objective=good.objective + 1))
    assert "claims a value" in wrong
