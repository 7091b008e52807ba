from __future__ import annotations

from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.lending.back_off import LostNodes
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
    assert [(lost_node.node, lost_node.fragment, lost_node.state_text) for lost_node in lost.new] == [
        ("n1", "7_n1", "IDLE+DRAIN")
    ]
    assert lost.after(found, [left("n1")], LIMITS).new == ()


def test_it_is_remembered_for_as_long_as_it_counts_and_while_it_is_out_of_service() -> None:
    found = snapshot(NOW_S, n1="Kill task failed", n2="Epilog error")
    both = LostNodes().after(found, [left("n1"), left("n2")], LIMITS)
    cleared = replace(found, nodes=found.nodes[:1])
    assert [lost_node.node for lost_node in both.after(replace(cleared, time_s=NOW_S + 1199), [], LIMITS).all] == [
        "n1",
        "n2",
    ]
    assert [lost_node.node for lost_node in both.after(replace(cleared, time_s=NOW_S + 1201), [], LIMITS).all] == [
        "n1"
    ]
