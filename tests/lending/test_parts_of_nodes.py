"""What follows from a look where nodes are lent in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from freetrain.core.amounts import Amount, Gres
from freetrain.core.cluster import Snapshot
from freetrain.core.data_wait import DataWait, WaitProfile
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.core.node import Node, Partition, Reservation
from freetrain.core.place import node_of
from freetrain.core.plan import Lend, Limit, Release, plan_moves
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Facts, Request
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.rooms import find_rooms
from freetrain.lending.rules import FragmentRules, HarmRules, NodeRules, Rules, Share, SharingRules
from freetrain.slurm.asking import parse_asks
from freetrain.slurm.parsing import parse_nodes
from tests.facts import node

RECORDED = Path(__file__).parents[1] / "slurm" / "recorded"
NOW_S = 1_000_000.0
NAMES = ("n1", "n2", "n3")
GPUS = (("gpu:a100", 8),)
NODES = NodeRules(FragmentQueue("freetrain"), margin_s=10.0, share=Share.ANY)
RULES = Rules(
    nodes=NODES,
    fragments=FragmentRules(longest_s=3600.0, planning_s=30.0, start_within_s=60.0),
    harm=HarmRules(delay_s=60.0, within_s=3600.0, allowed=2, pause_s=600.0),
    sharing=SharingRules(),
    objective="throughput",
    horizon_s=120.0,
)
ONE_GPU = Needs(cpus=2, memory_mb=100, gres=(("gpu", 1),), is_whole=False).lent_in_part()
NO_GPU = Needs(cpus=2, memory_mb=100, is_whole=False).lent_in_part()
WHOLE = Needs(gres=(("gpu", 1),), is_whole=True)


def gpu_node(name: str, cpus: int = 0, memory_mb: int = 0, gpus: int = 0, gres: Gres = GPUS) -> Node:
    """A node of 64 CPUs and eight GPUs, of which jobs have so much."""
    used = Amount(cpus, memory_mb, (("gpu:a100", gpus),) if gpus else ())
    state = "MIXED" if cpus else "IDLE"
    return node(name, state, cpus=64, memory_mb=1000, gres=gres, threads_per_core=1, used=used)


def snapshot(*nodes: Node, jobs: Iterable[Job] = (), reservations: tuple[Reservation, ...] = ()) -> Snapshot:
    names = frozenset(node.name for node in nodes)
    partitions = {
        name: Partition(name, names, priority_tier=tier) for name, tier in (("main", 9), ("freetrain", 1))
    }
    return Snapshot(NOW_S, nodes, tuple(jobs), reservations, partitions)


def site_job(*names: str, id_: str = "5") -> Job:
    return Job(id_, id_, "games", "main", JobState.RUNNING, nodes=frozenset(names), start_s=NOW_S - 500)


def request(trainer: str, needs: Needs, owner: str = "news", most: int = 99) -> Request:
    return Request(Trainer(trainer, ((1, 1.0), (most, float(most)))), owner, needs=needs)


def lent(name: str, task: int, trainer: str = "7", state: FragmentState = FragmentState.RUNNING) -> Fragment:
    return Fragment(f"{trainer}_{task}", trainer, name, state, NOW_S - 50, 3600.0, NOW_S - 49)


def judged(
    seen: Snapshot,
    *requests: Request,
    lent_parts: Iterable[Fragment] = (),
    rules: Rules = RULES,
    **facts: Mapping[str, Any],
) -> Judgement:
    ours = [
        Job(
            fragment.job, fragment.trainer, "news", "freetrain", JobState.RUNNING, nodes=frozenset({fragment.node})
        )
        for fragment in lent_parts
        if fragment.state is FragmentState.RUNNING
    ]
    seen = replace(seen, jobs=(*seen.jobs, *ours))
    return judge(Facts(seen, tuple(lent_parts), requests=requests, **facts), Memory(), rules)


def places(found: Judgement, trainer: str) -> list[str]:
    """The nodes of the places that are asked about for a trainer, one for each."""
    return [
        place.node
        for nodes, trainers in found.questions
        for place in nodes
        if trainer in [trainer.id for trainer in trainers]
    ]


def test_what_the_sites_jobs_leave_of_a_node_is_lent() -> None:
    seen = snapshot(gpu_node("n1", 10, 100, 5), gpu_node("n2", 61, 0, 0), jobs=[site_job("n1", "n2")])
    found = judged(seen, request("7", ONE_GPU))
    assert sorted(places(found, "7")) == ["n1", "n1", "n1", "n2"]
    assert found.offers.withheld == {}


def test_where_whole_nodes_are_lent_none_with_a_job_is() -> None:
    seen = snapshot(gpu_node("n1", 10, 100, 5), jobs=[site_job("n1")])
    rules = replace(RULES, nodes=replace(NODES, share=Share.WHOLE))
    assert judged(seen, request("7", ONE_GPU), rules=rules).offers.withheld == {"n1": "job 5 runs here"}


def test_what_the_site_keeps_back_stays_free() -> None:
    keep = Amount(58, 0, (("gpu", 1),))
    rules = replace(RULES, nodes=replace(NODES, keep=keep))
    assert places(judged(snapshot(gpu_node("n1")), request("7", ONE_GPU), rules=rules), "7") == ["n1"] * 3


def test_who_takes_whole_nodes_gets_those_only_on_which_nobody_is() -> None:
    seen = snapshot(gpu_node("n1", 1), gpu_node("n2"), jobs=[site_job("n1")])
    found = judged(seen, request("7", WHOLE))
    assert [place.name for place in found.questions[0][0]] == ["n2"]


def test_with_gpus_only_tasks_without_them_get_whole_nodes() -> None:
    assert Share.GPUS.in_part(replace(ONE_GPU, in_part=False))
    assert not Share.GPUS.in_part(replace(NO_GPU, in_part=False))
    assert Share.ANY.in_part(replace(NO_GPU, in_part=False))
    assert not Share.ANY.in_part(WHOLE), "its partition gives whole nodes"


def test_a_fragment_that_has_not_started_has_its_part_already() -> None:
    asked = [lent("n1", number, state=FragmentState.ASKED) for number in range(3)]
    found = judged(snapshot(gpu_node("n1")), request("7", ONE_GPU), lent_parts=asked)
    assert len(places(found, "7")) == 8
    assert {"n1#7_0", "n1#7_1", "n1#7_2"} < {place.name for place in found.questions[0][0]}


def test_what_a_job_of_the_sites_took_before_it_began_is_given_back_at_once_and_its_node_does_not_rest() -> None:
    """The job has six of eight GPUs: the first two that were asked for may start, beside none that leaves."""
    asked = [lent("n1", number, state=FragmentState.ASKED) for number in range(4)]
    late = [replace(fragment, started_s=None, asked_s=NOW_S - 500) for fragment in asked]
    job = replace(site_job("n1"), asks=Amount(12, 600, (("gpu", 6),)))
    seen = snapshot(gpu_node("n1", 12, 600, 6), gpu_node("n2"), jobs=[job])
    found = judged(seen, request("7", ONE_GPU), lent_parts=asked)
    why = "a job of the site's has begun there before it"
    assert found.offers.due == {"n1#7_2": why, "n1#7_3": why}
    assert places(found, "7").count("n1") == 2
    assert judged(seen, request("7", ONE_GPU), lent_parts=late[2:]).memory.sightings.start_timeouts_s == {
        "n1": 60.0
    }
    only = judged(
        replace(seen, jobs=(replace(job, asks=Amount(16, 800, GPUS)),)), request("7", ONE_GPU), lent_parts=late
    )
    assert only.offers.due == dict.fromkeys((fragment.place for fragment in late), why)
    assert only.memory.sightings.start_timeouts_s == {}


def test_what_waits_for_a_fragment_that_leaves_or_beside_a_job_of_unknown_size_goes_on_waiting() -> None:
    leaving = [lent("n1", number, state=FragmentState.LEAVING) for number in range(8)]
    asked = [lent("n1", 9, "8", FragmentState.ASKED)]
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[site_job("n1")])
    both = request("7", ONE_GPU), request("8", ONE_GPU, "games")
    found = judged(seen, *both, lent_parts=[*leaving, *asked])
    assert found.offers.due == {}


def test_each_part_that_is_lent_is_kept_given_back_and_limited_by_itself() -> None:
    parts = [lent("n1", 0), lent("n1", 1, "8"), lent("n2", 2)]
    seen = snapshot(gpu_node("n1", 4, 200, 2), gpu_node("n2", 2, 100, 1))
    found = judged(seen, request("7", ONE_GPU), lent_parts=parts)
    assert found.offers.due == {"n1#8_1": "trainer 8 does not compete for nodes"}
    kept = {place.name for place in found.questions[0][0] if place.holder == "7"}
    assert kept == {"n1#7_0", "n2#7_2"}
    late = replace(RULES, fragments=replace(RULES.fragments, longest_s=99_999.0))
    orders = judged(seen, request("7", ONE_GPU), lent_parts=parts, rules=late).orders
    limits = [order for order in orders if isinstance(order, Limit)]
    assert {name for order in limits for name in order.nodes} == {"n1#7_0", "n2#7_2"}


def test_a_node_that_is_wanted_gives_all_its_parts_back() -> None:
    soon = Reservation("maint", frozenset({"n1"}), NOW_S + 5, NOW_S + 999)
    seen = snapshot(gpu_node("n1", 4, 200, 2), gpu_node("n2"), reservations=(soon,))
    parts = [lent("n1", 0), lent("n1", 1)]
    found = judged(seen, request("7", ONE_GPU), lent_parts=parts)
    assert found.offers.due == dict.fromkeys(("n1#7_0", "n1#7_1"), "reservation maint")
    assert set(places(found, "7")) == {"n2"}


def test_new_places_are_lent_by_the_names_of_their_nodes_and_for_as_long_as_their_holes() -> None:
    found = judged(snapshot(gpu_node("n1")), request("7", ONE_GPU, most=2))
    ((nodes, _),) = found.questions
    (action,) = plan_moves({}, {"7": tuple(place.name for place in nodes[:2])})
    assert isinstance(action, Lend)
    assert [node_of(name) for name in action.nodes] == ["n1", "n1"]
    assert [found.limit_s(name) for name in action.nodes] == [3600.0, 3600.0]


def test_users_share_parts_of_nodes_and_who_has_too_much_gives_parts_up() -> None:
    parts = [lent("n1", number) for number in range(8)]
    found = judged(
        snapshot(gpu_node("n1", 16, 800, 8)),
        request("7", ONE_GPU),
        request("8", ONE_GPU, "games"),
        lent_parts=parts,
    )
    (release,) = [order for order in found.orders if isinstance(order, Release)]
    assert (len(release.nodes), release.trainer, release.why) == (4, "7", "the share of user games")
    assert len(places(found, "8")) == 4


def test_of_two_types_of_gpus_each_user_has_the_one_that_his_trainer_can_use_beside_the_other() -> None:
    seen = snapshot(gpu_node("n1"), gpu_node("n2", gres=(("gpu:h100", 8),)))
    found = judged(seen, request("7", ONE_GPU), request("8", ONE_GPU, owner="games"))
    assert (places(found, "7"), places(found, "8")) == (["n1"] * 8, ["n2"] * 8)


@pytest.mark.parametrize("parts", ["shard:a100", "shard", "mps", "mps:a100"])
def test_where_parts_of_gpus_are_used_no_gpu_is_lent_and_beside_used_gpus_the_others_are(parts: str) -> None:
    gres = tuple(sorted((*GPUS, ("nvme", 2), (parts, 400))))
    divided = gpu_node("n1", 1, gres=gres)

    def left(*used: tuple[str, int]) -> Gres:
        rooms, _ = find_rooms(Facts(snapshot(replace(divided, used=Amount(1, 0, used)))), NODES)
        assert rooms is not None
        return rooms["n1"].free.gres

    assert left() == gres
    assert left((parts, 100)) == (("nvme", 2),)
    assert left(("gpu:a100", 1)) == tuple(sorted((("gpu:a100", 7), ("nvme", 2), (parts, 350))))
    assert left(("nvme", 1)) == tuple(sorted((*GPUS, ("nvme", 1), (parts, 400)))), "that is no GPU"


def recorded_nodes(name: str) -> list[Node]:
    nodes, rejected = parse_nodes((RECORDED / f"{name}_22.05.txt").read_text(), in_parts=True)
    assert rejected == []
    return nodes


def test_nodes_of_a_slurm_without_generic_resources_are_lent_in_parts() -> None:
    found = judged(snapshot(*recorded_nodes("nodes_without_gres")), request("7", NO_GPU))
    assert places(found, "7") == [name for name in ("n001", "n002", "n003") for _ in range(2)]


def test_of_recorded_nodes_with_mps_no_gpu_is_lent_beside_used_parts_and_no_part_of_used_gpus() -> None:
    """Jobs run there with ``--gres=mps:100``, with ``--gres=gpu:1``, and with a GPU of a node without mps."""
    nodes = recorded_nodes("nodes_with_mps")
    seen = snapshot(*nodes, jobs=[site_job(*(node.name for node in nodes))])
    assert places(judged(seen, request("7", ONE_GPU)), "7") == ["n002"] * 3 + ["n003"] * 7
    assert places(judged(seen, request("7", replace(ONE_GPU, gres=(("mps", 100),)))), "7") == ["n002"] * 3


def test_a_job_that_waits_for_parts_of_a_gpu_is_given_a_gpu_that_is_lent() -> None:
    """It was believed to have room beside four fragments with a GPU each, and waited until they left."""
    first, second, _ = recorded_nodes("nodes_with_mps")
    full = replace(first, used=Amount(8, 400, (("gpu:a100", 4),)))
    parts, job = [lent("n001", number) for number in range(4)], waiting_job(Amount(1, 20, (("mps", 100),)))
    found = judged(snapshot(full, jobs=[job]), request("7", ONE_GPU), lent_parts=parts)
    assert list(found.offers.due.values()) == ["job 9 could start here"]
    beside = judged(
        snapshot(full, replace(second, used=Amount()), jobs=[job]), request("7", ONE_GPU), lent_parts=parts
    )
    assert beside.offers.due == {}
    assert places(beside, "7").count("n002") == 3, "one of the four is for the job"


def test_an_exclusive_job_takes_nothing_of_nodes_that_have_too_few_gpus_for_it() -> None:
    """Recorded of ``--exclusive --gres=gpu:8`` and ``--exclusive --gpus=8``."""
    first, _, large = recorded_nodes("nodes_with_mps")
    used = Amount(8, 400, (("gpu:a100", 4),))
    parts = [lent(name, number) for number, name in enumerate(("n001", "n003") * 4)]
    seen = (replace(first, used=used), replace(large, used=used))
    asks = parse_asks((RECORDED / "exclusive_needs_22.05.txt").read_text())
    for asked in (asks["4"], asks["6"]):
        job = waiting_job(asked.part, least=asked.least)
        on_both = judged(snapshot(*seen, jobs=[job]), request("7", ONE_GPU), lent_parts=parts)
        assert sorted(map(node_of, on_both.offers.due)) == ["n003"] * 4
        on_small = judged(snapshot(seen[0], jobs=[job]), request("7", ONE_GPU), lent_parts=parts[::2])
        assert on_small.offers.due == {}


def test_a_job_that_wants_all_of_a_larger_node_takes_nothing_back() -> None:
    parts = [lent("n1", number) for number in range(8)]
    wants = Job("9", "9", "games", "main", JobState.PENDING, least=Amount(1, 0, (("gpu", 16),)))
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[wants])
    assert judged(seen, request("7", ONE_GPU), lent_parts=parts).offers.due == {}
    fits = snapshot(gpu_node("n1", 16, 800, 8), jobs=[replace(wants, least=Amount(1, 0, GPUS))])
    assert len(judged(fits, request("7", ONE_GPU), lent_parts=parts).offers.due) == 8


def test_a_node_of_which_nobody_asked_how_much_is_used_is_not_lent() -> None:
    unknown = replace(gpu_node("n1", 1), used=None)
    found = judged(snapshot(unknown), request("7", ONE_GPU))
    assert (places(found, "7"), found.offers.withheld) == ([], {"n1": "jobs have all of it"})


def test_parts_lent_before_are_given_back_where_whole_nodes_are_lent_now() -> None:
    parts = [lent("n1", 0), lent("n1", 1)]
    rules = replace(RULES, nodes=replace(NODES, share=Share.WHOLE))
    found = judged(snapshot(gpu_node("n1", 4, 200, 2)), request("7", WHOLE), lent_parts=parts, rules=rules)
    assert found.offers.due == {"n1": "it was lent in parts before"}


def waiting_job(asks: Amount | None, id_: str = "9", **facts: object) -> Job:
    """One of the site's that waits for nothing but room."""
    job = Job(id_, id_, "games", "main", JobState.PENDING, submitted_s=NOW_S - 1, asks=asks)
    return replace(job, **facts)  # type: ignore[arg-type]


