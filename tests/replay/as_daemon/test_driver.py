"""The daemon's judge and loop on a site as its log tells it."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf

import numpy as np
import polars as pl
import pytest

from freetrain.config import Config
from freetrain.core.holes import Holes, find_holes
from freetrain.core.plan import Lend, Release
from freetrain.core.power import PowerDraw
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.daemon.rules import rules_of
from freetrain.lending.rules import Rules
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.driver import DaemonReplay, SimulatedCluster
from freetrain.replay.as_daemon.lent import Timing, Wakes
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.logs import LoggedJobs
from freetrain.slurm.settings import SlurmSettings

NAMES = ("n1", "n2", "n3", "n4")
TRAINER = Trainer("a", ((1, 10.0), (4, 40.0)), scale_up_s=0.0, scale_down_s=0.0)
SETTINGS = SlurmSettings("site", "22.05", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
LEND = {"margin": "10s", "shortest_hole": "20s"}
Row = tuple[float, float, float, float, tuple[int, ...]]
"""Submission, start, end, limit, nodes of a job."""


def rules(**lend: object) -> Rules:
    found = rules_of(Config.model_validate({"lend": {**LEND, **lend}}), SETTINGS)
    return replace(found, nodes=replace(found.nodes, idle_for_s=0.0, cool_down_s=0.0))


def site(*rows: Row, until_s: float = 2000.0) -> tuple[Holes, LoggedJobs]:
    submit_s, start_s, end_s, limit_s = (np.array([row[column] for row in rows], float) for column in range(4))
    count = [len(row[4]) for row in rows]
    busy = np.array([node for row in rows for node in row[4]], np.int32)
    holes = find_holes(NAMES, busy, np.repeat(start_s, count), np.repeat(end_s, count), 0.0, until_s)
    ids, partition = pl.Series([str(number) for number in range(len(rows))]), np.zeros(len(rows), np.int32)
    begin = np.cumsum([0, *count])
    return holes, LoggedJobs(ids, ("main",), partition, submit_s, start_s, end_s, limit_s, begin, busy)


def replayed(
    holes: Holes, logged: LoggedJobs | None, timing: Timing | None = None, **lend: object
) -> tuple[ReplayRecord, float]:
    goal = Goal.of(find_policy("freetrain"), "throughput")
    record = DaemonReplay(
        holes, logged, ReplaySetup([TRAINER], goal, time.perf_counter), rules(**lend), timing or Timing()
    ).run()
    assert record.site_impact is not None
    return record, record.site_impact.lent_node_s


def test_idle_nodes_are_lent_at_a_look_and_train_when_they_have_booted() -> None:
    holes, logged = site((0.0, 0.0, 2000.0, 2000.0, (0, 1)))
    record, lent_node_s = replayed(holes, logged)
    assert lent_node_s == pytest.approx(2 * (2000.0 - 1.3))
    assert record.runs[0].node_s == pytest.approx(2 * (2000.0 - 1.3 - 8.0))


def test_trainers_get_nodes_of_their_kinds() -> None:
    holes, logged = site((0.0, 0.0, 2000.0, 2000.0, ()))
    holes = replace(holes, kind_of=dict(zip(NAMES, ("new", "old", "old", "old"), strict=True)))
    trainers = [
        replace(TRAINER, id=kind, choices=(KindChoice((kind,), speed),))
        for kind, speed in (("new", 1.0), ("old", 0.5))
    ]
    goal = Goal.of(find_policy("freetrain"), "throughput")
    record = DaemonReplay(holes, logged, ReplaySetup(trainers, goal, time.perf_counter), rules(), Timing()).run()
    assert {run.trainer.id: run.nodes for run in record.runs} == {"new": {"n1"}, "old": {"n2", "n3", "n4"}}
    assert [run.rate for run in record.runs] == [10.0, 15.0]


def test_a_job_that_starts_at_once_waits_for_slurm_to_evict() -> None:
    holes, logged = site((700.0, 700.0, 900.0, 300.0, (0, 1, 2, 3)))
    record, _ = replayed(holes, logged)
    assert record.site_impact is not None
    assert record.site_impact.delays_s == (1.0,)
    assert record.runs[0].evicted_nodes == 4


def test_a_job_that_is_known_to_start_finds_its_nodes_free() -> None:
    """It waits for one that ends at its limit, so its start is known; the other nodes are given back before."""
    rows = (0.0, 0.0, 600.0, 600.0, (0, 1)), (10.0, 600.0, 900.0, 600.0, (0, 1, 2, 3))
    record, lent_node_s = replayed(*site(*rows))
    assert record.site_impact is not None
    assert record.site_impact.delays_s == ()
    assert 2 * 500 < lent_node_s < 2 * 600 + 4 * 1100


def test_an_idle_node_that_goes_down_is_no_start_of_the_sites() -> None:
    """Nobody waits for it; the training loses it unasked, and has it again when it is back."""
    down = site((800.0, 800.0, 1000.0, 300.0, (3,)), (1500.0, 1500.0, 1600.0, 300.0, (0,)))[0]
    _, logged = site((1500.0, 1500.0, 1600.0, 300.0, (0,)))
    record, lent_node_s = replayed(down, logged)
    assert record.site_impact is not None
    assert (record.site_impact.starts, record.site_impact.delays_s) == (1, (1.0,))
    assert record.runs[0].evicted_nodes == 2
    assert lent_node_s == pytest.approx(4 * (2000.0 - 1.3) - 2 * 1.3 - 200.0 - 100.0, abs=20.0)


def test_without_jobs_in_the_log_only_idle_nodes_are_known() -> None:
    holes, _ = site((0.0, 0.0, 500.0, 600.0, (0, 1, 2)), (800.0, 800.0, 2000.0, inf, (3,)))
    record, lent_node_s = replayed(holes, None)
    assert record.site_impact is not None
    assert (record.site_impact.starts, record.site_impact.delays_s) == (1, (1.0,))
    assert lent_node_s == pytest.approx((800.0 - 1.3) + 3 * (1500.0 - 1.3))


def test_without_jobs_in_the_log_an_order_for_a_node_that_is_taken_before_is_called_off() -> None:
    """n4 is taken a second after the order, and lent at a look when it is idle again, not by the old order."""
    holes, _ = site((1.0, 1.0, 1500.0, inf, (3,)))
    record, lent_node_s = replayed(holes, None)
    assert lent_node_s == pytest.approx(3 * (2000.0 - 1.3) + (500.0 - 1.3))
    assert record.runs[0].evicted_nodes == 0


def test_a_wake_lends_sooner_than_a_poll() -> None:
    holes, logged = site((0.0, 0.0, 503.0, 600.0, (0, 1, 2, 3)))
    _, polled_s = replayed(holes, logged, Timing(poll_s=10.0))
    _, woken_s = replayed(holes, logged, Timing(poll_s=10.0, wakes=Wakes()))
    assert polled_s == pytest.approx(4 * (2000.0 - 509.0 - 1.3)), "a poll comes right before a backfill cycle"
    assert woken_s == pytest.approx(4 * (2000.0 - 503.4 - 1.3))


def test_a_job_finds_its_nodes_free_if_a_look_knows_it_before_it_starts() -> None:
    """A look knows of a submission after 0.7 s and empties nodes in 0.5 s; else Slurm takes a second."""
    woken = Timing(poll_s=10.0, wakes=Wakes())
    for starts_s, delays_s in ((702.0, []), (701.0, [0.2]), (700.5, [1.0])):
        record, _ = replayed(*site((700.0, starts_s, 900.0, 300.0, (0, 1, 2, 3))), woken)
        assert record.site_impact is not None
        assert record.site_impact.delays_s == pytest.approx(delays_s)


def test_while_a_job_of_the_sites_waits_only_a_backfill_cycle_starts_fragments() -> None:
    """n3 is idle from 100 s on, the order reaches Slurm at 110.3 s; it has planned at 100 s, and does at 130 s."""
    running, waiting = (0.0, 0.0, 2000.0, 2000.0, (0, 1, 3)), (10.0, 2000.0, 3000.0, 600.0, (0, 1, 2, 3))
    rows = running, waiting, (0.0, 0.0, 100.0, 200.0, (2,))
    _, lent_node_s = replayed(*site(*rows, until_s=1000.0))
    assert lent_node_s == pytest.approx(1000.0 - 130.0)


def test_what_is_ordered_at_the_look_right_before_a_backfill_cycle_starts_with_it() -> None:
    """n3 is idle from 100 s on and n4 from 125 s on; a look at 129 s lends n4, and Slurm plans at 130 s."""
    running, waiting = (0.0, 0.0, 2000.0, 2000.0, (0, 1)), (10.0, 2000.0, 3000.0, 600.0, (0, 1, 2, 3))
    rows = running, waiting, (0.0, 0.0, 100.0, 200.0, (2,)), (0.0, 0.0, 125.0, 200.0, (3,))
    _, lent_node_s = replayed(*site(*rows, until_s=1000.0))
    assert lent_node_s == pytest.approx(2 * (1000.0 - 130.0))


def test_nodes_kept_for_a_job_that_does_not_start_are_lent_as_soon_as_it_is_believed_no_more() -> None:
    """It could start from 109 s on and is believed for 65 s; the poll at 179 s lends though nothing happened."""
    waiting = (5.0, 1500.0, 2000.0, 600.0, (0, 1, 2, 3))
    _, lent_node_s = replayed(*site((0.0, 0.0, 100.0, 200.0, (0, 1, 2, 3)), waiting))
    assert lent_node_s == pytest.approx(4 * (1500.0 - 180.0), abs=4.0)


def test_a_fragment_starts_as_soon_as_nobody_waits_any_more() -> None:
    """The job that waits from 10 s on starts at 115 s, before the next cycle."""
    running, waiting = (0.0, 0.0, 115.0, 2000.0, (0, 1, 3)), (10.0, 115.0, 2000.0, 1900.0, (0, 1, 3))
    _, lent_node_s = replayed(*site(running, waiting, (0.0, 0.0, 100.0, 200.0, (2,))))
    assert lent_node_s == pytest.approx(2000.0 - 115.0)


def test_plans_and_what_was_learned_are_compared_with_the_log() -> None:
    """The job that waits for the first one's end starts at its limit, as it was planned from 10 s on."""
    rows = (0.0, 0.0, 1800.0, 1800.0, (0, 1)), (10.0, 1800.0, 2400.0, 600.0, (0, 1, 2, 3))
    record, _ = replayed(*site(*rows, until_s=3000.0))
    planned = record.forecast.planned
    assert sum(error.forecasts for error in planned) == 4, "of two nodes, at two times"
    assert all(error.off_s < 60.0 < error.expected_s for error in planned)
    assert record.forecast.calibration


