"""Where nodes are lent in parts: who starts later, and who starts after one more end."""

from __future__ import annotations

from dataclasses import replace

from freetrain.core.amounts import Amount
from freetrain.core.fragment import End, FragmentState
from freetrain.core.job import Job, JobState
from freetrain.core.place import node_of
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.rules import Rules
from tests.lending.test_parts_of_nodes import (
    NO_GPU,
    NOW_S,
    ONE_GPU,
    RULES,
    gpu_node,
    judged,
    lent,
    places,
    request,
    snapshot,
    waiting_job,
)

KEEPS_FOR_NEXT: Rules = replace(RULES, nodes=replace(RULES.nodes, next_within_s=60.0))


def gpus(count: int, cpus: int = 1) -> Amount:
    return Amount(cpus, 10, (("gpu", count),))


def runs(id_: str, names: str, has: Amount | None, left_s: float, age_s: float = 500.0) -> Job:
    return Job(
        id_, id_, "games", "main", JobState.RUNNING, nodes=frozenset(names.split()), start_s=NOW_S - age_s,
        end_s=NOW_S + left_s, asks=has,
    )  # fmt: skip


def until_s(found: Judgement) -> dict[str, float | None]:
    """Offered place → when its hole ends, from now on."""
    ends = {place.name: place.until_s for place in found.offers.offered}
    return {name: None if end_s is None else end_s - NOW_S for name, end_s in ends.items()}


def test_a_job_that_starts_later_on_a_part_ends_the_holes_of_what_does_not_fit_beside_it() -> None:
    """It wants five GPUs of eight; of the three that are lent now two may stay, and so may no new one."""
    site = [runs("5", "n1", gpus(4), 100.0), runs("6", "n1", gpus(1), 9000.0)]
    seen = snapshot(gpu_node("n1", 8, 400, 8), jobs=[*site, waiting_job(gpus(5))])
    found = judged(seen, request("7", ONE_GPU), lent_parts=[lent("n1", number) for number in range(3)])
    assert until_s(found) == {"n1#7_0": None, "n1#7_1": None, "n1#7_2": 90.0, "n1#": 90.0}
    assert [plan.beside["n1"].gpus for plan in found.shadow.plans] == [2]


def test_at_its_time_only_that_is_given_back() -> None:
    site = [runs("5", "n1", gpus(4), 5.0), runs("6", "n1", gpus(1), 9000.0)]
    seen = snapshot(gpu_node("n1", 8, 400, 8), jobs=[*site, waiting_job(gpus(5))])
    found = judged(seen, request("7", ONE_GPU), lent_parts=[lent("n1", number) for number in range(3)])
    assert found.offers.due == {"n1#7_2": "job 9 is to start here"}
    assert found.offers.withheld == {"n1": "job 9 is to start here"}
    assert len(places(found, "7")) == 2


def test_a_new_part_is_dealt_until_the_first_who_wants_any_of_its_node() -> None:
    site = [runs("5", "n1", gpus(4), 100.0), runs("6", "n1", gpus(1), 9000.0)]
    seen = snapshot(gpu_node("n1", 7, 400, 7), jobs=[*site, waiting_job(gpus(5))])
    found = judged(seen, request("7", ONE_GPU), lent_parts=[lent("n1", 0), lent("n1", 1)])
    assert sorted(found.limit_s(name) for name in found.hole_ends_s if "+" in name) == [60.0]


def test_where_slurm_has_planned_it_sooner_the_same_may_stay_beside_it() -> None:
    site = [runs("5", "n1", gpus(4), 100.0), runs("6", "n1", gpus(1), 9000.0)]
    planned = waiting_job(gpus(5), start_s=NOW_S + 60.0, planned_nodes=frozenset({"n1"}))
    seen = snapshot(gpu_node("n1", 8, 400, 8), jobs=[*site, planned])
    found = judged(seen, request("7", ONE_GPU), lent_parts=[lent("n1", number) for number in range(3)])
    assert until_s(found) == {"n1#7_0": None, "n1#7_1": None, "n1#7_2": 50.0, "n1#": 50.0}


def test_of_a_job_that_wants_a_whole_node_nothing_stays_beside() -> None:
    seen = snapshot(gpu_node("n1", 3, 100, 3), jobs=[runs("5", "n1", gpus(2), 100.0), waiting_job(None)])
    found = judged(seen, request("7", ONE_GPU), lent_parts=[lent("n1", 0)])
    assert until_s(found) == {"n1#7_0": 90.0, "n1#": 90.0}


