"""What follows from a look, before anything is decided."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.cluster import Snapshot
from freetrain.core.decision import Decision, Status
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.core.node import Partition
from freetrain.core.plan import Limit, Release, TidySubmission
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.lending.facts import Facts, Request, SiteOrders
from freetrain.lending.judge import judge
from freetrain.lending.memory import Memory
from freetrain.lending.rules import FragmentRules, HarmRules, NodeRules, Rules, SharingRules
from freetrain.lending.stays import Seen, SizeChanges, Stays
from freetrain.lending.training_verdicts import TrainingContext, judge_trainings
from tests.facts import node

NOW_S = 1_000_000.0
NAMES = ("n1", "n2", "n3", "n4")
PARTITIONS = {
    "main": Partition("main", frozenset(NAMES), priority_tier=10),
    "freetrain": Partition("freetrain", frozenset(NAMES)),
}
RULES = Rules(
    nodes=NodeRules(FragmentQueue("freetrain"), margin_s=10.0),
    fragments=FragmentRules(longest_s=3600.0, planning_s=30.0, start_within_s=60.0),
    harm=HarmRules(delay_s=60.0, within_s=3600.0, allowed=2, pause_s=600.0),
    sharing=SharingRules(),
    objective="throughput",
    horizon_s=120.0,
)


def request(trainer: str = "7", owner: str = "news", min_nodes: int = 1) -> Request:
    return Request(Trainer(trainer, ((1, 1.0), (4, 4.0)), min_nodes=min_nodes), owner)


def lent(name: str, trainer: str = "7") -> Fragment:
    return Fragment(f"{trainer}_{name[1:]}", trainer, name, FragmentState.RUNNING, NOW_S - 90, 3600.0, NOW_S - 89)


def facts(*requests: Request, jobs: tuple[Job, ...] = (), lent_nodes: tuple[Fragment, ...] = ()) -> Facts:
    busy = {fragment.node for fragment in lent_nodes}
    nodes = tuple(node(name, "ALLOCATED" if name in busy else "IDLE") for name in NAMES)
    return Facts(Snapshot(NOW_S, nodes, jobs, partitions=PARTITIONS), lent_nodes, requests=requests)


def waiting(node_count: int = 1) -> Job:
    return Job("9", "9", "games", "main", JobState.PENDING, node_count=node_count, submitted_s=NOW_S - 1)


def test_each_claimant_is_asked_about_its_own_part() -> None:
    found = judge(facts(request("7", "news"), request("8", "games")), Memory(), RULES)
    assert [[trainer.id for trainer in trainers] for _, trainers in found.questions] == [["7"], ["8"]]
    parts = [{place.name for place in nodes} for nodes, _ in found.questions]
    assert [len(part) for part in parts] == [2, 2]
    assert not parts[0] & parts[1]


def of_features(seen: Facts, *names: str) -> Facts:
    """The same; these nodes have feature a100."""
    nodes = tuple(
        replace(node, features=frozenset({"a100"}) if node.name in names else node.features)
        for node in seen.snapshot.nodes
    )
    return replace(seen, snapshot=replace(seen.snapshot, nodes=nodes))


def picky(one: Request) -> Request:
    """It asks for a100."""
    return replace(one, needs=Needs("a100"))


def test_one_users_trainers_are_decided_together_whatever_each_asks_of_its_nodes() -> None:
    seen = of_features(facts(request("7"), picky(request("8"))), "n1", "n2", "n3")
    ((nodes, trainers),) = judge(seen, Memory(), RULES).questions
    kinds = {place.name: place.traits.kind for place in nodes}
    assert kinds == {"n1": "a100", "n2": "a100", "n3": "a100", "n4": "other"}
    assert [(trainer.id, trainer.choices) for trainer in trainers] == [
        ("7", (KindChoice(("a100", "other")),)),
        ("8", (KindChoice(("a100",)),)),
    ]


def test_trainers_of_different_users_never_compete_in_one_decision() -> None:
    seen = of_features(facts(request("7", "news"), picky(request("8", "games"))), "n1", "n2", "n3")
    found = judge(seen, Memory(), RULES)
    assert [[trainer.id for trainer in trainers] for _, trainers in found.questions] == [["7"], ["8"]]
    assert all(trainer.choices is None for _, trainers in found.questions for trainer in trainers)


def test_trainers_that_can_take_no_node_from_each_other_are_decided_apart() -> None:
    others = replace(request("7"), needs=Needs("v100"))
    seen = of_features(facts(others, picky(request("8"))), "n1", "n2")
    nodes = tuple(
        node if node.features else replace(node, features=frozenset({"v100"})) for node in seen.snapshot.nodes
    )
    found = judge(replace(seen, snapshot=replace(seen.snapshot, nodes=nodes)), Memory(), RULES)
    assert [[trainer.id for trainer in trainers] for _, trainers in found.questions] == [["7"], ["8"]]


def test_nodes_that_may_change_hands_within_a_decision_are_not_released_before_it() -> None:
    seen = facts(request("7"), picky(request("8")), lent_nodes=tuple(map(lent, NAMES)))
    found = judge(of_features(seen, *NAMES), Memory(), RULES)
    assert found.allotment.dealt.leaving
    assert found.orders == ()
    ((nodes, _),) = found.questions
    assert {place.holder for place in nodes} == {"7"}


def test_who_leaves_nodes_to_another_trainer_of_its_owner_has_left_nothing() -> None:
    seen = of_features(facts(request("7"), picky(request("8"))), *NAMES)
    found = judge(seen, Memory(), RULES)
    decided = [Decision(Status.OPTIMAL, 0.0, {"7": NAMES}, "test")]
    assert found.remember(decided).declined == {}
    assert judge_trainings(TrainingContext(found, decided))["8"].why == "its user's share is 4 nodes, lent to 7"


def test_the_horizon_heeds_how_long_nodes_have_been_idle_unless_one_is_given() -> None:
    old = Stays(by_age=(Seen(100.0, 50.0), *[Seen(5e5, 1.0)] * 7), seen_s=NOW_S, since_s=dict.fromkeys(NAMES, 0.0))
    learning = replace(RULES, horizon_s=0.0)
    assert old.expected_s == 1200.0
    assert judge(facts(), Memory(stays=old), learning).horizon_s > 3600.0
    assert judge(facts(), Memory(stays=old), replace(learning, horizon_s=60.0)).horizon_s == 60.0


def test_changes_count_as_often_as_sizes_change_within_a_horizon_that_is_learned() -> None:
    often = Memory(size_changes=SizeChanges(trainer_s=6000.0, changes=100.0))
    learning = replace(RULES, horizon_s=0.0)
    found = judge(facts(), often, learning)
    assert found.changes == found.horizon_s / 60.0
    assert judge(facts(), often, replace(learning, horizon_s=3600.0)).changes == 1.0


def test_the_judge_remembers_the_sizes_of_trainers_whose_nodes_work_together() -> None:
    filler = replace(request("8"), trainer=replace(request("8").trainer, independent=True))
    leaving = replace(lent("n3"), state=FragmentState.LEAVING)
    fragments = (lent("n1"), lent("n2"), leaving, lent("n4", "8"))
    memory = judge(facts(request("7"), filler, lent_nodes=fragments), Memory(), RULES).memory
    assert memory.size_changes.sizes == {"7": 2}


def test_without_a_trainer_there_is_one_question_all_the_same() -> None:
    assert judge(facts(), Memory(), RULES).questions == [((), ())]


def test_what_is_due_is_given_back_before_anything_else_is_done() -> None:
    all_lent = tuple(map(lent, NAMES))
    seen = replace(facts(request(), jobs=(waiting(2),), lent_nodes=all_lent), to_tidy=("7",))
    long = replace(seen, fragments=tuple(replace(fragment, limit_s=99_999.0) for fragment in all_lent))
    orders = judge(long, Memory(), RULES).orders
    assert [type(order) for order in orders] == [Release, TidySubmission, Limit]
    first = orders[0]
    assert isinstance(first, Release)
    assert (len(first.nodes), first.trainer, first.why) == (2, None, "job 9 could start here")


def test_nodes_that_change_hands_are_released_last() -> None:
    seen = facts(request("7", "news"), request("8", "games"), lent_nodes=tuple(map(lent, NAMES)))
    (move,) = judge(seen, Memory(), RULES).orders
    assert isinstance(move, Release)
    assert (move.trainer, len(move.nodes), move.why) == ("7", 2, "the share of user games")


def test_when_nothing_is_to_be_lent_all_is_given_back_and_everybody_told() -> None:
    seen = replace(facts(request(), lent_nodes=(lent("n1"),)), orders=SiteOrders(stopped="stopped by FILE"))
    found = judge(seen, Memory(), RULES)
    assert found.offers.due == {"n1": "stopped by FILE"}
    assert set(found.offers.withheld) == {"n2", "n3", "n4"}
    why = "nothing is lent at the moment: stopped by FILE"
    assert judge_trainings(TrainingContext(found)) == {"7": ("nothing is lent", why)}


def test_who_does_not_compete_keeps_no_node() -> None:
    found = judge(facts(lent_nodes=(lent("n1"),)), Memory(), RULES)
    assert found.offers.due == {"n1": "trainer 7 does not compete for nodes"}


def test_a_node_on_which_slurm_starts_nothing_is_left_alone_for_a_while() -> None:
    asked = replace(lent("n1"), state=FragmentState.ASKED, asked_s=NOW_S - 61, started_s=None)
    found = judge(facts(request(), lent_nodes=(asked,)), Memory(), RULES)
    assert found.offers.due == {"n1": "Slurm does not start what it is lent for"}
    later = facts(request())
    later = replace(later, snapshot=replace(later.snapshot, time_s=NOW_S + 10))
    assert "a moment ago" in judge(later, found.memory, RULES).offers.withheld["n1"]


def test_who_left_nodes_is_asked_about_them_again_only_where_nobody_else_wants_them() -> None:
    seen = facts(request("7", "news"), request("8", "games"))
    found = judge(seen, Memory(), RULES)
    small = (
        Decision(Status.OPTIMAL, 0.0, {"7": ("n1",)}, "test"),
        Decision(Status.OPTIMAL, 0.0, {"8": ("n3", "n4")}, ""),
    )
    again = judge(seen, found.remember(small), RULES)
    assert [len(nodes) for nodes, _ in again.questions] == [1, 3]


@given(
    st.lists(st.floats(30, 900), min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from((0.0, 60.0)),
    st.sampled_from((0.5, 1.0)),
)
def test_until_the_next_change_time_alone_changes_no_offer(
    ends_s: list[float], wants: int, within_s: float, share: float
) -> None:
    jobs = [
        replace(waiting(), id=str(number), state=JobState.RUNNING, nodes=frozenset({f"n{number}"}), node_count=1)
        for number in range(1, len(ends_s) + 1)
    ]
    running = [
        replace(job, start_s=NOW_S - 20.0, end_s=NOW_S + end_s) for job, end_s in zip(jobs, ends_s, strict=True)
    ]
    busy = {name for job in running for name in job.nodes}
    nodes = tuple(node(name, "ALLOCATED" if name in busy else "IDLE") for name in NAMES)
    queue = replace(waiting(wants), limit_s=600.0)
    seen = facts(request())
    seen = replace(seen, snapshot=replace(seen.snapshot, nodes=nodes, jobs=(*running, queue)))
    rules = replace(RULES, nodes=replace(RULES.nodes, shortest_hole_s=60.0, next_within_s=within_s))
    first = judge(seen, Memory(), rules)
    assert first.next_change_s > NOW_S
    later_s = NOW_S + share * max(0.0, min(first.next_change_s - NOW_S, 3600.0) - 1.001)
    later = judge(replace(seen, snapshot=replace(seen.snapshot, time_s=later_s)), first.memory, rules)
    assert later.offers.offered == first.offers.offered


def test_judging_changes_neither_facts_nor_memory() -> None:
    seen, memory = facts(request(), jobs=(waiting(),), lent_nodes=(lent("n1"),)), Memory()
    first = judge(seen, memory, RULES)
    assert memory == Memory()
    assert judge(seen, memory, RULES) == first


def test_what_was_measured_of_a_node_is_a_trait_of_its_places() -> None:
    seen = replace(facts(request()), node_traits={"n1": {"watts": 700.0}})
    ((nodes, _),) = judge(seen, Memory(), RULES).questions
    assert {place.name: place.traits.watts for place in nodes} == {"n1": 700.0, "n2": 0.0, "n3": 0.0, "n4": 0.0}