def test_a_job_that_waits_for_two_gpus_is_given_two_gpus_and_not_a_node() -> None:
    parts = [lent("n1", number) for number in range(8)]
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[waiting_job(Amount(2, 100, (("gpu", 2),)))])
    found = judged(seen, request("7", ONE_GPU), lent_parts=parts)
    assert len(found.offers.due) == 2
    assert set(found.offers.due.values()) == {"job 9 could start here"}
    assert len(places(found, "7")) == 6


def test_a_job_that_fits_beside_what_is_lent_finds_its_part_free_and_nothing_is_given_back() -> None:
    seen = snapshot(gpu_node("n1", 8, 400, 4), jobs=[waiting_job(Amount(2, 100, (("gpu", 3),)))])
    found = judged(seen, request("7", ONE_GPU), lent_parts=[lent("n1", number) for number in range(4)])
    assert found.offers.due == {}
    assert len(places(found, "7")) == 5
    assert (found.shadow.plans[0].nodes, found.shadow.plans[0].back) == ({"n1"}, ())


def test_what_is_on_its_way_back_is_not_taken_from_others_again() -> None:
    states = [FragmentState.LEAVING] * 2 + [FragmentState.RUNNING] * 6
    parts = [lent("n1", number, state=state) for number, state in enumerate(states)]
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[waiting_job(Amount(2, 100, (("gpu", 2),)))])
    assert judged(seen, request("7", ONE_GPU), lent_parts=parts).offers.due == {}


