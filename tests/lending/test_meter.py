"""How late a job starts, beside when it would have started if nothing were lent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.harm import Harm
from freetrain.core.job import Job, JobState
from freetrain.core.node import Partition
from freetrain.lending.facts import Facts
from freetrain.lending.meter import Meter
from freetrain.lending.rules import HarmRules, NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow
from tests.facts import node

NOW_S = 1000.0
LIMITS = HarmRules(delay_s=60.0, within_s=3600.0, allowed=2, pause_s=600.0)
RULES = NodeRules(FragmentQueue("freetrain"), claim_s=65.0)
WAITING = Job("9", "9", "games", "main", JobState.PENDING, submitted_s=990.0)
LENT = Fragment("7_1", "7", "n1", FragmentState.RUNNING, 500.0, 3600.0, 501.0)
ENDED = replace(LENT, state=FragmentState.ENDED, end=End.RELEASED)
SITES = Job("8", "8", "games", "main", JobState.RUNNING, nodes=frozenset({"n2"}), start_s=100.0)


def facts(at_s: float, *jobs: Job, ended: Fragment | None = None, last_plan_s: float | None = None) -> Facts:
    partitions = {name: Partition(name, frozenset({"n1", "n2"})) for name in ("main", "freetrain")}
    found = Snapshot(at_s, (node("n1"), node("n2")), jobs, partitions=partitions)
    open_, over = ((), (ended,)) if ended else ((LENT,), ())
    return Facts(found, fragments=open_, ended=over, last_plan_s=last_plan_s, leaving_bound_s=0.0)


def could_start(at_s: float, by_backfill: bool = False) -> Shadow:
    return Shadow(at_s, (PlannedStart("9", at_s, frozenset({"n1"}), by_backfill),), frozenset({"9"}))


def cannot_start(at_s: float) -> Shadow:
    return Shadow(at_s, (), frozenset())


def started(at_s: float) -> Job:
    return replace(WAITING, state=JobState.RUNNING, nodes=frozenset({"n1"}), start_s=at_s)


def measured(*looks: tuple[Facts, Shadow]) -> tuple[Harm, ...]:
    meter = Meter()
    for found, shadow in looks:
        meter = meter.after(found, shadow, (), RULES, LIMITS)
    return meter.harms


def test_a_delay_counts_from_the_submission_and_is_told_apart() -> None:
    (harm,) = measured(
        (facts(988.0), cannot_start(988.0)),
        (facts(993.0, WAITING), could_start(993.0)),
        (facts(1003.0, started(1001.0), ended=replace(ENDED, ended_s=996.0)), cannot_start(1003.0)),
    )
    assert (harm.job, harm.delay_s, harm.fragments) == ("9", 11.0, ("7_1",))
    assert (harm.unnoticed_s, harm.leaving_s, harm.window_s) == (3.0, 3.0, 5.0)


def test_it_counts_from_the_end_of_the_job_that_made_it_possible() -> None:
    over = replace(SITES, state=JobState.COMPLETED, end_s=999.0)
    (harm,) = measured(
        (facts(996.0, WAITING, SITES), cannot_start(996.0)),
        (facts(1001.0, WAITING, over), could_start(1001.0)),
        (facts(1006.0, started(1003.0), over, ended=replace(ENDED, ended_s=1002.0)), cannot_start(1006.0)),
    )
    assert (harm.delay_s, harm.unnoticed_s) == (4.0, 2.0)


@pytest.mark.parametrize(("last_plan_s", "delay_s"), [(980.0, 0.0), (973.0, 6.0)])
def test_who_stands_behind_another_would_have_waited_for_the_next_backfill_cycle(
    last_plan_s: float, delay_s: float
) -> None:
    seen = facts(993.0, WAITING, last_plan_s=last_plan_s)
    (harm,) = measured(
        (facts(988.0), cannot_start(988.0)),
        (seen, could_start(993.0, by_backfill=True)),
        (facts(1013.0, started(1009.0), ended=replace(ENDED, ended_s=995.0)), cannot_start(1013.0)),
    )
    assert harm.delay_s == delay_s


def test_what_backfill_would_have_done_counts_only_if_nothing_came_in_its_way_before() -> None:
    looks = [
        (facts(988.0), cannot_start(988.0)),
        (facts(993.0, WAITING, last_plan_s=965.0), could_start(993.0, by_backfill=True)),
    ]
    late = facts(1013.0, started(1009.0), ended=replace(ENDED, ended_s=980.0)), cannot_start(1013.0)
    before_the_cycle = facts(994.0, WAITING, last_plan_s=965.0)
    assert measured(*looks, (before_the_cycle, cannot_start(994.0)), late) == ()
    after_it = facts(996.0, WAITING, last_plan_s=965.0)
    lost = facts(999.0, WAITING, last_plan_s=995.0), cannot_start(999.0)
    (harm,) = measured(*looks, (after_it, could_start(996.0, by_backfill=True)), lost, late)
    assert harm.delay_s == 14.0, "from the cycle at 995 on, whoever has taken its nodes since"


def test_between_two_looks_it_counts_from_the_moment_when_only_fragments_were_in_the_way() -> None:
    preempted = replace(ENDED, end=End.PREEMPTED, ended_s=1004.0)
    before = facts(988.0), cannot_start(988.0)
    (harm,) = measured(before, (facts(1008.0, started(1005.0), ended=preempted), cannot_start(1008.0)))
    assert harm.delay_s == 15.0, "from its submission on"
    over = replace(SITES, state=JobState.COMPLETED, nodes=frozenset({"n1"}), end_s=1003.0)
    (harm,) = measured(before, (facts(1008.0, started(1005.0), over, ended=preempted), cannot_start(1008.0)))
    assert harm.delay_s == 2.0, "from the end of the job that had the node, too"
    waiting = facts(998.0, WAITING), cannot_start(998.0)
    (harm,) = measured(before, waiting, (facts(1008.0, started(1005.0), ended=preempted), cannot_start(1008.0)))
    assert harm.delay_s == 7.0, "from the last look on, at which it could not start yet"


def test_a_fragment_of_whose_end_accounting_does_not_know_yet_had_left_when_the_job_started() -> None:
    lost = replace(LENT, state=FragmentState.LOST)
    before = facts(988.0), cannot_start(988.0)
    starts = replace(facts(1008.0, started(1005.0)), fragments=(lost,)), cannot_start(1008.0)
    (harm,) = measured(before, (facts(993.0, WAITING), could_start(993.0)), starts)
    assert (harm.unnoticed_s, harm.leaving_s, harm.window_s) == (3.0, 12.0, 0.0)
    (harm,) = measured(before, starts)
    assert (harm.delay_s, harm.fragments) == (15.0, ("7_1",)), "no look saw the job waiting"
    other = replace(SITES, nodes=frozenset({"n1"}), start_s=996.0)
    missed = replace(facts(997.0, WAITING, other), fragments=(lost,)), cannot_start(997.0)
    over = replace(other, state=JobState.COMPLETED, end_s=1005.0)
    later = replace(facts(1008.0, started(1005.0), over), fragments=(lost,)), cannot_start(1008.0)
    assert [harm.job for harm in measured(before, missed, later)] == ["8"], "another job has had the node since"


def test_a_fragment_that_left_for_another_job_was_in_nobody_elses_way() -> None:
    between = replace(SITES, nodes=frozenset({"n1"}), state=JobState.COMPLETED, start_s=996.0, end_s=1005.0)
    before = facts(988.0), cannot_start(988.0)
    gone = facts(997.0, WAITING, ended=replace(ENDED, ended_s=995.0)), cannot_start(997.0)
    assert measured(before, gone, (facts(1008.0, started(1005.0), between), cannot_start(1008.0))) == ()


def test_in_the_very_second_of_a_backfill_cycle_half_an_interval_counts() -> None:
    (harm,) = measured(
        (facts(988.0), cannot_start(988.0)),
        (facts(990.7, WAITING, last_plan_s=990.0), could_start(990.7, by_backfill=True)),
        (facts(1008.0, WAITING, last_plan_s=990.0), could_start(1008.0, by_backfill=True)),
        (facts(1023.0, started(1020.0), ended=replace(ENDED, ended_s=1009.0)), cannot_start(1023.0)),
    )
    assert harm.delay_s == 15.0, "its cycle was at 990 or, as probably, at 1020"


def test_who_does_not_start_at_a_cycle_that_finds_its_nodes_free_waits_for_something_else() -> None:
    looks = [
        (facts(988.0), cannot_start(988.0)),
        (facts(993.0, WAITING, last_plan_s=965.0), could_start(993.0)),
        (facts(998.0, WAITING, ended=replace(ENDED, ended_s=996.0), last_plan_s=995.0), could_start(998.0)),
    ]
    late = facts(1043.0, started(1040.0)), cannot_start(1043.0)
    passed_over = facts(1028.0, WAITING, ended=ENDED, last_plan_s=1025.0), could_start(1028.0)
    assert measured(*looks, passed_over, late) == ()
    overtaken = facts(1028.0, WAITING, ended=ENDED, last_plan_s=1025.0), cannot_start(1028.0)
    (harm,) = measured(*looks, overtaken, late)
    assert harm.delay_s == 50.0, "another has its nodes, which it would have had first"


def test_a_job_in_whose_way_no_fragment_was_is_not_measured() -> None:
    elsewhere = replace(ENDED, node="n2", ended_s=996.0)
    before = replace(ENDED, ended_s=980.0)
    for ended in (elsewhere, before):
        looks = (facts(988.0), cannot_start(988.0)), (facts(993.0, WAITING, ended=ended), could_start(993.0))
        assert measured(*looks, (facts(1003.0, started(1001.0)), cannot_start(1003.0))) == ()


def test_who_does_not_start_on_free_nodes_waits_for_something_else() -> None:
    (harm,) = measured(
        (facts(988.0), cannot_start(988.0)),
        (facts(993.0, WAITING), could_start(993.0)),
        (facts(9000.0, started(8990.0), ended=replace(ENDED, ended_s=996.0)), cannot_start(9000.0)),
    )
    assert harm.window_s == 65.0


def test_each_start_is_measured_once_and_none_from_before_the_first_look() -> None:
    over = replace(ENDED, ended_s=996.0)
    seen = facts(1003.0, started(1001.0), ended=over), cannot_start(1003.0)
    looks = (facts(988.0), cannot_start(988.0)), (facts(993.0, WAITING), could_start(993.0)), seen
    assert len(measured(*looks, seen)) == 1
    assert measured(seen, seen) == ()
