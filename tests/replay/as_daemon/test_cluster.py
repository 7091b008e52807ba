"""What becomes of orders on a site of a log."""

from __future__ import annotations

from freetrain.core.plan import Lend
from freetrain.replay.as_daemon.cluster import SimulatedCluster
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.as_daemon.timing import Timing
from tests.replay.as_daemon.test_driver import TRAINER, rules, site


def test_slurm_counts_time_limits_in_minutes_and_knows_none_shorter() -> None:
    cluster = SimulatedCluster(LoggedSite(*site(), "freetrain"), rules(), Timing(), "throughput", 0.0)
    cluster.admit(TRAINER)
    cluster.act(Lend("a", ("n1", "n2", "n3"), (-5.0, 100.0, 180.0)), None)
    assert [one.limit_s for one in cluster.lent.open] == [60.0, 60.0, 180.0]