def test_a_task_that_would_begin_anew_is_given_back_after_trainings_that_go_on() -> None:
    tasks = [lent("n1", number) for number in range(6)]
    parts = [*tasks, *(lent("n1", number, "8") for number in range(2))]
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[waiting_job(Amount(2, 100, (("gpu", 2),)))])
    alone = replace(request("7", ONE_GPU).trainer, independent=True)
    for most_lost_s, trainer in ((inf, "8"), (0.0, "7")):
        two = (
            replace(request("7", ONE_GPU), trainer=alone, most_lost_s=most_lost_s),
            request("8", ONE_GPU, "games"),
        )
        due = judged(seen, *two, lent_parts=parts).offers.due
        assert {name.partition("#")[2][0] for name in due} == {trainer}


def test_of_several_nodes_the_one_is_taken_that_slurm_would_take() -> None:
    parts = [*(lent("n1", number) for number in range(8)), *(lent("n2", number) for number in range(8, 12))]
    seen = snapshot(
        gpu_node("n1", 16, 800, 8), gpu_node("n2", 8, 400, 7), jobs=[waiting_job(Amount(2, 100, (("gpu", 3),)))]
    )
    due = judged(seen, request("7", ONE_GPU), lent_parts=parts).offers.due
    assert [node_of(name) for name in due] == ["n1"] * 3, "it may preempt there before anything is given back"


