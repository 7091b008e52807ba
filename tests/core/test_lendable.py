from __future__ import annotations

from dataclasses import replace

from freetrain.core.cluster import Job, JobState, Node, Partition, Reservation, Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.lendable import Lendable, LendingRules, Past, find_lendable, in_few_classes
from freetrain.core.problem import Offer

NOW_S = 1_000_000.0
NAMES = frozenset(f"n{number}" for number in range(1, 7))
RULES = LendingRules("freetrain", margin_s=60.0, shortest_hole_s=120.0, claim_s=60.0)
NO_PAST = Past({}, {}, {})


def snapshot(
    *jobs: Job, nodes: dict[str, Node] | None = None, reservations: tuple[Reservation, ...] = ()
) -> Snapshot:
    changed = nodes or {}
    return Snapshot(
        NOW_S,
        tuple(changed.get(name, Node(name, "IDLE")) for name in sorted(NAMES)),
        jobs,
        reservations,
        {name: Partition(name, NAMES) for name in ("main", "freetrain")},
    )


def main_job(id_: str, **facts: object) -> Job:
    return replace(Job(id_, id_, "games", "main", JobState.PENDING, submitted_s=NOW_S), **facts)  # type: ignore[arg-type]


def lent(node: str, trainer: str = "7") -> Fragment:
    return Fragment(f"{trainer}_{node[1:]}", trainer, node, FragmentState.RUNNING, NOW_S - 50, 3600.0, NOW_S - 49)


def offered(answer: Lendable) -> list[str]:
    return [node.name for node in answer.offered]


def test_idle_nodes_are_offered_and_others_are_not() -> None:
    states = {
        "n2": Node("n2", "ALLOCATED"),
        "n3": Node("n3", "IDLE", frozenset({"DRAIN"})),
        "n4": Node("n4", "IDLE", frozenset({"SOMETHING_NEW"})),
        "n5": Node("n5", "DOWN", frozenset({"NOT_RESPONDING"})),
    }
    answer = find_lendable(snapshot(nodes=states), [], RULES, NO_PAST)
    assert offered(answer) == ["n1", "n6"]
    assert answer.withheld["n4"] == "Slurm says IDLE+SOMETHING_NEW"
    assert answer.due == {}


def running_job(*names: str, until_s: float) -> Job:
    return main_job("3", state=JobState.RUNNING, nodes=frozenset(names), end_s=NOW_S + until_s)


def test_a_planned_job_ends_the_holes_of_its_nodes() -> None:
    waiting = main_job(
        "9", node_count=3, planned_nodes=frozenset({"n1", "n2", "n6"}), start_s=NOW_S + 600, features="big"
    )
    planned = {name: Node(name, "IDLE", frozenset({"PLANNED"}), frozenset({"big"})) for name in ("n1", "n2", "n3")}
    busy = {"n6": Node("n6", "ALLOCATED", features=frozenset({"big"}))}
    queue = (running_job("n6", until_s=900.0), replace(waiting, required_nodes=waiting.planned_nodes))
    answer = find_lendable(snapshot(*queue, nodes=planned | busy), [], RULES, NO_PAST)
    ends = {node.name: node.free_until_s for node in answer.offered}
    assert ends["n1"] == ends["n2"] == NOW_S + 540, "Slurm's plan is earlier than the shadow's"
    assert ends["n4"] is None
    assert "PLANNED" in answer.withheld["n3"]


def test_a_job_that_slurm_has_not_planned_yet_ends_the_holes_of_its_nodes_too() -> None:
    queue = (running_job("n6", until_s=900.0), main_job("9", node_count=6))
    answer = find_lendable(snapshot(*queue, nodes={"n6": Node("n6", "ALLOCATED")}), [], RULES, NO_PAST)
    assert {node.free_until_s for node in answer.offered} == {NOW_S + 840}


def test_a_job_that_could_start_now_finds_its_nodes_whatever_slurm_has_planned_before() -> None:
    waiting = main_job("9", node_count=2, planned_nodes=frozenset({"n1", "n2"}), start_s=NOW_S + 600)
    fragments = [lent(name) for name in sorted(NAMES)]
    answer = find_lendable(snapshot(waiting), fragments, RULES, NO_PAST)
    assert answer.due == dict.fromkeys(("n1", "n2"), "job 9 could start here")


def test_a_reservation_empties_its_nodes_before_it_begins() -> None:
    soon = Reservation("maint", frozenset({"n1"}), NOW_S + 30, NOW_S + 3600)
    later = Reservation("other", frozenset({"n2", "n3"}), NOW_S + 150, NOW_S + 3600)
    answer = find_lendable(snapshot(reservations=(soon, later)), [lent("n1"), lent("n2")], RULES, NO_PAST)
    assert answer.due == {"n1": "reservation maint"}
    assert "n2" in offered(answer)
    assert answer.withheld["n3"] == "its hole ends in 90 s"


def test_a_waiting_job_that_could_start_gets_idle_nodes_first_then_those_of_the_largest_trainer() -> None:
    busy = {name: Node(name, "ALLOCATED") for name in ("n1", "n2", "n3", "n4")}
    fragments = [lent("n1", "7"), lent("n2", "7"), lent("n3", "7"), lent("n4", "8")]
    answer = find_lendable(
        snapshot(main_job("9", node_count=3, reason="Priority"), nodes=busy), fragments, RULES, NO_PAST
    )
    assert answer.withheld == dict.fromkeys(("n5", "n6"), "job 9 could start here")
    assert len(answer.due) == 1
    assert set(answer.due) < {"n1", "n2", "n3"}
    assert answer.fitting == {"9"}


