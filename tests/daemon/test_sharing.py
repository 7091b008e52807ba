"""Who gets what: nothing that one user hands in takes what is another's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.core.node import NodeState
from freetrain.core.throughput import Observation
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.lending.rules import FairShare, SharingRules
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

HOSTILE = {
    "ten trainings": ["min=1"] * 10,
    "too large for its share": ["min=9"] * 22,
    "larger than everything": ["min=17"] * 22,
    "exactly its share": ["min=8"] * 22,
    "a curve of 1e9": ["curve=1:1/8:1000000000"] * 2,
    "8-8 and a curve of 1e9": ["min=8,max=8,curve=8:1e9"] * 2,
    "a great weight": ["weight=100"] * 3,
    "costs that are not true": ["grow=0,shrink=1e15,start=0,weight=100"] * 2,
}


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm([f"n{number:02}" for number in range(1, 17)])


def submit(slurm: FakeSlurm, user: str, *tags: str, tasks: int = 17) -> list[str]:
    return [slurm.submit_array(f"freetrain:{tag}", tasks=tasks, user=user) for tag in tags]


def size(slurm: FakeSlurm, *arrays: str) -> int:
    return sum(len(slurm.running(array)) for array in arrays)


def waits_for(daemon: Daemon) -> dict[str, str]:
    return dict(daemon.waits_for)


@pytest.mark.parametrize("tags", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("first", ["hostile", "honest", pytest.param("both", marks=pytest.mark.soak)])
def test_within_two_looks_an_honest_training_has_half_whatever_another_user_hands_in(
    slurm: FakeSlurm, start_daemon: StartDaemon, tags: list[str], first: str
) -> None:
    daemon = start_daemon()
    who = {"hostile": ("games", tags), "honest": ("news", ["min=1"])}
    (one, other) = ("honest", "hostile") if first == "honest" else ("hostile", "honest")
    arrays = {one: submit(slurm, who[one][0], *who[one][1])}
    if first != "both":
        daemon.cycle()
        daemon.cycle()
    arrays[other] = submit(slurm, who[other][0], *who[other][1])
    daemon.cycle()
    daemon.cycle()
    assert size(slurm, *arrays["honest"]) >= 8
    before = slurm.running(arrays["honest"][0])
    for _ in range(3):
        daemon.cycle()
    assert slurm.running(arrays["honest"][0]) == before, "and it keeps them"


def test_a_lie_takes_nothing_from_two_honest_trainings(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    honest = [*submit(slurm, "news", "min=1"), *submit(slurm, "backup", "min=1")]
    daemon = start_daemon()
    daemon.cycle()
    lie = submit(slurm, "games", "min=8,max=8,curve=8:1e9")
    for _ in range(3):
        daemon.cycle()
    assert [size(slurm, array) for array in honest] == [8, 8]
    assert waits_for(daemon) == {lie[0]: "needs 8 nodes at once; its user's share is 0 nodes"}


def test_trainers_that_cannot_start_block_nobody(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    for name in list(slurm.nodes)[7:]:
        slurm.nodes[name] = replace(slurm.nodes[name], state=NodeState.DOWN)
    many = submit(slurm, "games", *["min=8"] * 22)
    own = submit(slurm, "games", "min=2")
    other = submit(slurm, "news", "min=1")
    daemon = start_daemon(max_running=20)
    daemon.cycle()
    assert (size(slurm, *own), size(slurm, *other)) in ((3, 4), (4, 3))
    assert waits_for(daemon) == dict.fromkeys(many, "needs 8 nodes at once; 7 are idle or lent")


def test_who_may_run_goes_round_the_users(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    many = submit(slurm, "games", *["min=1,max=2"] * 5)
    late = submit(slurm, "news", "min=1")
    daemon = start_daemon(max_running=3)
    daemon.cycle()
    assert [size(slurm, array) for array in (*many, *late)] == [2, 2, 0, 0, 0, 12]
    assert set(waits_for(daemon).values()) == {"3 trainings run before it (lend.max_running)"}


def test_a_trainer_waits_for_those_of_its_own_user(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    first, second, third = submit(slurm, "games", "min=4,max=8", "min=4,max=4", "min=9")
    submit(slurm, "news", "min=1")
    daemon = start_daemon()
    daemon.cycle()
    assert (
        waits_for(daemon)[third]
        == f"needs 9 nodes at once; its user's share is 8 nodes, lent to {first}, {second}"
    )


def test_limits_of_nodes_and_trainers_per_user(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    one, two, three = submit(slurm, "games", "min=1", "min=1", "min=1")
    other = submit(slurm, "news", "min=1")
    sharing = SharingRules(most_nodes_per_user=5, most_trainers_per_user=2)
    daemon = start_daemon(sharing=sharing)
    daemon.cycle()
    daemon.cycle()
    assert size(slurm, one, two, three) == size(slurm, *other) == 5
    assert waits_for(daemon) == {three: "its user has 2 trainings before it (lend.most_trainers_per_user)"}
    daemon.loop.rules = replace(daemon.loop.rules, sharing=replace(sharing, most_nodes_per_user=1))
    for _ in range(3):
        daemon.cycle()
    assert size(slurm, one, two, three) == size(slurm, *other) == 1
    assert "cap of 1 node per user, lent to" in waits_for(daemon)[one if slurm.running(two) else two]


def test_accounts_share_and_may_be_limited(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    arrays = {user: submit(slurm, user, "min=1")[0] for user in ("games", "news", "backup")}
    accounts = {arrays["games"]: "x", arrays["news"]: "y", arrays["backup"]: "y"}
    slurm.jobs = {id_: replace(job, account=accounts[job.array]) for id_, job in slurm.jobs.items()}
    daemon = start_daemon(sharing=SharingRules(FairShare.ACCOUNT))
    daemon.cycle()
    daemon.cycle()
    assert {user: size(slurm, array) for user, array in arrays.items()} == {"games": 8, "news": 4, "backup": 4}
    daemon.loop.rules = replace(daemon.loop.rules, sharing=SharingRules(most_nodes_per_account=6))
    for _ in range(3):
        daemon.cycle()
    assert {user: size(slurm, array) for user, array in arrays.items()} == {"games": 6, "news": 3, "backup": 3}


def test_without_fair_share_all_trainers_compete(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    many = submit(slurm, "games", *["min=1"] * 3)
    other = submit(slurm, "news", "min=1")
    daemon = start_daemon(sharing=SharingRules(FairShare.OFF))
    for _ in range(3):
        daemon.cycle()
    assert size(slurm, *many) == 12
    assert size(slurm, *other) == 4


def test_the_site_may_give_a_user_more(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    more, less = submit(slurm, "games", "min=1"), submit(slurm, "news", "min=1")
    daemon = start_daemon(sharing=SharingRules(shares={"games": 3.0}))
    daemon.cycle()
    assert (size(slurm, *more), size(slurm, *less)) == (12, 4)


def test_past_use_tilts_shares_and_never_below_half_of_an_equal_one(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    old = submit(slurm, "games", "min=1")
    daemon = start_daemon(sharing=SharingRules(half_life_s=86400.0))
    for _ in range(4):
        daemon.cycle(after_s=40000.0)
    new = submit(slurm, "news", "min=1")
    daemon.cycle()
    daemon.cycle()
    assert (size(slurm, *old), size(slurm, *new)) == (5, 11)
    others = [submit(slurm, user, "min=1") for user in ("backup", "daemon")]
    daemon.cycle()
    daemon.cycle()
    assert size(slurm, *old) >= 2
    assert sum(size(slurm, *each) for each in (old, new, *others)) == 16


def test_where_there_are_more_users_than_nodes_all_have_their_turn(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    arrays = [submit(slurm, f"u{number}", "min=8,max=8")[0] for number in range(4)]
    daemon = start_daemon(sharing=SharingRules(half_life_s=86400.0))
    served = set()
    for _ in range(12):
        daemon.cycle(after_s=2000.0)
        served |= {array for array in arrays if slurm.running(array)}
    assert served == set(arrays)


def test_weight_counts_among_ones_own_trainers(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    light, heavy = submit(slurm, "games", "weight=1", "weight=3")
    other = submit(slurm, "news", "weight=0.01")
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    assert size(slurm, *other) == 8
    assert size(slurm, heavy) > size(slurm, light)


def test_nodes_that_one_user_cannot_make_use_of_go_to_the_others(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    flat, other = submit(slurm, "games", "min=1")[0], submit(slurm, "news", "min=1")[0]
    daemon = start_daemon()
    daemon.cycle()
    seen = (Observation(1, 10.0, 50.0), Observation(2, 10.0, 50.0), Observation(8, 9.0, 50.0))
    for offset in range(1, 4):
        daemon.cycle({flat: Report(False, 1.0, seen, offset)})
    assert size(slurm, flat) <= 8
    assert size(slurm, flat, other) == 16
    evicted = slurm.submit(nodes=16)
    daemon.cycle()
    slurm.finish(evicted)
    for offset in range(5, 8):
        daemon.cycle({flat: Report(False, 1.0, seen, offset)})
    assert size(slurm, flat) < 4
    assert size(slurm, flat, other) == 16


def test_nodes_that_a_decision_leaves_go_to_the_others_at_the_next_look(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    """Growing from 4 nodes is so dear that it would be worth it to 16 nodes, but not to a share of 8."""
    for name in list(slurm.nodes)[4:]:
        slurm.nodes[name] = replace(slurm.nodes[name], state=NodeState.DOWN)
    dear = submit(slurm, "games", "min=1,grow=200")[0]
    daemon = start_daemon(horizon_s=120.0)
    daemon.cycle()
    assert size(slurm, dear) == 4
    slurm.nodes = {name: replace(node, state=NodeState.IDLE) for name, node in slurm.nodes.items()}
    other = submit(slurm, "news", "min=1")[0]
    daemon.cycle()
    assert (size(slurm, dear), size(slurm, other)) == (4, 8)
    for _ in range(3):
        daemon.cycle()
        assert (size(slurm, dear), size(slurm, other)) == (4, 12)


def test_nothing_moves_when_nothing_changes(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    for user in ("games", "news", "backup"):
        submit(slurm, user, "min=1", "min=2,max=5")
    daemon = start_daemon()
    for _ in range(3):
        daemon.cycle()
    told = len(slurm.told)
    for _ in range(5):
        daemon.cycle()
    assert len(slurm.told) == told