def test_jobs_claim_one_beside_the_other_in_slurms_order() -> None:
    five, six = (waiting_job(Amount(1, 10, (("gpu", count),)), f"{count}", priority=count) for count in (5, 6))
    jobs = [five, six]
    found = judged(snapshot(gpu_node("n1"), jobs=jobs), request("7", ONE_GPU))
    assert [(plan.job, plan.by_backfill) for plan in found.shadow.plans] == [("6", False)]
    assert len(places(found, "7")) == 2
    nine = waiting_job(Amount(1, 10, (("gpu", 9),)), "3", priority=9)
    behind = judged(snapshot(gpu_node("n1"), jobs=[five, nine]), request("7", ONE_GPU))
    assert [(plan.job, plan.by_backfill) for plan in behind.shadow.plans] == [("5", True)]
    both = judged(snapshot(gpu_node("n1"), gpu_node("n2"), jobs=jobs), request("7", ONE_GPU))
    assert {plan.job for plan in both.shadow.plans} == {"5", "6"}


def test_a_job_that_does_not_start_on_the_part_kept_for_it_keeps_it_no_longer() -> None:
    seen = snapshot(gpu_node("n1"), jobs=[waiting_job(Amount(2, 100, (("gpu", 2),)))])
    memory = judged(seen, request("7", ONE_GPU)).memory
    later = replace(seen, time_s=NOW_S + NODES.claim_s)
    found = judge(Facts(later, requests=(request("7", ONE_GPU),)), memory, RULES)
    assert len(places(found, "7")) == 8
    assert found.memory.sightings.fitting_since_s == {"9": NOW_S}, "or it would be believed again at the next look"


