from __future__ import annotations

from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.lending.lost_nodes import LostNodes
from freetrain.lending.rules import HarmRules
from freetrain.slurm.parsing import parse_nodes

NOW_S = 1000.0
LIMITS = HarmRules(delay_s=60.0, within_s=600.0, allowed=1, pause_s=600.0)
LINE = "NodeName={} State=IDLE+DRAIN Partitions=main Reason={} [root@2026-11-22T03:00:00]\n"


def snapshot(at_s: float, **reasons: str) -> Snapshot:
    nodes, _ = parse_nodes("".join(LINE.format(*each) for each in reasons.items()))
    return Snapshot(at_s, tuple(nodes), ())


def left(node: str) -> Fragment:
    return Fragment(f"7_{node}", "7", node, FragmentState.ENDED, 900.0, 3600.0, 901.0, 990.0)


def test_a_node_that_slurm_could_not_clear_after_a_fragment_is_lost_once() -> None:
    found = snapshot(NOW_S, n1="Kill task failed", n2="bad fan", n3="Kill task failed")
    lost = LostNodes().after(found, [left("n1"), left("n2")], LIMITS)
    assert [(one.node, one.fragment, one.said) for one in lost.new] == [("n1", "7_n1", "IDLE+DRAIN")]
    assert lost.after(found, [left("n1")], LIMITS).new == ()


def test_too_many_within_the_time_are_harm_until_it_is_over() -> None:
    found = snapshot(NOW_S, n1="Kill task failed", n2="Epilog error")
    one = LostNodes().after(found, [left("n1")], LIMITS)
    assert not one.are_too_many(NOW_S, LIMITS)
    both = one.after(replace(found, time_s=NOW_S + 10), [left("n2")], LIMITS)
    assert both.are_too_many(NOW_S + 10, LIMITS)
    assert not both.are_too_many(NOW_S + 605, LIMITS)
    assert both.after(snapshot(NOW_S + 700), [], LIMITS).all == ()
