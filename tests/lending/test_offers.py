from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Node, Partition, Reservation
from freetrain.core.place import Place
from freetrain.core.trainer import Trainer
from freetrain.lending.causes import Suspects, Suspicion
from freetrain.lending.facts import Facts
from freetrain.lending.hole_ends import in_few_classes
from freetrain.lending.judge import shadow_of
from freetrain.lending.memory import Memory
from freetrain.lending.node_verdicts import NodeContext, Offers, judge_nodes
from freetrain.lending.rules import NodeRules, PowerRules
from freetrain.lending.sightings import Sightings
from freetrain.slurm.states import waits_for
from tests.facts import node

NOW_S = 1_000_000.0
NAMES = frozenset(f"n{number}" for number in range(1, 7))
RULES = NodeRules(FragmentQueue("freetrain"), margin_s=60.0, shortest_hole_s=120.0, claim_s=60.0)
NOTHING_SEEN = Sightings()


def snapshot(
    *jobs: Job, nodes: dict[str, Node] | None = None, reservations: tuple[Reservation, ...] = ()
) -> Snapshot:
    changed = nodes or {}
    return Snapshot(
        NOW_S,
        tuple(changed.get(name, node(name)) for name in sorted(NAMES)),
        jobs,
        reservations,
        {name: Partition(name, NAMES) for name in ("main", "freetrain")},
    )


def main_job(id_: str, **facts: object) -> Job:
    return replace(Job(id_, id_, "games", "main", JobState.PENDING, submitted_s=NOW_S), **facts)  # type: ignore[arg-type]


def lent(node: str, trainer: str = "7") -> Fragment:
    return Fragment(f"{trainer}_{node[1:]}", trainer, node, FragmentState.RUNNING, NOW_S - 50, 3600.0, NOW_S - 49)


def offers_of(
    found: Snapshot,
    fragments: list[Fragment],
    rules: NodeRules = RULES,
    seen: Sightings = NOTHING_SEEN,
    memory: Memory | None = None,
) -> Offers:
    facts = Facts(found, tuple(fragments))
    return judge_nodes(NodeContext(facts, memory or Memory(seen), shadow_of(facts, rules, seen), rules))


def offered(answer: Offers) -> list[str]:
    return [node.name for node in answer.offered]


def test_nodes_that_slurm_powers_down_are_left_to_it() -> None:
    found = snapshot()
    spared = replace(RULES, power=PowerRules(frozenset({"n1", "n2"}), frozenset({"stays", "gone"})))
    stays = {**found.partitions, "stays": Partition("stays", frozenset({"n6"}))}
    answer = offers_of(replace(found, partitions=stays), [], spared)
    assert offered(answer) == ["n1", "n2", "n6"]
    assert answer.withheld["n3"] == "Slurm powers it down when idle"


def test_idle_nodes_are_offered_and_others_are_not() -> None:
    states = {
        "n2": node("n2", "ALLOCATED"),
        "n3": node("n3", "IDLE+DRAIN"),
        "n4": node("n4", "IDLE+SOMETHING_NEW"),
        "n5": node("n5", "DOWN+NOT_RESPONDING"),
    }
    answer = offers_of(snapshot(nodes=states), [])
    assert offered(answer) == ["n1", "n6"]
    assert answer.withheld["n4"] == "Slurm says IDLE+SOMETHING_NEW"
    assert answer.due == {}


def running_job(*names: str, until_s: float) -> Job:
    return main_job("3", state=JobState.RUNNING, nodes=frozenset(names), end_s=NOW_S + until_s)


def test_a_planned_job_ends_the_holes_of_its_nodes() -> None:
    waiting = main_job(
        "9", node_count=3, planned_nodes=frozenset({"n1", "n2", "n6"}), start_s=NOW_S + 600, features="big"
    )
    planned = {name: node(name, "IDLE+PLANNED", features=frozenset({"big"})) for name in ("n1", "n2", "n3")}
    busy = {"n6": node("n6", "ALLOCATED", features=frozenset({"big"}))}
    queue = (running_job("n6", until_s=900.0), replace(waiting, required_nodes=waiting.planned_nodes))
    answer = offers_of(snapshot(*queue, nodes=planned | busy), [])
    ends = {node.name: node.until_s for node in answer.offered}
    assert ends["n1"] == ends["n2"] == NOW_S + 540, "Slurm's plan is earlier than the shadow's"
    assert ends["n4"] is None
    assert "PLANNED" in answer.withheld["n3"]


def test_a_job_that_slurm_has_not_planned_yet_ends_the_holes_of_its_nodes_too() -> None:
    queue = (running_job("n6", until_s=900.0), main_job("9", node_count=6))
    answer = offers_of(snapshot(*queue, nodes={"n6": node("n6", "ALLOCATED")}), [])
    assert {node.until_s for node in answer.offered} == {NOW_S + 840}