def test_what_is_learned_is_the_same_with_a_horizon_that_is_learned_and_one_that_is_given() -> None:
    rows = [(100.0 * number, 100.0 * number, 100.0 * number + 60, 100.0, (number % 4,)) for number in range(18)]
    goal, learning = Goal.of(find_policy("freetrain"), "throughput"), replace(rules(), horizon_s=0.0)
    scores = [
        DaemonReplay(*site(*rows), ReplaySetup([TRAINER], goal, time.perf_counter), each, Timing()).run().forecast
        for each in (replace(rules(), horizon_s=600.0), learning)
    ]
    assert scores[0].calibration == scores[1].calibration


def test_a_trainer_that_cannot_run_takes_nobodys_place() -> None:
    holes, logged = site((0.0, 0.0, 2000.0, 2000.0, (0, 1)))
    large = replace(TRAINER, id="large", throughput=((8, 80.0),), min_nodes=8)
    goal = Goal.of(find_policy("freetrain"), "throughput")
    for_one = replace(rules(), sharing=replace(rules().sharing, max_running=1))
    record = DaemonReplay(
        holes, logged, ReplaySetup([large, TRAINER], goal, time.perf_counter), for_one, Timing()
    ).run()
    assert [(run.trainer.id, run.samples > 0) for run in record.runs] == [("large", False), ("a", True)]


