"""Lending pauses by itself: when it begins, who hears of it, and when it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.core.fragment import End
from freetrain.core.harm import Harm
from freetrain.daemon.reports.metrics import Metrics
from freetrain.lending.back_off import Cause
from freetrain.store.store import Store
from tests.daemon.training import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(
        tmp_path, Store.open(tmp_path / "freetrain.db"), harm={"evictions": 3, "within": 600.0, "pause": 900.0}
    )


def evict(site: Site, nodes: int) -> None:
    """A job of the site's takes so many lent nodes, and ends at once."""
    site.slurm.finish(site.slurm.submit(nodes=nodes))


def lend_all(site: Site) -> str:
    array = site.slurm.submit_array("freetrain:min=1", tasks=8)
    site.look(2)
    assert len(site.slurm.running(array)) == 8
    return array


def test_more_evictions_than_tolerated_end_all_lending_until_the_pause_is_over(site: Site) -> None:
    with site.daemon() as daemon:
        array = lend_all(site)
        evict(site, 3)
        site.look(2)
        assert len(site.slurm.running(array)) == 8, "three are tolerated"
        evict(site, 1)
        evicted_s = site.slurm.now_s
        site.look(2)
        assert site.store.ledger().ends_by_trainer([array])[array][End.PREEMPTED] == 4
        assert site.slurm.running(array) == []
        assert daemon.judgement is not None
        assert daemon.judgement.back_off is not None
        assert daemon.judgement.back_off.until_s == pytest.approx(evicted_s + 900.0, abs=1.0)
        site.slurm.now_s = evicted_s + 890.0
        site.look()
        assert site.slurm.running(array) == []
        site.slurm.now_s = evicted_s + 900.0
        site.look(2)
        assert len(site.slurm.running(array)) == 8


def test_it_is_said_once_in_log_and_audit_and_so_is_its_end(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), site.daemon():
        lend_all(site)
        evict(site, 4)
        site.look(3)
        site.slurm.now_s += 1000.0
        site.look(2)
    records = [record for record in caplog.records if record.name.endswith(".look_log")]
    messages = [record.message for record in records if "back" in record.message]
    began = "backing off until 1970-01-12T14:01:50Z: Slurm evicted more fragments than harm.evictions"
    assert messages == [
        f"nothing is lent, and what is lent is given back: {began}",
        "the back-off has ended",
    ]
    audit = [(row.actor, row.result) for row in site.store.ledger().commands() if row.why == "back off"]
    assert audit == [("daemon", began), ("daemon", "ended")]


def test_status_and_metrics_name_the_cause(site: Site) -> None:
    metrics = Metrics()
    with site.daemon() as daemon:
        lend_all(site)
        evict(site, 4)
        decisions = site.look()
        assert daemon.judgement is not None
        look = daemon.last_look(0.1)
        assert look.stopped_by.startswith("backing off until ")
        metrics.looked(daemon.judgement, look, decisions, daemon.end_counts, acts=True)
    told = {cause: metrics.registry.get_sample_value("freetrain_backs_off", {"cause": cause}) for cause in Cause}
    assert told == {Cause.DELAYS: 0, Cause.EVICTIONS: 1, Cause.LOST_NODES: 0}


def test_evictions_of_before_a_restart_count(site: Site) -> None:
    with site.daemon():
        array = lend_all(site)
        evict(site, 3)
        site.look(2)
    with site.daemon():
        evict(site, 1)
        site.look(2)
        assert site.slurm.running(array) == []


def test_delays_of_before_a_restart_count(site: Site) -> None:
    for number in range(20):
        started_s = site.slurm.now_s - number
        site.store.ledger().record_harm(Harm(str(number), started_s, 9999.0, 0.0, 0.0, ("7_1",)))
    with site.daemon() as restarted:
        site.look()
        assert restarted.judgement is not None
        assert restarted.judgement.back_off is not None
        assert restarted.judgement.back_off.cause is Cause.DELAYS


def test_limits_that_allow_what_happened_end_it_at_once(site: Site) -> None:
    with site.daemon() as daemon:
        array = lend_all(site)
        evict(site, 4)
        site.look(2)
        assert site.slurm.running(array) == []
        generous = daemon._config.harm.model_copy(update={"evictions": 10})
        daemon.change(daemon._config.model_copy(update={"harm": generous}))
        site.look(2)
        assert len(site.slurm.running(array)) == 8
