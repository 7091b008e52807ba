"""What becomes of orders on a site of a log."""

from __future__ import annotations

from freetrain.core.plan import Lend, Release
from freetrain.replay.as_daemon.driver import SimulatedCluster
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.as_daemon.timing import Timing
from tests.replay.as_daemon.test_driver import TRAINER, rules, site


def test_slurm_counts_time_limits_in_minutes_and_knows_none_shorter() -> None:
    cluster = SimulatedCluster(LoggedSite(*site(), "freetrain"), rules(), Timing(), "throughput", 0.0)
    cluster.admit(TRAINER)
    cluster.act(Lend("a", ("n1", "n2", "n3"), (-5.0, 100.0, 180.0)), None)
    assert [fragment.limit_s for fragment in cluster.lent.open] == [60.0, 60.0, 180.0]


def test_the_end_of_a_fragment_is_news_only_where_it_leaves_an_idle_node_to_nobody() -> None:
    cluster = SimulatedCluster(LoggedSite(*site(), "freetrain"), rules(), Timing(), "throughput", 0.0)
    cluster.advance_site()
    cluster.admit(TRAINER)
    cluster.act(Lend("a", ("n1", "n2"), (600.0, 600.0)), None)
    cluster.act(Release(("n1", "n2"), "", "a"), None)
    cluster.act(Lend("a", ("n1",), (600.0,)), None)
    assert not cluster.has_freed_nodes

    cluster.now_s = cluster.next_s
    cluster.advance_fragments()
    assert {fragment.node for fragment in cluster.lent.ended} == {"n1", "n2"}
    assert cluster.has_freed_nodes
    cluster.act(Lend("a", ("n2",), (600.0,)), None)
    assert not cluster.has_freed_nodes
