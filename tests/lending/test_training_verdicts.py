"""Of several verdicts on a training the first of the table is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.decision import Decision, Status
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.lending.facts import Bar
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.training_verdicts import (
    TRAINING_VERDICTS,
    Having,
    TrainingContext,
    judge_trainings,
    what_helps,
)
from tests.lending.test_judge import NAMES, RULES, facts, request


def known(state: TrainerState, note: str = "") -> dict[str, KnownTrainer]:
    return {"7": KnownTrainer("7", "news", "freetrain:", state, 0.0, note)}


@pytest.fixture
def judgement() -> Judgement:
    return judge(facts(request("7"), request("8")), Memory(), RULES)


def all_to(trainer: str) -> list[Decision]:
    return [Decision(Status.OPTIMAL, 0.0, {trainer: NAMES}, "test")]


def test_one_that_got_nothing_waits_and_one_that_has_all_that_it_can_use_says_so(judgement: Judgement) -> None:
    found = judge_trainings(TrainingContext(judgement, all_to("8")))
    assert found["7"] == ("lent to others", "its user's share is 4 nodes, lent to 8")
    assert found["8"].verdict in ("its limit", "its curve")


@pytest.mark.parametrize(
    ("state", "note", "verdict", "why"),
    [
        (TrainerState.PAUSED, "paused after 5 failures", "its failures", "paused after 5 failures"),
        (TrainerState.RESTING, "2 failures in a row", "rests", "2 failures in a row"),
        (TrainerState.REFUSED, "min=0 is no number of nodes", "refused", "min=0 is no number of nodes"),
        (TrainerState.COMPLETE, "", "complete", "it is complete"),
    ],
)
def test_what_its_own_failures_came_to_counts_before_what_was_dealt(
    judgement: Judgement, state: TrainerState, note: str, verdict: str, why: str
) -> None:
    assert judge_trainings(TrainingContext(judgement, trainers=known(state, note)))["7"] == (verdict, why)


def test_what_its_submission_lacks_counts_before_what_keeps_it_from_nodes(judgement: Judgement) -> None:
    barred = replace(judgement, bars={"7": Bar(frozenset(NAMES), "its program failed on n1")})
    assert judge_trainings(TrainingContext(barred))["7"] == ("barred", "its program failed on n1")
    found = judge_trainings(TrainingContext(barred, unready={"7": "it waits for job 5"}))
    assert found["7"] == ("not ready", "it waits for job 5")


def test_one_with_nodes_that_does_not_get_all_of_them_is_told_so_besides(judgement: Judgement) -> None:
    barred = replace(judgement, bars={"8": Bar(frozenset({"n1"}), "its program failed on n1")})
    found = judge_trainings(TrainingContext(barred, all_to("8")))["8"]
    assert found.why.endswith("; it does not get all of them: its program failed on n1")


def test_each_verdict_has_a_name_of_its_own_and_says_what_would_change_it() -> None:
    names = [verdict.name for verdict in TRAINING_VERDICTS]
    assert len(set(names)) == len(names)
    assert all(what_helps(name, "7").endswith(".") for name in names)
    assert what_helps("its failures", "7") == "Its owner mends it, then: 'freetrain resume 7'."
    assert what_helps("of a later release", "7") == ""
    assert {verdict.of_those for verdict in TRAINING_VERDICTS} == set(Having)
