"""What is known of plans while what the holes allow is replayed."""

from __future__ import annotations

import time
from dataclasses import replace

from freetrain.core.trainer import Trainer
from freetrain.loop.cycle import Goal, Journal, NullJournal
from freetrain.policies import find_policy
from freetrain.replay.course import ReplayRecord, ReplaySetup
from freetrain.replay.driver import Replay
from freetrain.replay.foresight import Foresight, Knowledge, SitePlans
from freetrain.replay.trainer_run import Loss
from tests.replay.as_daemon.test_driver import Row, site
from tests.replay.test_driver import Kept

TRAINER = Trainer("a", ((1, 10.0), (4, 40.0)), scale_up_s=0.0, scale_down_s=12.0, forced_loss_s=200.0)
AT_ITS_LIMIT: tuple[Row, ...] = (0.0, 0.0, 600.0, 600.0, (0, 1)), (10.0, 600.0, 900.0, 600.0, (0, 1, 2, 3))
"""A job ends at its limit, and one that has waited since 10 s takes all nodes."""
EARLY: tuple[Row, ...] = (0.0, 0.0, 600.0, 9000.0, (0, 1)), (10.0, 600.0, 900.0, 600.0, (0, 1, 2, 3))
"""The same, but that the first one could have run much longer."""


NOWHERE = NullJournal()


def trained(
    rows: tuple[Row, ...], knows: Knowledge, journal: Journal = NOWHERE, trainer: Trainer = TRAINER
) -> ReplayRecord:
    holes, logged = site(*rows)
    goal = Goal.of(find_policy("freetrain"), "throughput")
    foresight = Foresight(1000.0, knows)
    setup = ReplaySetup([trainer], goal, time.perf_counter, journal=journal)
    return Replay(holes, setup, foresight, 1, logged).run()


def test_nodes_are_given_back_in_good_order_before_a_job_that_is_planned() -> None:
    (unknown,), (planned,) = (trained(AT_ITS_LIMIT, knows).runs for knows in (Knowledge.LEARNED, Knowledge.PLAN))
    assert (unknown.lost_s[Loss.EVICTION], unknown.lost_s[Loss.EVICTION_PAUSE]) == (188.0, 12.0)
    assert (planned.lost_s[Loss.EVICTION], planned.lost_s[Loss.EVICTION_PAUSE]) == (0.0, 12.0)
    assert planned.samples > unknown.samples


def test_plans_are_compared_with_the_log() -> None:
    waits_at_once = (AT_ITS_LIMIT[0], (0.0, *AT_ITS_LIMIT[1][1:]))
    (planned,) = trained(waits_at_once, Knowledge.PLAN).forecast.planned
    assert (planned.forecasts, planned.expected_s, planned.off_s) == (2, 600.0, 0.0)
    assert trained(waits_at_once, Knowledge.LEARNED).forecast.planned == ()


def test_nobody_knows_beforehand_that_a_job_ends_before_its_limit() -> None:
    (planned,) = trained(EARLY, Knowledge.PLAN).runs
    assert planned.lost_s[Loss.EVICTION] == 188.0


def test_nodes_on_which_a_waiting_job_could_start_are_given_back_at_once_if_such_jobs_started_soon() -> None:
    """Two are submitted and start 20 s later. Who has seen the first is not evicted by the second."""
    rows: tuple[Row, ...] = (
        (100.0, 120.0, 200.0, 600.0, (0, 1, 2, 3)),
        (500.0, 520.0, 900.0, 600.0, (0, 1, 2, 3)),
    )
    (unknown,), (planned,) = (trained(rows, knows).runs for knows in (Knowledge.LEARNED, Knowledge.PLAN))
    assert (unknown.losses[Loss.EVICTION], planned.losses[Loss.EVICTION]) == (2, 1)
    assert planned.losses[Loss.SCALE_DOWN] == 1
    assert planned.node_s == unknown.node_s - 4 * 20.0


def test_nodes_are_not_given_back_for_a_job_that_could_start_where_an_eviction_costs_nothing() -> None:
    rows = ((500.0, 520.0, 900.0, 600.0, (0, 1, 2, 3)),)
    bold = replace(TRAINER, forced_loss_s=0.0)
    (unknown,), (planned,) = (
        trained(rows, knows, trainer=bold).runs for knows in (Knowledge.LEARNED, Knowledge.PLAN)
    )
    assert planned.node_s == unknown.node_s


def test_a_job_that_does_not_start_although_it_could_keeps_no_nodes_for_long() -> None:
    """Who waits for something else is not waited for; a look each 10 s."""
    holes, logged = site((0.0, 900.0, 1000.0, 600.0, (0, 1, 2, 3)))
    plans = SitePlans(holes, logged)
    kept = []
    for now_s in range(0, 200, 10):
        plans.site.advance(float(now_s))
        kept.append(sum(end_s <= now_s for end_s in plans.look(float(now_s)).values()))
    assert kept[:6] == [4] * 6
    assert kept[7:] == [0] * 13


def test_plans_never_tell_when_a_running_job_will_end() -> None:
    """Two logs that are alike until 600 s are decided alike until then."""
    late: tuple[Row, ...] = (0.0, 0.0, 800.0, 9000.0, (0, 1)), (10.0, 800.0, 900.0, 600.0, (0, 1, 2, 3))
    first, second = Kept(), Kept()
    trained(EARLY, Knowledge.PLAN, first)
    trained(late, Knowledge.PLAN, second)
    before = [[problem for problem, _ in kept.decisions if problem.now_s < 600.0] for kept in (first, second)]
    assert before[0] == before[1]
    assert len(before[0]) > 1