def test_nothing_is_kept_for_who_starts_on_a_part_after_one_more_end() -> None:
    """Six of eight GPUs are wanted, a young job has three and an old one one."""
    site = [runs("5", "n1", gpus(3), 900.0, age_s=10.0), runs("6", "n1", gpus(1), 9000.0, age_s=5000.0)]
    seen = snapshot(gpu_node("n1", 8, 400, 8), jobs=[*site, waiting_job(gpus(6))])
    parts = [lent("n1", number) for number in range(4)]
    assert judged(seen, request("7", ONE_GPU), lent_parts=parts, rules=KEEPS_FOR_NEXT).offers.due == {}


def test_whole_nodes_of_the_next_are_kept_when_the_last_job_on_them_is_about_to_end() -> None:
    young, old = (runs("4", "n1", gpus(2), 900.0, 10.0), runs("5", "n1", gpus(1), 9000.0, 5000.0))
    both = snapshot(gpu_node("n1", 3, 400, 3), jobs=[young, old, waiting_job(None)])
    assert len(places(judged(both, request("7", ONE_GPU), rules=KEEPS_FOR_NEXT), "7")) == 5
    last = snapshot(gpu_node("n1", 2, 400, 2), jobs=[young, waiting_job(None)])
    found = judged(last, request("7", ONE_GPU), rules=KEEPS_FOR_NEXT)
    assert places(found, "7") == []
    assert {node_of(name) for name in found.offers.withheld} == {"n1"}


def idle_units(found: Judgement) -> set[str]:
    return set(found.memory.stays.since_s)


def test_how_long_gpus_stay_idle_is_learned_of_those_that_the_site_leaves_lent_or_not() -> None:
    parts = [lent("n1", 1), lent("n1", 2, state=FragmentState.ASKED), lent("n1", 3, state=FragmentState.LEAVING)]
    seen = snapshot(gpu_node("n1", 9, 400, 5), jobs=[runs("5", "n1", gpus(3), 900.0)])
    found = judged(seen, request("7", ONE_GPU), lent_parts=parts)
    assert idle_units(found) == {f"n1/{number}" for number in range(5)}


def test_of_a_node_without_gpus_eighths_of_its_cpus_are_learned_of() -> None:
    seen = snapshot(gpu_node("n1", 30, 100, gres=()), jobs=[runs("5", "n1", Amount(30, 100), 900.0)])
    assert idle_units(judged(seen, request("7", NO_GPU))) == {f"n1/{number}" for number in range(4)}


def test_only_what_gives_way_to_a_job_is_in_its_way() -> None:
    parts = [lent("n1", number) for number in range(8)]
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[waiting_job(gpus(2))])
    found = judged(seen, request("7", ONE_GPU), lent_parts=parts)
    expected = found.memory.meter.expected["9"]
    assert {f"n1#{job}" for job in expected.fragments} == found.offers.due.keys()

    gone = [
        replace(fragment, state=FragmentState.ENDED, end=End.RELEASED, ended_s=NOW_S + 1) for fragment in parts
    ]
    started = replace(
        waiting_job(gpus(2)), state=JobState.RUNNING, nodes=frozenset({"n1"}), start_s=NOW_S + 2, end_s=NOW_S + 99
    )
    later = replace(snapshot(gpu_node("n1", 2, 100, 2), jobs=[started]), time_s=NOW_S + 3)
    facts = Facts(later, (), tuple(gone), (request("7", ONE_GPU),))
    (harm,) = judge(facts, found.memory, RULES).memory.meter.new
    assert set(harm.fragments) == set(expected.fragments), "the others left for other reasons"


def test_where_slurm_alone_has_planned_it_what_fits_beside_it_now_may_stay() -> None:
    """The shadow has it start on n2, and sooner."""
    site = [runs("5", "n1", gpus(2), 9000.0), runs("6", "n2", gpus(8), 100.0)]
    planned = waiting_job(gpus(7), start_s=NOW_S + 200.0, planned_nodes=frozenset({"n1"}))
    small = waiting_job(gpus(4), "8", start_s=NOW_S + 60.0, planned_nodes=frozenset({"n1"}), priority=0)
    seen = snapshot(gpu_node("n1", 6, 400, 6), gpu_node("n2", 8, 400, 8), jobs=[*site, small, planned])
    parts = [lent("n1", number) for number in range(4)]
    found = judged(seen, request("7", ONE_GPU), lent_parts=parts)
    assert [until_s(found)[f"n1#7_{number}"] for number in range(4)] == [190.0] * 2 + [50.0] * 2