def test_a_job_whose_nodes_are_on_their_way_back_takes_no_others() -> None:
    leaving = replace(lent("n1"), state=FragmentState.LEAVING)
    fragments = [leaving, *(lent(name) for name in sorted(NAMES - {"n1"}))]
    answer = find_lendable(snapshot(main_job("9", reason="Priority")), fragments, RULES, NO_PAST)
    assert answer.due == {}


def test_a_job_that_does_not_start_on_the_nodes_kept_for_it_keeps_them_no_longer() -> None:
    past = replace(NO_PAST, fitting_since_s={"9": NOW_S - 61})
    answer = find_lendable(snapshot(main_job("9", reason="Priority")), [], RULES, past)
    assert len(answer.offered) == 6
    assert answer.fitting == {"9"}


def test_a_queue_of_jobs_that_do_not_start_keeps_nodes_only_once() -> None:
    queue = [main_job(str(number), node_count=4, reason="Priority") for number in range(10, 20)]
    since = {str(number): NOW_S - 61 for number in range(10, 20)}
    answer = find_lendable(snapshot(*queue), [], RULES, replace(NO_PAST, fitting_since_s=since))
    assert len(offered(answer)) == 6
    assert answer.fitting == set(since)
    newcomer = main_job("30", node_count=4, reason="Priority")
    answer = find_lendable(snapshot(*queue, newcomer), [], RULES, replace(NO_PAST, fitting_since_s=since))
    assert len(offered(answer)) == 2


def test_jobs_that_wait_for_something_else_claim_nothing() -> None:
    jobs = [
        main_job("1", reason="Dependency"),
        main_job("2", reason="JobHeldUser"),
        main_job("3", reason="Priority", node_count=7),
        main_job("4", reason="Priority", features="gpu"),
        main_job("5", reason="QOSMaxNodePerUserLimit"),
    ]
    assert len(find_lendable(snapshot(*jobs), [], RULES, NO_PAST).offered) == 6


def test_a_node_that_does_not_answer_is_neither_offered_nor_given_back() -> None:
    away = {"n1": Node("n1", "ALLOCATED", frozenset({"NOT_RESPONDING"}))}
    answer = find_lendable(snapshot(nodes=away), [lent("n1")], RULES, NO_PAST)
    assert "n1" not in offered(answer)
    assert answer.due == {}
    assert "NOT_RESPONDING" in answer.withheld["n1"]


def test_a_lent_node_whose_state_slurm_does_not_know_after_a_restart_is_left_alone() -> None:
    for state in (Node("n1", "UNKNOWN"), Node("n1", "ALLOCATED", frozenset({"NEWFANGLED"}))):
        answer = find_lendable(snapshot(nodes={"n1": state}), [lent("n1")], RULES, NO_PAST)
        assert "n1" not in answer.due
        assert "n1" in answer.withheld
        assert "n1" not in offered(answer)


def test_a_drained_node_and_one_with_a_job_of_the_site_are_given_back() -> None:
    running = main_job("9", state=JobState.RUNNING, nodes=frozenset({"n2"}))
    drained = {"n1": Node("n1", "ALLOCATED", frozenset({"DRAIN"})), "n2": Node("n2", "MIXED")}
    answer = find_lendable(snapshot(running, nodes=drained), [lent("n1"), lent("n2")], RULES, NO_PAST)
    assert answer.due == {"n1": "Slurm says ALLOCATED+DRAIN", "n2": "job 9 runs here"}


def test_the_sites_reserve_is_taken_from_what_nobody_has() -> None:
    busy = {"n1": Node("n1", "ALLOCATED")}
    answer = find_lendable(snapshot(nodes=busy), [lent("n1")], replace(RULES, reserve_nodes=4), NO_PAST)
    assert len(answer.offered) == 2
    assert "n1" in offered(answer)
    assert len(find_lendable(snapshot(), [], replace(RULES, most_nodes=1), NO_PAST).offered) == 1


def test_a_node_must_have_been_idle_for_a_while_and_rests_after_it_was_taken_back() -> None:
    past = Past({"n1": NOW_S - 100, "n2": NOW_S - 5}, {"n3": NOW_S + 10}, {})
    answer = find_lendable(snapshot(), [], replace(RULES, idle_for_s=30.0), past)
    assert offered(answer) == ["n1"]
    assert "a moment ago" in find_lendable(snapshot(), [], RULES, past).withheld["n3"]


def test_ends_are_rounded_to_quarters_of_the_horizon() -> None:
    ends = {"n1": 5.0, "n2": 59.0, "n3": 61.0, "n4": 119.0, "n5": 120.0, "n6": None}
    nodes = [Offer(name, None if end is None else NOW_S + end) for name, end in ends.items()]
    coarse = {node.name: node.free_until_s for node in in_few_classes(nodes, NOW_S, 120.0)}
    lives = {name: None if end_s is None else end_s - NOW_S for name, end_s in coarse.items()}
    assert lives == {"n1": 30.0, "n2": 30.0, "n3": 60.0, "n4": 90.0, "n5": None, "n6": None}


def test_every_node_of_the_partition_is_accounted_for() -> None:
    answer = find_lendable(snapshot(main_job("9", reason="Resources")), [lent("n1")], RULES, NO_PAST)
    assert {*offered(answer), *answer.due, *answer.withheld} == NAMES