@pytest.mark.parametrize("node_count", [1, 2])
def test_a_job_that_wants_whole_nodes_gets_whole_nodes(node_count: int) -> None:
    seen = snapshot(
        gpu_node("n1", 2, 100, 1), gpu_node("n2", 2, 100, 1), jobs=[waiting_job(None, node_count=node_count)]
    )
    parts = [lent("n1", 1), lent("n2", 2)]
    due = judged(seen, request("7", ONE_GPU), lent_parts=parts).offers.due
    assert len({node_of(name) for name in due}) == node_count


def test_the_meter_expects_the_start_of_a_job_that_waits_for_parts() -> None:
    parts = [lent("n1", number) for number in range(8)]
    seen = snapshot(gpu_node("n1", 16, 800, 8), jobs=[waiting_job(Amount(2, 100, (("gpu", 2),)))])
    assert "9" in judged(seen, request("7", ONE_GPU), lent_parts=parts).memory.meter.expected
    clear = snapshot(gpu_node("n1", 2, 100, 1), jobs=[waiting_job(Amount(2, 100, (("gpu", 2),)))])
    assert judged(clear, request("7", ONE_GPU), lent_parts=parts[:1]).memory.meter.expected == {}


def new_places(found: Judgement, trainer: str) -> list[str]:
    return [
        place.name
        for nodes, trainers in found.questions
        for place in nodes
        if place.holder is None and trainer in [trainer.id for trainer in trainers]
    ]