def test_a_job_that_could_start_now_finds_its_nodes_whatever_slurm_has_planned_before() -> None:
    waiting = main_job("9", node_count=2, planned_nodes=frozenset({"n1", "n2"}), start_s=NOW_S + 600)
    fragments = [lent(name) for name in sorted(NAMES)]
    answer = offers_of(snapshot(waiting), fragments)
    assert answer.due == dict.fromkeys(("n1", "n2"), "job 9 could start here")


def test_a_reservation_empties_its_nodes_before_it_begins() -> None:
    soon = Reservation("maint", frozenset({"n1"}), NOW_S + 30, NOW_S + 3600)
    later = Reservation("other", frozenset({"n2", "n3"}), NOW_S + 150, NOW_S + 3600)
    answer = offers_of(snapshot(reservations=(soon, later)), [lent("n1"), lent("n2")])
    assert answer.due == {"n1": "reservation maint"}
    assert "n2" in offered(answer)
    assert answer.withheld["n3"] == "its hole ends in 90 s"


def test_a_waiting_job_that_could_start_gets_idle_nodes_first_then_those_of_the_largest_trainer() -> None:
    busy = {name: node(name, "ALLOCATED") for name in ("n1", "n2", "n3", "n4")}
    fragments = [lent("n1", "7"), lent("n2", "7"), lent("n3", "7"), lent("n4", "8")]
    answer = offers_of(snapshot(main_job("9", node_count=3), nodes=busy), fragments)
    assert answer.withheld == dict.fromkeys(("n5", "n6"), "job 9 could start here")
    assert len(answer.due) == 1
    assert set(answer.due) < {"n1", "n2", "n3"}


def test_a_job_whose_nodes_are_on_their_way_back_takes_no_others() -> None:
    leaving = replace(lent("n1"), state=FragmentState.LEAVING)
    fragments = [leaving, *(lent(name) for name in sorted(NAMES - {"n1"}))]
    answer = offers_of(snapshot(main_job("9")), fragments)
    assert answer.due == {}


def test_a_job_that_does_not_start_on_the_nodes_kept_for_it_keeps_them_no_longer() -> None:
    seen = replace(NOTHING_SEEN, fitting_since_s={"9": NOW_S - 61})
    answer = offers_of(snapshot(main_job("9")), [], RULES, seen)
    assert len(answer.offered) == 6


def test_a_queue_of_jobs_that_do_not_start_keeps_nodes_only_once() -> None:
    queue = [main_job(str(number), node_count=4) for number in range(10, 20)]
    since = {str(number): NOW_S - 61 for number in range(10, 20)}
    answer = offers_of(snapshot(*queue), [], RULES, replace(NOTHING_SEEN, fitting_since_s=since))
    assert len(offered(answer)) == 6
    newcomer = main_job("30", node_count=4)
    answer = offers_of(snapshot(*queue, newcomer), [], RULES, replace(NOTHING_SEEN, fitting_since_s=since))
    assert len(offered(answer)) == 2


def test_jobs_that_wait_for_something_else_claim_nothing() -> None:
    jobs = [
        main_job("1", waits_for=waits_for("Dependency")),
        main_job("2", waits_for=waits_for("JobHeldUser")),
        main_job("3", node_count=7),
        main_job("4", features="gpu"),
        main_job("5", waits_for=waits_for("QOSMaxNodePerUserLimit")),
    ]
    assert len(offers_of(snapshot(*jobs), []).offered) == 6


def test_a_node_that_does_not_answer_is_neither_offered_nor_given_back() -> None:
    away = {"n1": node("n1", "ALLOCATED+NOT_RESPONDING")}
    answer = offers_of(snapshot(nodes=away), [lent("n1")])
    assert "n1" not in offered(answer)
    assert answer.due == {}
    assert "NOT_RESPONDING" in answer.withheld["n1"]


def test_a_lent_node_whose_state_slurm_does_not_know_after_a_restart_is_left_alone() -> None:
    for state in (node("n1", "UNKNOWN"), node("n1", "ALLOCATED+NEWFANGLED")):
        answer = offers_of(snapshot(nodes={"n1": state}), [lent("n1")])
        assert "n1" not in answer.due
        assert "n1" in answer.withheld
        assert "n1" not in offered(answer)


def test_a_drained_node_and_one_with_a_job_of_the_site_are_given_back() -> None:
    running = main_job("9", state=JobState.RUNNING, nodes=frozenset({"n2"}))
    drained = {"n1": node("n1", "ALLOCATED+DRAIN"), "n2": node("n2", "MIXED")}
    answer = offers_of(snapshot(running, nodes=drained), [lent("n1"), lent("n2")])
    assert answer.due == {"n1": "Slurm says ALLOCATED+DRAIN", "n2": "job 9 runs here"}


