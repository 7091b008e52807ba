"""The shadow schedule where jobs share nodes: each has, or wants, a part of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.node import Node, Nodes, Partition, Reservation
from freetrain.core.place import node_of
from freetrain.lending.shadow import BackfillRules, LentPart, PlannedStart, Shadow, find_shadow
from tests.facts import node

NOW_S = 999_960.0
NAMES = ("n1", "n2", "n3", "n4")
TOTAL = Amount(16, 1000, (("gpu:a100", 4),))
PARTITIONS = {
    "main": Partition("main", frozenset(NAMES), priority_tier=5),
    "debug": Partition("debug", frozenset(NAMES[2:]), priority_tier=9, max_time_s=1800.0),
    "freetrain": Partition("freetrain", frozenset(NAMES)),
}


def gpus(count: int, cpus: int = 1) -> Amount:
    return Amount(cpus, 10, (("gpu", count),) if count else ())


def machine(used: Mapping[str, Amount], gres: tuple[tuple[str, int], ...] = TOTAL.gres) -> tuple[Node, ...]:
    return tuple(
        node(
            name, "MIXED" if name in used else "IDLE", cpus=16, memory_mb=1000, gres=gres, threads_per_core=1,
            used=used.get(name, Amount()),
        )
        for name in NAMES
    )  # fmt: skip


def waiting(id_: str, asks: Amount | None, nodes: int = 1, limit_s: float = 600.0, **facts: object) -> Job:
    job = Job(id_, id_, "news", "main", JobState.PENDING, node_count=nodes, limit_s=limit_s, asks=asks)
    return replace(job, submitted_s=NOW_S - 100 + int(id_), **facts)  # type: ignore[arg-type]


def running(id_: str, names: Sequence[str], asks: Amount | None, for_s: float = 300.0) -> Job:
    end_s = None if for_s == inf else NOW_S + for_s
    return Job(id_, id_, "news", "main", JobState.RUNNING, nodes=frozenset(names), end_s=end_s, asks=asks)


def used_by(jobs: Sequence[Job], parts: Mapping[str, Sequence[LentPart]]) -> dict[str, Amount]:
    used: dict[str, Amount] = {}
    for job in jobs:
        for name in job.nodes:
            used[name] = used.get(name, Amount()) + (job.asks or TOTAL)
    for name, lent in parts.items():
        if lent:
            used[name] = sum((part.amount for part in lent), used.get(name, Amount()))
    return used


def clear(plan: PlannedStart) -> Nodes:
    """The nodes on which nothing is given back for a job."""
    return plan.nodes.difference(map(node_of, plan.back))


def shadow_of(
    *jobs: Job,
    lent: Mapping[str, Sequence[LentPart]] = {},
    used: Mapping[str, Amount] | None = None,
    reservations: tuple[Reservation, ...] = (),
) -> Shadow:
    nodes = machine(used_by(jobs, lent) if used is None else used)
    found = Snapshot(NOW_S, nodes, jobs, reservations, PARTITIONS)
    trainers = {name: parts[0].trainer for name, parts in lent.items() if parts}
    return find_shadow(found, FragmentQueue("freetrain"), frozenset(), trainers, BackfillRules(), parts=lent)


def starts(shadow: Shadow) -> dict[str, float]:
    return {plan.job: plan.start_s - NOW_S for plan in shadow.plans}


def four_lent(name: str, trainer: str = "7") -> list[LentPart]:
    return [LentPart(f"{name}#{trainer}_{number}", trainer, gpus(1)) for number in range(4)]


def test_a_job_that_wants_more_than_is_left_starts_when_enough_of_a_node_has_come_free() -> None:
    busy = [running(name, [name], gpus(3), 300.0 * number) for number, name in enumerate(NAMES, 1)]
    shadow = shadow_of(*busy, running("9", ["n2"], gpus(1), 120.0), waiting("10", gpus(2)))
    assert starts(shadow) == {"10": 300.0}
    assert shadow.plans[0].nodes == {"n1"}
    assert shadow.plans[0].beside == {"n1": TOTAL.without(gpus(2))}


def test_what_may_stay_beside_a_job_that_starts_later_is_what_others_have_not() -> None:
    stays, goes = running("8", ["n1"], gpus(1, 4), 5000.0), running("9", ["n1"], gpus(3), 100.0)
    others = [running(name, [name], gpus(4), 5000.0) for name in NAMES[1:]]
    shadow = shadow_of(stays, goes, *others, waiting("10", gpus(2)))
    assert starts(shadow) == {"10": 100.0}
    assert shadow.plans[0].beside["n1"] == Amount(11, 980, (("gpu:a100", 1),))


def test_small_jobs_start_beside_others_and_behind_a_large_one_if_they_end_in_time() -> None:
    busy = [running(name, [name], gpus(2), 600.0) for name in NAMES]
    queue = [waiting("10", gpus(4)), waiting("11", gpus(2), limit_s=480.0), waiting("12", gpus(2), limit_s=1200.0)]
    shadow = shadow_of(*busy, *queue)
    assert starts(shadow) == {"10": 600.0, "11": 0.0, "12": 0.0}
    (planned,) = shadow.plans[0].nodes
    assert shadow.plans[2].nodes.isdisjoint({planned}), "Slurm reserves all of the node for who starts later"


def test_each_task_of_an_array_takes_a_part_of_its_own() -> None:
    shadow = shadow_of(waiting("10", gpus(3), tasks=5))
    now = [plan for plan in shadow.plans if plan.start_s == NOW_S]
    assert sorted(name for plan in now for name in plan.nodes) == list(NAMES)
    assert {plan.start_s - NOW_S for plan in shadow.plans} == {0.0, 600.0}


def test_a_job_that_wants_whole_nodes_waits_for_the_last_part_and_one_with_a_part_keeps_it_from_starting() -> None:
    parts = [running("8", [*NAMES], gpus(1), 100.0), running("9", ["n1"], gpus(1), 400.0)]
    shadow = shadow_of(*parts, waiting("10", None, nodes=3), waiting("11", None, nodes=4))
    assert starts(shadow) == {"10": 100.0, "11": 660.0}
    small_first = shadow_of(waiting("10", gpus(1)), waiting("11", None, nodes=4))
    assert starts(small_first) == {"10": 0.0, "11": 600.0}


def test_nothing_starts_beside_a_job_that_has_all_of_its_node() -> None:
    """All CPUs are used and not all GPUs: how much such a job has is not told."""
    shadow = shadow_of(
        *[running(name, [name], None, 60.0) for name in NAMES], waiting("10", gpus(1)),
        used=dict.fromkeys(NAMES, Amount(16, 1000)),
    )  # fmt: skip
    assert starts(shadow) == {"10": 60.0}


def test_of_who_is_not_told_it_counts_what_nobody_else_has() -> None:
    unclear, known = running("8", NAMES, None, 500.0), running("9", NAMES, gpus(1), 60.0)
    used = dict.fromkeys(NAMES, Amount(8, 80, (("gpu:a100", 3),)))
    lent = {name: [LentPart(f"{name}#7_1", "7", gpus(1))] for name in NAMES}
    shadow = shadow_of(unclear, known, waiting("10", gpus(3)), waiting("11", gpus(4)), used=used, lent=lent)
    assert starts(shadow) == {"10": 60.0, "11": 500.0}


def test_the_type_counts_that_a_job_asks_for() -> None:
    nodes = (*machine({}, (("gpu:h100", 2),))[:1], *machine({})[1:])
    queue = (waiting("10", Amount(1, 10, (("gpu:h100", 2),))), waiting("11", Amount(1, 10, (("gpu:v100", 1),))))
    found = Snapshot(NOW_S, nodes, queue, (), PARTITIONS)
    shadow = find_shadow(found, FragmentQueue("freetrain"), frozenset(), {}, BackfillRules())
    assert [(plan.job, plan.nodes) for plan in shadow.plans] == [("10", {"n1"})]


def test_cores_are_given_whole() -> None:
    nodes = tuple(replace(node, cpus=4, threads_per_core=2) for node in machine({}))
    found = Snapshot(
        NOW_S, nodes, tuple(waiting(str(id_), gpus(1, cpus=1)) for id_ in range(10, 19)), (), PARTITIONS
    )
    shadow = find_shadow(found, FragmentQueue("freetrain"), frozenset(), {}, BackfillRules())
    assert sorted(starts(shadow).values()) == [0.0] * 8 + [600.0]


def test_of_a_core_nobody_else_gets_the_other_thread() -> None:
    nodes = tuple(replace(node, cpus=4, threads_per_core=2, used=Amount(2, 10)) for node in machine({})[:1])
    site = {"main": Partition("main", frozenset({"n1"}))}
    each_has_one_cpu = [running(id_, ["n1"], gpus(0, cpus=1), for_s) for id_, for_s in (("8", 90.0), ("9", 300.0))]
    found = Snapshot(NOW_S, nodes, (*each_has_one_cpu, waiting("10", gpus(0, cpus=2))), (), site)
    shadow = find_shadow(found, FragmentQueue("freetrain"), frozenset(), {}, BackfillRules())
    assert starts(shadow) == {"10": 90.0}


def test_what_one_job_has_taken_is_not_free_for_the_next() -> None:
    lent = {
        "n1": [LentPart(f"n1#7_{number}", "7", gpus(2)) for number in range(2)],
        "n2": four_lent("n2")[:2],
        **{name: [LentPart(f"{name}#7_1", "7", gpus(4, cpus=16))] for name in NAMES[2:]},
    }
    shadow = shadow_of(waiting("10", gpus(2)), waiting("11", gpus(2, cpus=2)), lent=lent)
    assert [(clear(plan), len(plan.back)) for plan in shadow.plans] == [({"n2"}, 0), (set(), 1)]
    again = shadow_of(waiting("10", gpus(2)), waiting("11", gpus(2)), lent={**lent, "n1": lent["n3"]})
    assert again.plans[0].nodes == {"n2"}
    assert "n2" not in again.plans[1].nodes


def test_who_starts_now_takes_what_is_free_and_else_as_few_lent_parts_as_will_do() -> None:
    lent = {"n1": four_lent("n1"), "n2": four_lent("n2")[:3], "n3": four_lent("n3"), "n4": four_lent("n4")}
    shadow = shadow_of(waiting("10", gpus(1)), waiting("11", gpus(1)), waiting("12", gpus(3)), lent=lent)
    assert [(clear(plan), len(plan.back)) for plan in shadow.plans] == [
        ({"n2"}, 0),
        (frozenset(), 1),
        (frozenset(), 3),
    ]
    assert len({place for plan in shadow.plans for place in plan.back}) == 4


def test_of_equal_parts_those_of_the_largest_trainer_are_given_back_and_of_these_the_youngest() -> None:
    since_s = (10.0, 40.0, 20.0)
    of_seven = [replace(part, started_s=at_s) for part, at_s in zip(four_lent("n1"), since_s, strict=False)]
    lent = {"n1": [*of_seven, LentPart("n1#8_0", "8", gpus(1), started_s=90.0)]}
    busy = [running(name, [name], gpus(4), 900.0) for name in NAMES[1:]]
    one, two = (shadow_of(*busy, waiting("10", gpus(count)), lent=lent).plans[0].back for count in (1, 2))
    assert (one, two) == (("n1#7_1",), ("n1#7_1", "n1#7_2"))
    waits = [*of_seven[:2], replace(of_seven[2], started_s=inf, is_used=False)]
    used = {**dict.fromkeys(NAMES[1:], gpus(4)), "n1": gpus(2)}
    (asked,) = shadow_of(*busy, waiting("10", gpus(2)), lent={"n1": waits}, used=used).plans[0].back
    assert asked == "n1#7_2", "what has not begun has nothing to lose"


def test_of_equal_parts_those_of_the_owner_with_most_are_given_back_whatever_the_sizes_of_trainers() -> None:
    small = [LentPart(f"n1#{trainer}_0", trainer, gpus(1), owner="ann") for trainer in "78"]
    mine = [*small, LentPart("n1#9_0", "9", gpus(1), owner="bob"), LentPart("n1#9_1", "9", gpus(1), owner="bob")]
    lent = {"n1": mine, "n2": [LentPart("n2#6_0", "6", gpus(4, cpus=16), owner="ann")]}
    busy = [running(name, [name], gpus(4), 900.0) for name in NAMES[2:]]
    (back,) = shadow_of(*busy, waiting("10", gpus(1)), lent=lent).plans[0].back
    assert back in {"n1#7_0", "n1#8_0"}, "bob has half a node, in the larger trainer, and ann one and a half"


def test_of_equal_parts_those_that_lose_least_are_given_back_whoever_has_most() -> None:
    loses_s = {"7": (300.0, 4.0), "8": (2.0, 45.0)}
    lent = {
        "n1": [
            LentPart(f"n1#{trainer}_{number}", trainer, gpus(1), owner=owner, lost_s=lost_s)
            for (trainer, losses), owner in zip(loses_s.items(), ("ann", "bob"), strict=True)
            for number, lost_s in enumerate(losses)
        ],
        "n2": [LentPart("n2#6_0", "6", gpus(4, cpus=16), owner="ann")],
    }
    busy = [running(name, [name], gpus(4), 900.0) for name in NAMES[2:]]
    (plan,) = shadow_of(*busy, waiting("10", gpus(3)), lent=lent).plans
    assert plan.back == ("n1#7_1", "n1#8_0", "n1#8_1"), "4 s and 2 s are alike, and then ann has most"


def test_nobody_runs_into_a_reservation_with_a_part_either() -> None:
    reserved = Reservation("maintenance", frozenset(NAMES[:3]), NOW_S + 480.0, NOW_S + 3600.0)
    shadow = shadow_of(*[waiting(str(id_), gpus(4)) for id_ in (10, 11)], reservations=(reserved,))
    assert starts(shadow) == {"10": 0.0, "11": 600.0}


def test_thousands_of_parts_take_no_time() -> None:
    names = tuple(f"c{number}" for number in range(1000))
    site = {"main": Partition("main", frozenset(names))}
    nodes = tuple(
        node(name, "MIXED", cpus=64, memory_mb=1000, gres=(("gpu:a100", 8),), threads_per_core=1, used=Amount())
        for name in names
    )
    jobs = [running(f"{number}{name}", [name], gpus(number), 60.0 * number + index % 97)
            for index, name in enumerate(names) for number in (1, 2, 4)]  # fmt: skip
    queue = [
        waiting(str(id_), gpus(id_ % 8 + 1, 1 + id_ % 13), 1 + id_ % 3, 60.0 * (id_ % 50)) for id_ in range(500)
    ]
    shadow = find_shadow(
        Snapshot(NOW_S, nodes, (*jobs, *queue), (), site),
        FragmentQueue("freetrain"),
        frozenset(),
        {},
        BackfillRules(),
    )
    assert {plan.job for plan in shadow.plans} == {job.id for job in queue}


amounts = st.builds(Amount, st.integers(1, 16), st.sampled_from((10, 400)), st.sampled_from((
    (), (("gpu", 1),), (("gpu", 2),), (("gpu", 4),), (("gpu:a100", 3),),
)))  # fmt: skip
queues = st.lists(
    st.builds(
        waiting,
        st.just("1"),
        st.none() | amounts,
        st.integers(1, 3),
        st.sampled_from((60.0, 90.0, 300.0, 1000.0, 4000.0, inf)),
        partition=st.sampled_from(("main", "debug", "main,debug")),
        priority=st.integers(1, 3),
        tasks=st.integers(1, 3),
    ),
    max_size=7,
)
runners = st.lists(
    st.tuples(st.sampled_from(NAMES), amounts, st.sampled_from((-5.0, 30.0, 300.0, 333.0, inf))), max_size=8
)
lent_ones = st.lists(st.tuples(st.sampled_from(NAMES), amounts), max_size=6)


@given(queues, runners, lent_ones)
def test_each_job_starts_now_if_it_can_on_parts_that_nobody_else_has(
    queue: list[Job], runs: list[tuple[str, Amount, float]], lending: list[tuple[str, Amount]]
) -> None:
    site, lent = _that_fit(runs, lending)
    jobs = {str(number): replace(job, id=str(number)) for number, job in enumerate(queue, 10)}
    shadow = shadow_of(*site, *jobs.values(), lent=lent)
    real = _Real(site, lent)
    before: list[PlannedStart] = []
    for plan in shadow.plans:
        job = jobs[plan.job]
        assert len(plan.nodes) % job.node_count == 0
        assert plan.part == job.asks
        assert plan.nodes <= _could_start(job, plan.start_s, site, before, jobs)
        if plan.start_s > NOW_S:
            assert len(_could_start(job, NOW_S, site, before, jobs)) < job.node_count
            for name, left in plan.beside.items():
                assert _left(name, plan.start_s, site, [*_now(before), plan], jobs) == left
        elif job.asks is not None:
            real.start(plan, job.asks)
        before.append(plan)
    assert {plan.job for plan in shadow.plans if plan.start_s == NOW_S} <= shadow.fitting


@given(queues, runners)
def test_a_part_that_is_all_of_a_node_is_the_node(queue: list[Job], runs: list[tuple[str, Amount, float]]) -> None:
    site = {name: running(name, [name], None, for_s) for name, _, for_s in runs}
    jobs = [replace(job, id=str(number), asks=None, tasks=1) for number, job in enumerate(queue, 10)]
    whole = shadow_of(*site.values(), *jobs)
    parts = shadow_of(*(replace(job, asks=TOTAL) for job in (*site.values(), *jobs)))
    assert _by_job(whole) == _by_job(parts)
    assert whole.fitting == parts.fitting


def _by_job(shadow: Shadow) -> dict[str, list[float]]:
    """Job → the start of each of its nodes."""
    found: dict[str, list[float]] = {}
    for plan in shadow.plans:
        found.setdefault(plan.job, []).extend([plan.start_s] * len(plan.nodes))
    return found


def _that_fit(
    runs: list[tuple[str, Amount, float]], lending: list[tuple[str, Amount]]
) -> tuple[list[Job], dict[str, list[LentPart]]]:
    """Those of them for which there is room on their nodes, one after the other."""
    free, site, lent = dict.fromkeys(NAMES, TOTAL), [], {name: list[LentPart]() for name in NAMES}
    for number, (name, amount, for_s) in enumerate(runs):
        if amount.fits(free[name]):
            free[name] = free[name].without(amount)
            site.append(running(f"9{number}", [name], amount, for_s))
    for number, (name, amount) in enumerate(lending):
        if amount.fits(free[name]):
            free[name] = free[name].without(amount)
            lent[name].append(LentPart(f"{name}#7_{number}", "7", amount))
    return site, lent


class _Real:
    """The real world, in which fragments have parts of nodes."""

    def __init__(self, site: Sequence[Job], lent: Mapping[str, Sequence[LentPart]]) -> None:
        used = used_by(site, lent)
        self.free = {name: TOTAL.without(used.get(name, Amount())) for name in NAMES}
        self.lent = {part.place: (name, part.amount) for name, parts in lent.items() for part in parts}

    def start(self, plan: PlannedStart, part: Amount) -> None:
        """Give back what the plan gives back; then there is room, unless the site's own job is still there."""
        for place in plan.back:
            name, amount = self.lent.pop(place)
            assert name in plan.nodes - clear(plan)
            self.free[name] = self.free[name] + amount
        for name in plan.nodes:
            assert part.fits(self.free[name])
            self.free[name] = self.free[name].without(part)


