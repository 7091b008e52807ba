from __future__ import annotations

from dataclasses import replace

from freetrain.core.decision import Decision, Status
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.job import Job
from freetrain.core.plan import Release
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Facts, Request
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.training_verdicts import TrainingContext, judge_trainings
from tests.facts import node
from tests.lending.test_judge import NAMES, RULES, facts, lent, waiting

TASK = Request(Trainer("7_0", ((1, 1.0), (4, 4.0)), min_nodes=2, max_nodes=2, moldable=True), "news", filler="7")
OTHER = replace(TASK, trainer=replace(TASK.trainer, id="7_1"))


def on(*names: str, task: str = "7_0") -> tuple[Fragment, ...]:
    return tuple(replace(lent(name, task), job=task) for name in names)


def seen(*requests: Request, jobs: tuple[Job, ...] = (), said: dict[str, str] | None = None) -> Facts:
    """Task 7_0 has the first two nodes; of some nodes Slurm says something else."""
    found, said = facts(*requests, jobs=jobs, lent_nodes=on(*NAMES[:2])), said or {}
    nodes = tuple(node(one.name, said[one.name]) if one.name in said else one for one in found.snapshot.nodes)
    return replace(found, snapshot=replace(found.snapshot, nodes=nodes))


def released(found: Judgement) -> set[str]:
    return {name for order in found.orders if isinstance(order, Release) for name in order.nodes}


def test_a_task_that_can_keep_its_nodes_is_asked_about_with_all_of_them() -> None:
    found = judge(seen(TASK, OTHER), Memory(), RULES)
    (nodes, trainers) = found.questions[0]
    assert [trainer.id for trainer in trainers] == ["7_0", "7_1"]
    assert [place.holder for place in nodes].count("7_0") == 2
    assert not released(found)


def test_where_one_of_its_nodes_has_to_go_all_go_and_it_does_not_compete() -> None:
    found = judge(seen(TASK, OTHER, jobs=(waiting(node_count=3),)), Memory(), RULES)
    assert released(found) == set(NAMES[:2])
    assert "7_0" not in {trainer.id for _, trainers in found.questions for trainer in trainers}


def test_where_nothing_is_certain_of_one_of_its_nodes_all_are_left_as_they_are() -> None:
    found = judge(seen(TASK, OTHER, said={NAMES[0]: "UNKNOWN"}), Memory(), RULES)
    assert not released(found)
    assert found.offers.withheld[NAMES[1]] == "its task has other nodes with which nothing is done"
    assert "7_0" not in {trainer.id for _, trainers in found.questions for trainer in trainers}


def test_a_task_that_is_ending_keeps_nothing() -> None:
    ending = tuple(replace(fragment, state=FragmentState.ENDING) for fragment in seen(TASK).fragments)
    found = judge(replace(seen(TASK), fragments=ending), Memory(), RULES)
    assert not released(found)
    assert all(place.holder is None for place in found.offers.offered)


def test_a_filler_waits_only_while_none_of_its_tasks_has_nodes() -> None:
    found = judge(facts(TASK, OTHER), Memory(), RULES)
    assert {*judge_trainings(TrainingContext(found))} == {"7"}
    served = Decision(Status.OPTIMAL, 0.0, {"7_0": NAMES[:2]}, "test")
    assert judge_trainings(TrainingContext(found, [served])) == {}
