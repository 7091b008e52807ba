"""The order in which a cycle does things, whatever the cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import NewPart, SharedNode
from freetrain.core.decision import Decision
from freetrain.core.place import Place
from freetrain.core.plan import Action, Lend, PlaceServers, Release
from freetrain.core.problem import Problem
from freetrain.core.topology import FLAT
from freetrain.core.trainer import Servers, Trainer, TrainerPast
from freetrain.loop.cycle import Goal, run_cycle
from freetrain.policies import Allocation, Links, Policy, find_finisher, find_policy

TRAINERS = tuple(Trainer(name, ((1, 1.0), (2, 2.0))) for name in ("a", "b"))


@dataclass
class Diary:
    """A cluster, a judgement and a journal that write down what is asked of them."""

    now_s: float = 0.0
    written: list[object] = field(default_factory=list)
    orders: Sequence[Action] = (Release(("n9",), "somebody waits"),)
    questions: Sequence[tuple[tuple[Place, ...], tuple[Trainer, ...]]] = (
        ((Place("n1"), Place("n2")), TRAINERS[:1]),
        ((Place("n3"),), TRAINERS[1:]),
    )
    serving: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def observe(self) -> str:
        self.written.append("observed")
        return "facts"

    def judge(self, facts: str) -> Diary:
        self.written.append(f"judged {facts}")
        return self

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        self.asked_of = tuple(trainers)
        return {trainer: TrainerPast(0.0, 3600.0, 50.0, 60.0) for trainer in trainers}

    def act(self, action: Action, decision: str | None) -> None:
        self.written.append((action, decision))

    @property
    def horizon_s(self) -> float:
        return 120.0

    @property
    def changes(self) -> float:
        return 2.5

    def limit_s(self, node: str) -> float:
        return 10.0 * int(node[1:])

    def shared_nodes(self, lent: Mapping[str, Sequence[str]]) -> Sequence[SharedNode]:
        """One node with n2, whose training waits for data, and n3, whose does not; twelve CPUs are left."""
        asks = Amount(4, 8, (("gpu", 1),))
        waits_s = {"n2": 0.75, "n3": 0.0}
        parts = [(trainer, place) for trainer, places in lent.items() for place in places if place in waits_s]
        new = tuple(NewPart(place, trainer, asks, waits_s[place]) for trainer, place in parts)
        return [SharedNode("n", Amount(12), 2, 1, new)]

    @property
    def done_samples(self) -> Mapping[str, float]:
        return {"a": 700.0, "b": 0.0, "somebody": 5.0}

    def next_decision(self) -> str:
        return f"1:{sum(entry == 'recorded' for entry in self.written) + 1}"

    def record(self, problem: Problem, decision: Decision) -> None:
        self.written.append("recorded")


def test_orders_come_first_and_each_decision_is_kept_when_it_has_been_carried_out() -> None:
    diary, asked = Diary(), []

    def policy_for(decisions: int) -> Policy:
        asked.append(decisions)
        return find_policy("freetrain")

    judged, decisions = run_cycle(diary, diary.judge, Goal(policy_for, "throughput"), diary, lambda: 0.0)
    assert judged is diary
    assert len(decisions) == 2
    assert asked == [2]
    assert diary.written == [
        "observed",
        "judged facts",
        (Release(("n9",), "somebody waits"), None),
        (Lend("a", ("n1", "n2"), (10.0, 20.0)), "1:1"),
        "recorded",
        (Lend("b", ("n3",), (30.0,)), "1:2"),
        "recorded",
    ]


def test_who_reserves_bandwidth_is_told_of_all_questions_of_the_look() -> None:
    """The ring of b, whose turn comes later, has taken what the links of both nodes carry."""
    curve = ((1, 100.0), (2, 190.0))
    rings = tuple(Trainer(name, curve, bytes_per_sample=1e7, target_samples=1e6) for name in ("a", "b"))
    held = (Place("n1#1", holder="b"), Place("n2#2", holder="b"))
    questions = (((Place("n1#+1"), Place("n2#+1")), rings[:1]), (held, rings[1:]))
    for gbit, nodes in ((14.0, ("n1#+1",)), (16.0, ("n1#+1", "n2#+1"))):
        diary = Diary(questions=questions, orders=())
        diary.limit_s = lambda node: 60.0  # type: ignore[method-assign]
        goal = Goal.of(find_policy("gadget"), "throughput")
        goal = replace(goal, links=Links.of_gbit(gbit, 0.0, FLAT))
        _, decisions = run_cycle(diary, diary.judge, goal, diary, lambda: 0.0)
        assert decisions[0].placement == {"a": nodes}
        assert decisions[1].placement == {"b": ("n1#1", "n2#2")}


def test_servers_move_when_their_nodes_are_lent() -> None:
    served = replace(TRAINERS[0], servers=Servers())
    questions = (((Place("n1"), Place("n2")), (served,)), ((Place("n3"),), TRAINERS[1:]))
    diary = Diary(questions=questions, serving={"a": ("n9",), "somebody": ("n7",)})
    problems = list[Problem]()
    diary.record = lambda problem, decision: problems.append(problem)  # type: ignore[method-assign]
    run_cycle(diary, diary.judge, Goal.of(find_policy("freetrain"), "throughput"), diary, lambda: 0.0)
    assert [entry[0] for entry in diary.written if isinstance(entry, tuple)][1:] == [
        Lend("a", ("n1", "n2"), (10.0, 20.0)),
        PlaceServers("a", ("n1",)),
        Lend("b", ("n3",), (30.0,)),
    ]
    assert [problem.serving for problem in problems] == [{"a": ("n9",)}, {}]


def test_every_decision_is_told_how_often_sizes_change() -> None:
    diary, problems = Diary(), list[Problem]()
    diary.record = lambda problem, decision: problems.append(problem)  # type: ignore[method-assign]
    run_cycle(diary, diary.judge, Goal.of(find_policy("freetrain"), "throughput"), diary, lambda: 0.0)
    assert [problem.changes for problem in problems] == [2.5, 2.5]


def test_a_shared_node_is_divided_among_the_trainings_of_all_decisions() -> None:
    """Of twelve CPUs six belong to each one's GPU; one can use nine, and the other none."""
    diary = Diary()
    notes = list[Sequence[str]]()
    diary.record = lambda problem, decision: notes.append(decision.notes)  # type: ignore[method-assign]
    goal = replace(Goal.of(find_policy("freetrain"), "throughput"), finisher=find_finisher("synergy-tune"))
    run_cycle(diary, diary.judge, goal, diary, lambda: 0.0)
    lent = [entry[0].amounts for entry in diary.written if isinstance(entry, tuple) and isinstance(entry[0], Lend)]
    assert lent == [{"n2": Amount(16, 8, (("gpu", 1),))}, {}]
    assert notes == [
        ("a gets 1 × gpu, 16 CPUs, 8 MB on n2; it asks for 1 × gpu, 4 CPUs, 8 MB.",),
        (),
    ]