def _now(before: Sequence[PlannedStart]) -> list[PlannedStart]:
    return [plan for plan in before if plan.start_s == NOW_S]


def _left(
    name: str, moment_s: float, site: Sequence[Job], plans: Sequence[PlannedStart], jobs: Mapping[str, Job]
) -> Amount:
    """What running jobs and these plans leave of a node then."""
    room = TOTAL
    for job in site:
        if name in job.nodes and max(job.end_s or inf, NOW_S + 1) > moment_s:
            room = room.without(job.asks or TOTAL)
    for plan in plans:
        if name in plan.nodes and plan.start_s <= moment_s < plan.start_s + _limit_of(jobs[plan.job]):
            room = room.without(plan.part or TOTAL)
    return room


def _could_start(
    job: Job, moment_s: float, site: Sequence[Job], before: Sequence[PlannedStart], jobs: Mapping[str, Job]
) -> set[str]:
    """Nodes with room for it then that Slurm has reserved for nobody while it runs."""
    end_s = moment_s + _limit_of(job)
    reserved = {
        name
        for plan in before
        if plan.start_s > NOW_S
        if plan.start_s // 60 * 60 <= end_s
        and max((plan.start_s + _limit_of(jobs[plan.job])) // 60 * 60, plan.start_s // 60 * 60 + 60) > moment_s
        for name in plan.nodes
    }
    mine = {name for each in job.partition.split(",") for name in PARTITIONS[each].nodes}
    found = set()
    for name in mine - reserved:
        left = _left(name, moment_s, site, _now(before), jobs)
        if left == TOTAL if job.asks is None else job.asks.fits(left):
            found.add(name)
    return found


def _limit_of(job: Job) -> float:
    return min([job.limit_s, 365 * 86400.0, *(PARTITIONS[each].max_time_s for each in job.partition.split(","))])