def test_the_same_replay_comes_out_the_same() -> None:
    rows = (
        (0.0, 0.0, 600.0, 700.0, (0, 1)),
        (10.0, 620.0, 900.0, 600.0, (0, 1, 2, 3)),
        (1000.0, 1000.0, 1100.0, 200.0, (2,)),
    )
    first, second = (replayed(*site(*rows))[0] for _ in range(2))
    assert first.site_impact == second.site_impact
    assert [run.samples for run in first.runs] == [run.samples for run in second.runs]


def test_that_the_logs_jobs_waited_for_reasons_unknown_does_not_end_lending() -> None:
    """Each could have started at once, and started when nobody believed any more that it waits for nodes."""
    rows = [(200.0 * k, 200.0 * k + 120, 200.0 * k + 130, 60.0, (3,)) for k in range(20)]
    record, lent_node_s = replayed(*site(*rows, until_s=4000.0))
    assert record.site_impact is not None
    assert max(record.site_impact.delays_s, default=0.0) <= 1.0
    assert lent_node_s > 0.75 * 3600.0 * record.holes.idle_node_hours


def replayed_for(trainers: list[Trainer], objective: str = "throughput", **lend: object) -> ReplayRecord:
    """Four idle nodes for 2,000 s; n1 is dear."""
    holes, logged = site((0.0, 0.0, 2000.0, 2000.0, ()))
    holes = replace(holes, kind_of=dict.fromkeys(NAMES, "cheap") | {"n1": "dear"})
    found = replace(rules(**lend), objective=objective, draw=PowerDraw(0.0, {"cheap": 1000.0, "dear": 4000.0}))
    goal = Goal.of(find_policy("freetrain"), objective)
    return DaemonReplay(holes, logged, ReplaySetup(trainers, goal, time.perf_counter), found, Timing()).run()


