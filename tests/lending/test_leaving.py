"""How long fragments take to leave their nodes: what is learned of it, and what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.job import Job, JobState
from freetrain.core.node import Reservation
from freetrain.core.plan import Limit
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.rules import Rules
from freetrain.lending.sightings import Leaving
from freetrain.lending.training_verdicts import TrainingContext, judge_trainings
from tests.facts import node
from tests.lending.test_judge import NAMES, NOW_S, PARTITIONS, RULES, lent, request

TAKES_LONG = Memory(leaving=Leaving(took_s={"7": 119.0}))


def seen(
    at_s: float,
    *jobs: Job,
    fragments: tuple[Fragment, ...] = (),
    ended: tuple[Fragment, ...] = (),
    reservations: tuple[Reservation, ...] = (),
) -> Facts:
    """A look; what leaves is COMPLETING in Slurm, and so are its nodes."""
    states = {
        fragment.node: "ALLOCATED" if fragment.state is FragmentState.RUNNING else "IDLE+COMPLETING"
        for fragment in fragments
    }
    taken = {name: "ALLOCATED" for job in jobs for name in job.nodes}
    nodes = tuple(node(name, {**states, **taken}.get(name, "IDLE")) for name in NAMES)
    ours = tuple(
        Job(
            fragment.job,
            fragment.trainer,
            "news",
            "freetrain",
            JobState.COMPLETING if fragment.is_leaving else JobState.RUNNING,
            nodes=frozenset({fragment.node}),
        )
        for fragment in fragments
    )
    found = Snapshot(at_s, nodes, (*jobs, *ours), reservations, PARTITIONS)
    return Facts(found, fragments, ended, (request("7"),), last_plan_s=at_s - 1, leaving_bound_s=120.0)


def looks(*facts: Facts, rules: Rules = RULES, memory: Memory | None = None) -> list[Judgement]:
    memory, judgements = memory or Memory(), []
    for look in facts:
        judgements.append(judge(look, memory, rules))
        memory = judgements[-1].memory
    return judgements


ALL = tuple(map(lent, NAMES))
TOLD = tuple(replace(fragment, state=FragmentState.LEAVING) for fragment in ALL)
GONE = tuple(
    replace(fragment, state=FragmentState.ENDED, end=End.RELEASED, ended_s=NOW_S, limit_s=fragment.limit_s)
    for fragment in ALL
)
"""Slurm calls the moment in which they were told to go their end."""
WAITS = Job("9", "9", "games", "main", JobState.PENDING, node_count=4, submitted_s=NOW_S - 1)
RUNS = replace(WAITS, state=JobState.RUNNING, nodes=frozenset(NAMES), start_s=NOW_S + 121)


def a_job_of_the_sites_waits_for_two_minutes() -> list[Judgement]:
    """Of a training that heeds no SIGTERM."""
    return looks(
        seen(NOW_S - 10, fragments=ALL),
        seen(NOW_S, WAITS, fragments=ALL),
        *(seen(NOW_S + after_s, WAITS, fragments=TOLD) for after_s in range(5, 121, 5)),
        seen(NOW_S + 125, RUNS, ended=GONE),
    )


def test_the_whole_delay_is_counted_until_the_nodes_are_free() -> None:
    *_, last = a_job_of_the_sites_waits_for_two_minutes()
    (harm,) = last.memory.meter.new
    assert harm.delay_s == 122.0
    assert harm.leaving_s == 120.0, "the last look that found them leaving"


def test_a_job_is_believed_for_as_long_as_fragments_leave_its_nodes() -> None:
    for found in a_job_of_the_sites_waits_for_two_minutes()[1:-1]:
        assert dict.fromkeys(NAMES, "9") == found.shadow.kept
        assert found.offers.offered == ()


def test_a_job_that_does_not_start_on_nodes_that_are_free_waits_for_something_else() -> None:
    told = looks(
        seen(NOW_S, WAITS, fragments=ALL), *(seen(NOW_S + 5 * n, WAITS, fragments=TOLD) for n in range(1, 25))
    )
    free = looks(
        *(seen(NOW_S + 125 + 5 * n, WAITS, ended=() if n else GONE) for n in range(14)), memory=told[-1].memory
    )
    assert free[10].shadow.kept
    assert not free[-1].shadow.kept, "after claim_s"


def test_back_off_comes_of_delays_that_are_longer_than_the_claim() -> None:
    strict = replace(RULES, harm=replace(RULES.harm, allowed=0, delay_s=110.0))
    *_, last = looks(
        seen(NOW_S - 10, fragments=ALL),
        seen(NOW_S, WAITS, fragments=ALL),
        *(seen(NOW_S + after_s, WAITS, fragments=TOLD) for after_s in range(5, 121, 5)),
        seen(NOW_S + 125, RUNS, ended=GONE),
        rules=strict,
    )
    assert last.back_off is not None


def test_no_look_saw_the_nodes_free_so_they_were_held_for_as_long_as_slurm_allows() -> None:
    """Slurm answered nothing for two minutes."""
    *_, last = looks(
        seen(NOW_S - 10, fragments=ALL), seen(NOW_S, WAITS, fragments=ALL), seen(NOW_S + 125, RUNS, ended=GONE)
    )
    (harm,) = last.memory.meter.new
    assert harm.delay_s == 122.0


def test_how_long_a_training_takes_to_leave_is_learned_and_bounded() -> None:
    *_, last = a_job_of_the_sites_waits_for_two_minutes()
    assert last.memory.leaving.took_s == {"7": 120.0}
    quick = last.memory.leaving.after(seen(NOW_S + 200, ended=(replace(GONE[0], ended_s=NOW_S + 199),)))
    assert quick.took_s == {"7": 60.0}, "half of it is forgotten with each that is quick"
    forever = Leaving().after(seen(NOW_S, fragments=TOLD)).after(seen(NOW_S + 999, fragments=TOLD))
    assert forever.took_s == {"7": 120.0}, "what takes longer than Slurm lets it is the node's fault"


@pytest.mark.parametrize("end", [End.COMPLETED, End.NODE_FAILED, End.FAILED])
def test_nothing_is_learned_of_fragments_that_nobody_told_to_go(end: End) -> None:
    ended = replace(GONE[0], end=end)
    assert Leaving().after(seen(NOW_S, ended=(ended,))).took_s == {}


def test_what_is_known_of_trainings_that_are_gone_is_forgotten() -> None:
    known = Leaving(took_s={"7": 5.0, "8": 119.0})
    assert known.after(seen(NOW_S)).took_s == {"7": 5.0}
    resting = replace(seen(NOW_S), requests=(), to_tidy=("7",))
    assert known.after(resting).took_s == {"7": 5.0}, "it is still there"


def test_a_training_that_takes_longer_than_the_limit_gives_back_nodes_that_somebody_may_want_at_any_time() -> None:
    (found,) = looks(seen(NOW_S, fragments=ALL), memory=TAKES_LONG)
    assert found.offers.due == dict.fromkeys(NAMES, "trainer 7 takes 119 s to leave, longer than harm.limit")
    assert not looks(seen(NOW_S, fragments=ALL), memory=Memory(leaving=Leaving(took_s={"7": 60.0})))[0].offers.due


def test_its_owner_is_told_why_it_has_no_node() -> None:
    (found,) = looks(seen(NOW_S), memory=TAKES_LONG)
    assert [names for names, trainers in found.questions if trainers and names] == []
    (verdict, why) = judge_trainings(TrainingContext(found))["7"]
    assert verdict == "barred"
    assert why.startswith("it takes 119 s to leave a node when it has to, longer than harm.limit")


def test_it_gets_nodes_of_which_the_end_is_known_that_far_ahead_and_leaves_them_in_time() -> None:
    soon, later = (
        Reservation(name, frozenset({name}), NOW_S + start_s, NOW_S + 9999.0)
        for name, start_s in (("n1", 125.0), ("n2", 1000.0))
    )
    (new,) = looks(seen(NOW_S, reservations=(soon, later)), memory=TAKES_LONG)
    (((offer,), (trainer,)),) = new.questions
    assert (offer.name, trainer.id) == ("n2", "7")
    (kept,) = looks(seen(NOW_S, fragments=ALL[:2], reservations=(soon, later)), memory=TAKES_LONG)
    assert set(kept.offers.due) == {"n1"}
    (limit,) = [order for order in kept.orders if isinstance(order, Limit)]
    assert limit.nodes == ("n2",)
    assert limit.limit_s <= 1000.0 - 119.0 + 89.0, "the limit ends as long before"