def test_what_trainers_have_done_is_told_to_policies_that_need_it_and_to_no_other() -> None:
    for policy, told in (("gadget", [{"a": 700.0}, {}]), ("freetrain", [{}, {}])):
        diary, problems = Diary(), list[Problem]()
        diary.record = lambda problem, decision, problems=problems: problems.append(problem)  # type: ignore[method-assign, misc]
        run_cycle(diary, diary.judge, Goal.of(find_policy(policy), "throughput"), diary, lambda: 0.0)
        assert [problem.done_samples for problem in problems] == told


class Remembers:
    """Needs a part of the past."""

    needs_past = ("node_s", "waiting_since_s", "nothing that there is")

    def decide(self, problem: Problem) -> Allocation:
        return Allocation(np.zeros_like(problem.held), "none")


def test_a_policy_is_told_those_parts_of_the_past_that_it_needs() -> None:
    diary, problems = Diary(), list[Problem]()
    diary.record = lambda problem, decision: problems.append(problem)  # type: ignore[method-assign]
    run_cycle(diary, diary.judge, Goal.of(Remembers(), "throughput"), diary, lambda: 0.0)
    told = TrainerPast(node_s=3600.0, waiting_since_s=60.0)
    assert [problem.past for problem in problems] == [{"a": told}, {"b": told}]
    assert diary.asked_of == ("b",)


def test_a_problem_says_what_those_have_done_whose_deadlines_count() -> None:
    due = (replace(TRAINERS[0], deadline_s=9e9, target_samples=1e3), replace(TRAINERS[0], id="somebody"))
    diary, seen = Diary(questions=(((Place("n1"), Place("n2")), due),)), []

    def record(problem: Problem, decision: Decision) -> None:
        seen.append(problem.done_samples)

    diary.record = record  # type: ignore[method-assign]
    for objective in ("throughput", "throughput,deadlines=3"):
        goal = Goal.of(find_policy("freetrain"), objective)
        run_cycle(diary, diary.judge, goal, diary, lambda: 0.0)
    assert seen == [{}, {"a": 700.0}]