def test_trainers_that_name_owners_and_accounts_share_as_the_site_says() -> None:
    people = (("ann", "vision"), ("ben", "vision"), ("cat", "language"))
    trainers = [replace(TRAINER, id=owner, owner=owner, account=account) for owner, account in people]
    equal, by_account = (
        {run.trainer.id: len(run.nodes) for run in replayed_for(trainers, **lend).runs}
        for lend in ({}, {"fair_share": "account", "shares": {"language": 3.0}})
    )
    assert sorted(equal.values()) == [1, 1, 2]
    assert by_account["cat"] == 3


def test_past_use_counts_in_a_replay_too() -> None:
    """Ann had all three nodes for two hours, so ben, who comes then, gets two of them."""
    holes, logged = site((0.0, 0.0, 9000.0, 9000.0, ()), until_s=9000.0)
    ann = replace(TRAINER, id="ann", owner="ann", throughput=((1, 10.0), (3, 30.0)))
    late = replace(ann, id="ben", owner="ben", submitted_s=7000.0)
    trainers, three = [ann, late], rules(exclude_nodes="n4", half_life=3600)
    goal = Goal.of(find_policy("freetrain"), "throughput")
    record = DaemonReplay(holes, logged, ReplaySetup(trainers, goal, time.perf_counter), three, Timing()).run()
    assert {run.trainer.id: len(run.nodes) for run in record.runs} == {"ann": 1, "ben": 2}


def test_nodes_that_take_too_much_stay_idle_and_what_the_others_take_is_counted() -> None:
    free = replayed_for([TRAINER])
    (run,) = free.runs
    assert run.joules == pytest.approx(run.node_s * (3 * 1000.0 + 4000.0) / 4)
    # A node does 10 samples/s: at 1 kW 3.6e4 to a kWh, at 4 kW 9e3.
    (run,) = replayed_for([TRAINER], "throughput,energy=2e4").runs
    assert run.nodes == {"n2", "n3", "n4"}
    assert run.joules == pytest.approx(run.node_s * 1000.0)


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