def test_the_sites_reserve_is_taken_from_what_nobody_has() -> None:
    busy = {"n1": node("n1", "ALLOCATED")}
    answer = offers_of(snapshot(nodes=busy), [lent("n1")], replace(RULES, reserve_nodes=4))
    assert len(answer.offered) == 2
    assert "n1" in offered(answer)
    assert len(offers_of(snapshot(), [], replace(RULES, most_nodes=1)).offered) == 1


def test_nodes_on_which_programs_fail_are_the_first_of_the_reserve_and_use_up_no_limit() -> None:
    failed_on = {name: Suspicion(3, NOW_S + 600.0) for name in ("n1", "n2")}
    memory = Memory(suspects=Suspects(nodes=failed_on))
    two = replace(RULES, most_nodes=2)
    assert offered(offers_of(snapshot(), [], two, memory=memory)) == ["n3", "n4"]
    spared = offers_of(snapshot(), [], replace(RULES, reserve_nodes=3), memory=memory)
    assert len(spared.offered) == 3, "one more than the two that are kept free anyway"
    assert offered(spared) == ["n3", "n4", "n5"]


def test_nodes_kept_for_the_next_in_line_are_the_first_of_the_reserve_and_use_up_no_limit() -> None:
    waits = main_job("8", node_count=3, limit_s=600.0, required_nodes=frozenset({"n1", "n5", "n6"}))
    runs = main_job("9", state=JobState.RUNNING, nodes=frozenset({"n5", "n6"}), end_s=NOW_S + 400)
    busy = {name: node(name, "ALLOCATED") for name in ("n5", "n6")}
    rules = replace(RULES, next_within_s=600.0)
    found = snapshot(waits, runs, nodes=busy)
    assert offered(offers_of(found, [], rules)) == ["n2", "n3", "n4"]
    assert offered(offers_of(found, [], replace(rules, most_nodes=1))) == ["n2"]
    assert offered(offers_of(found, [], replace(rules, reserve_nodes=2))) == ["n2", "n3"]


def test_a_node_must_have_been_idle_for_a_while_and_rests_after_it_was_taken_back() -> None:
    seen = Sightings({"n1": NOW_S - 100, "n2": NOW_S - 5}, {"n3": NOW_S + 10}, {})
    answer = offers_of(snapshot(), [], replace(RULES, idle_for_s=30.0), seen)
    assert offered(answer) == ["n1"]
    assert "a moment ago" in offers_of(snapshot(), [], RULES, seen).withheld["n3"]


def lives_of(nodes: Sequence[Place], *trainers: Trainer) -> dict[str, float | None]:
    """In how many seconds each node is expected back, once the nodes are in few classes."""
    few = in_few_classes(nodes, NOW_S, 1200.0, trainers)
    return {place.name: None if place.until_s is None else place.until_s - NOW_S for place in few}


def leaving_in(*left_s: float) -> list[Place]:
    return [Place(f"n{number}", NOW_S + each) for number, each in enumerate(left_s, 1)]


def test_nodes_that_leave_at_about_the_same_time_are_given_the_mean_of_their_ends() -> None:
    first_eighth, second_eighth, second_half = (6.0, 60.0, 84.0), (180.0, 240.0, 240.0), (600.0, 1199.0)
    nodes = leaving_in(*first_eighth, *second_eighth, *second_half, 1200.0)
    means = [50.0] * 3 + [220.0] * 3 + [899.5] * 2
    assert [*lives_of(nodes).values()] == [*means, None]
    assert [*lives_of([Place("n1"), *leaving_in(-30.0, 20.0)[1:]]).values()] == [None, 20.0]


def test_an_end_that_is_past_counts_as_now() -> None:
    assert [*lives_of(leaving_in(-1000.0, 20.0)).values()] == [10.0, 10.0]


def test_a_node_that_is_gone_before_it_would_have_booted_is_told_from_others_that_leave_soon() -> None:
    quick, slow, at_once = (Trainer("a", ((1, 1.0),), boot_s=boot_s) for boot_s in (10.0, 40.0, 0.0))
    nodes = leaving_in(5, 10, 11, 40, 41, 80)
    assert [*lives_of(nodes, quick, slow, at_once).values()] == [7.5, 7.5, 25.5, 25.5, 60.5, 60.5]
    assert lives_of(nodes, at_once) == lives_of(nodes)


def test_every_node_of_the_partition_is_accounted_for() -> None:
    answer = offers_of(snapshot(main_job("9")), [lent("n1")])
    assert {*offered(answer), *answer.due, *answer.withheld} == NAMES
