"""Jobs of the site's that wait for a limit in which fragments count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.job import Job, JobState, LimitOf, SharedLimit, WaitsFor, shares_limit
from freetrain.core.plan import Release
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.limit_claims import tell_claims
from freetrain.lending.memory import Memory
from freetrain.lending.training_verdicts import TrainingContext, judge_trainings
from tests.facts import node
from tests.lending.test_judge import NOW_S, PARTITIONS, RULES, lent, request

CPUS = SharedLimit(LimitOf.ACCOUNT, "cpu")
WAITS = Job(
    "9", "9", "games", "main", JobState.PENDING, "AssocGrpCpuLimit", WaitsFor.OWNERS_LIMIT, "ml", limit=CPUS,
    total=Amount(8), submitted_s=NOW_S - 1,
)  # fmt: skip
"""Of account ml, whose CPUs fragments have."""
HELD = tuple(map(lent, ("n1", "n2", "n3")))


def seen(
    *jobs: Job, fragments: Iterable[Fragment] = HELD, ended: tuple[Fragment, ...] = (), after_s: float = 0.0
) -> Facts:
    """Four nodes of eight CPUs each; n4 is idle, on the others are fragments of account ml."""
    fragments = tuple(fragments)
    taken = {fragment.node for fragment in fragments} | {name for job in jobs for name in job.nodes}
    nodes = tuple(
        node(name, "ALLOCATED" if name in taken else "IDLE", cpus=8, memory_mb=1000)
        for name in ("n1", "n2", "n3", "n4")
    )
    ours = (
        Job(
            fragment.job,
            fragment.trainer,
            "news",
            "freetrain",
            JobState.RUNNING,
            account="ml",
            nodes=frozenset({fragment.node}),
        )
        for fragment in fragments
    )
    found = Snapshot(NOW_S + after_s, nodes, (*jobs, *ours), partitions=PARTITIONS)
    requests = (replace(request("7"), account="ml"),)
    return Facts(found, fragments, ended, requests, last_plan_s=NOW_S + after_s - 2)


def looks(*facts: Facts) -> list[Judgement]:
    memory, judgements = Memory(), []
    for look in facts:
        judgements.append(judge(look, memory, RULES))
        memory = judgements[-1].memory
    return judgements


def given_back(found: Judgement) -> set[str]:
    return {name for order in found.orders if isinstance(order, Release) for name in order.nodes}


def test_it_gets_its_part_of_the_limit_back_at_that_look() -> None:
    (found,) = looks(seen(WAITS))
    assert len(given_back(found)) == 1
    assert set(found.offers.due.values()) == {"job 9 waits for a limit of account ml in which fragments count"}
    assert found.shadow.kept == {"n4": "9"}, "its node is kept free, too"


@pytest.mark.parametrize(
    ("job", "fragments"),
    [
        (WAITS, 1),
        (replace(WAITS, total=Amount(9)), 2),
        (replace(WAITS, total=Amount(1), least=Amount(1)), 1),
        (replace(WAITS, total=Amount(2), least=Amount(1), node_count=2), 2),
        (replace(WAITS, total=None), 1),
        (replace(WAITS, limit=replace(CPUS, counts="mem"), total=Amount(1, 1500)), 2),
        (replace(WAITS, limit=replace(CPUS, counts="node"), node_count=3), 3),
        (replace(WAITS, limit=replace(CPUS, counts="jobs"), tasks=2), 2),
        (replace(WAITS, limit=replace(CPUS, counts=""), node_count=2), 2),
        (replace(WAITS, account="physics"), 0),
        (replace(WAITS, limit=None), 0),
        (replace(WAITS, priority=0), 0),
        (replace(WAITS, node_count=5), 0),
    ],
)
def test_as_many_fragments_are_given_back_as_have_what_the_job_asks_for(job: Job, fragments: int) -> None:
    (found,) = looks(seen(job))
    (*_, claimed) = (set(), *(set(claim.fragments) for claim in found.memory.limits.values()))
    assert len(claimed) == fragments


def test_of_many_jobs_that_wait_as_many_count_as_the_fragments_have_room_for() -> None:
    """Whatever else is missing from the limit, lending is not the reason."""
    array = replace(WAITS, tasks=500)
    later = replace(WAITS, id="10", array="10", submitted_s=NOW_S)
    (found,) = looks(seen(array, later, fragments=HELD[:2]))
    assert {job.id: job.tasks for job in found.facts.snapshot.jobs if job.waits_for is WaitsFor.NODES}["9"] == 2
    assert len(found.shadow.kept) == 2
    assert set(found.memory.limits) == {"9"}


def test_those_come_first_that_a_job_takes_the_nodes_of() -> None:
    takes = replace(WAITS, id="8", array="8", limit=None, waits_for=WaitsFor.NODES, node_count=2, priority=9)
    (found,) = looks(seen(takes, WAITS))
    assert len(given_back(found)) == 2, "one for the node of each; these count in the limit as well"


def gone(*fragments: Fragment) -> tuple[Fragment, ...]:
    ended = FragmentState.ENDED
    return tuple(replace(fragment, state=ended, end=End.RELEASED, ended_s=NOW_S + 1) for fragment in fragments)


def test_no_more_is_given_back_until_slurm_has_planned_without_the_first() -> None:
    first, *others = sorted(
        HELD, key=lambda one: one.job not in looks(seen(WAITS))[0].memory.limits["9"].fragments
    )
    leaving = replace(first, state=FragmentState.LEAVING)
    found = looks(
        seen(WAITS),
        seen(WAITS, fragments=(leaving, *others), after_s=5),
        seen(WAITS, fragments=others, ended=gone(first), after_s=8),
        replace(seen(WAITS, fragments=others, after_s=10), last_plan_s=NOW_S + 8),
        replace(seen(WAITS, fragments=others, after_s=13), last_plan_s=NOW_S + 12),
    )
    assert [len(given_back(judgement)) for judgement in found] == [1, 0, 0, 0, 1]


def test_who_counts_in_the_limit_gets_no_more_nodes_until_the_job_has_started() -> None:
    facts = seen(WAITS, fragments=HELD[:1])
    other = replace(request("8", "games"), account="physics")
    (found,) = looks(replace(facts, requests=(*facts.requests, other)))
    asked = {trainer.id: len(nodes) for nodes, trainers in found.questions for trainer in trainers}
    assert asked == {"8": 2}, "another account's training does"
    why = judge_trainings(TrainingContext(found))["7"].why
    assert why.endswith("it gets no more nodes until that job has started")


def test_that_holds_too_while_it_waits_for_the_nodes_of_what_was_given_back() -> None:
    """Slurm frees the limit when a fragment is told to go, and its node later."""
    first = looks(seen(WAITS))[0].memory.limits["9"].fragments[0]
    after = [
        replace(fragment, state=FragmentState.LEAVING) if fragment.job == first else fragment
        for fragment in HELD[:2]
    ]
    frees = replace(WAITS, limit=None, reason="Resources", waits_for=WaitsFor.NODES)
    *_, found = looks(seen(WAITS), seen(frees, fragments=after, after_s=5))
    assert set(found.memory.limits) == {"9"}
    assert found.bars["7"].why.startswith("job 9 waits for a limit of account ml")
    gone_by = seen(replace(frees, state=JobState.RUNNING, nodes=frozenset({"n4"})), fragments=after, after_s=8)
    assert looks(seen(WAITS), gone_by)[-1].memory.limits == {}


@pytest.mark.parametrize(
    ("shown", "leaving_s"),
    [(WAITS, 10.0), (replace(WAITS, reason="", waits_for=WaitsFor.NODES, limit=None), 5.0)],
    ids=["at once", "Slurm names the limit later"],
)
def test_the_delay_is_harm(shown: Job, leaving_s: float) -> None:
    started = replace(WAITS, state=JobState.RUNNING, limit=None, nodes=frozenset({"n4"}), start_s=NOW_S + 12)
    first = looks(seen(WAITS))[0].memory.limits["9"].fragments[0]
    left = [fragment for fragment in HELD if fragment.job == first]
    others = [fragment for fragment in HELD if fragment.job != first]
    leaving = [replace(fragment, state=FragmentState.LEAVING) for fragment in left]
    *_, last = looks(
        seen(after_s=-5),
        seen(shown),
        seen(WAITS, fragments=(*leaving, *others) if shown is WAITS else HELD, after_s=5),
        seen(WAITS, fragments=(*leaving, *others), after_s=10),
        seen(started, fragments=others, ended=gone(*left), after_s=15),
    )
    (harm,) = last.memory.meter.new
    assert (harm.delay_s, harm.leaving_s, harm.fragments) == (13.0, leaving_s, (first,))


def test_a_job_that_waits_for_the_limit_without_any_fragment_is_nobodys_harm() -> None:
    started = replace(WAITS, state=JobState.RUNNING, limit=None, nodes=frozenset({"n4"}), start_s=NOW_S + 900)
    first = looks(seen(WAITS, fragments=HELD[:1]))[0].memory.limits["9"].fragments
    assert first == (HELD[0].job,)
    *_, last = looks(
        seen(fragments=HELD[:1], after_s=-5),
        seen(WAITS, fragments=HELD[:1]),
        seen(WAITS, fragments=(), ended=gone(HELD[0]), after_s=5),
        *(seen(WAITS, fragments=(), after_s=after_s) for after_s in range(10, 900, 30)),
        seen(started, fragments=(), after_s=905),
    )
    assert last.memory.meter.harms == ()


def test_what_is_done_for_it_is_told() -> None:
    (found,) = looks(seen(WAITS))
    text = tell_claims(found.memory.limits, found.facts)["9"]
    (fragment,) = found.memory.limits["9"].fragments
    assert text == (
        "Job 9 waits for a limit of account ml in which fragments count (AssocGrpCpuLimit). "
        f"Fragments {fragment} are being given back for it."
    )


@pytest.mark.parametrize(
    ("of", "account", "user", "qos", "shares"),
    [
        (LimitOf.ACCOUNT, "ml", "eve", "low", True),
        (LimitOf.ACCOUNT, "physics", "bob", "normal", False),
        (LimitOf.USER, "ml", "bob", "low", True),
        (LimitOf.USER, "physics", "bob", "normal", False),
        (LimitOf.QOS, "physics", "eve", "normal", True),
        (LimitOf.QOS_AND_USER, "physics", "bob", "normal", True),
        (LimitOf.QOS_AND_USER, "ml", "eve", "normal", False),
        (LimitOf.QOS_AND_ACCOUNT, "ml", "eve", "normal", True),
        (LimitOf.QOS_AND_ACCOUNT, "ml", "bob", "low", False),
    ],
)
def test_which_jobs_count_in_a_limit(of: LimitOf, account: str, user: str, qos: str, shares: bool) -> None:
    job = replace(WAITS, user="bob", qos="normal", limit=SharedLimit(of))
    other = Job("5", "5", user, "freetrain", JobState.RUNNING, account=account, qos=qos)
    assert shares_limit(job, other) is shares