def test_what_a_finisher_is_told_of_new_parts() -> None:
    """64 CPUs and eight GPUs, of which jobs have 14 and two; each of four tasks asks for two CPUs and a GPU."""
    seen = snapshot(gpu_node("n1", 14, 100, 2), jobs=[site_job("n1")])
    waits = {"7": WaitProfile((DataWait(0.5),))}
    cached = replace(request("7", ONE_GPU, most=2), cache_mb=500)
    found = judged(seen, cached, request("8", ONE_GPU, "games", 2), data_waits=waits)
    (node,) = found.shared_nodes({"7": new_places(found, "7")})
    assert (node.name, node.spare.cpus, node.free_gpus, node.threads_per_core) == ("n1", 50 - 4 * 2, 6, 1)
    assert [(part.asks.cpus, part.data_wait_share, part.cache_mb) for part in node.parts] == [(2, 0.5, 500)] * 2


def test_new_parts_of_several_trainings_on_a_node_are_told_together() -> None:
    found = judged(snapshot(gpu_node("n1")), request("7", ONE_GPU, most=2), request("8", ONE_GPU, "games", 2))
    (node,) = found.shared_nodes({trainer: new_places(found, trainer) for trainer in ("7", "8")})
    assert [part.trainer for part in node.parts] == ["7", "7", "8", "8"]
    assert (node.spare.cpus, node.free_gpus) == (64 - 4 * 2, 8)


def test_a_training_that_had_more_cpus_than_it_asks_for_waits_longer_without_them() -> None:
    seen, trainer = snapshot(gpu_node("n1")), request("7", ONE_GPU, most=2)
    found = judged(seen, trainer, data_waits={"7": WaitProfile((DataWait(0.2, 8),))})
    (node,) = found.shared_nodes({"7": new_places(found, "7")})
    assert [(part.asks.cpus, part.data_wait_share) for part in node.parts] == [(2, pytest.approx(0.8))] * 2
    assert {part.profile for part in node.parts} == {WaitProfile((DataWait(0.2, 8),))}


def test_a_fragment_that_was_asked_for_with_more_has_more() -> None:
    seen = snapshot(gpu_node("n1"))
    asked = lent("n1", 1, state=FragmentState.ASKED)
    amounts = {asked.job: Amount(20, 100, (("gpu", 1),))}
    rooms, _ = find_rooms(Facts(seen, (asked,), requests=(request("7", ONE_GPU),), amounts=amounts), NODES)
    assert rooms is not None
    assert rooms["n1"].free == Amount(44, 900, (("gpu:a100", 7),))


def test_of_whole_nodes_a_finisher_is_told_nothing() -> None:
    rules = replace(RULES, nodes=replace(NODES, share=Share.WHOLE))
    found = judged(snapshot(gpu_node("n1")), request("7", WHOLE), rules=rules)
    assert list(found.shared_nodes({"7": ["n1"]})) == []
