from __future__ import annotations

from dataclasses import replace

from freetrain.elastic.on_disk.members import Member
from freetrain.elastic.on_disk.next_generation import View, next_generation
from freetrain.elastic.on_disk.replicas import spread
from tests.elastic.on_disk.test_next_generation import member, view


def sharded(seen: View, size: int = 2) -> View:
    """The same, where letters are replicas' names if they are capitals: ``A`` has members A0, A1 and so on."""

    def workers(names: object) -> tuple[str, ...]:
        return tuple(f"{name}{shard}" for name in names for shard in range(size))  # type: ignore[attr-defined]

    members = {
        f"{name}{shard}": worker(name, shard, size, one.joined_s)
        for name, one in seen.members.items()
        for shard in range(size)
    }
    generation = replace(seen.generation, members=workers(seen.ranks)) if seen.generation else None
    return replace(seen, generation=generation, members=members)


def worker(name: str, shard: int, shards: int, joined_s: float) -> Member:
    # The later the shard, the earlier it joined.
    one = member(f"{name}{shard}", joined_s - shard / 10)
    return replace(one, replica=name, shard=shard, shards=shards)


def without(seen: View, *names: str) -> View:
    return replace(seen, members={id_: one for id_, one in seen.members.items() if id_ not in names})


def proposed(seen: View) -> tuple[str, ...] | None:
    proposal = next_generation(seen)
    return proposal.members if proposal else None


def changed(seen: View, leaving: str = "", gone: str = "") -> View:
    left, lost = spread(seen.members, frozenset(leaving.split()), dict.fromkeys(gone.split(), "lost"))
    return replace(seen, leaving=left, gone=lost)


def test_a_replica_comes_when_all_of_it_is_there_and_its_workers_have_adjoining_ranks() -> None:
    seen = sharded(view("A", "ABC"))
    assert proposed(seen) == ("A0", "A1", "B0", "B1", "C0", "C1")
    assert proposed(without(seen, "B0")) == ("A0", "A1", "C0", "C1")
    assert proposed(without(sharded(view("-", "A")), "A1")) is None


def test_replicas_stay_together_in_a_ring_through_the_switches() -> None:
    seen = sharded(view("B", "ABC"))
    switches = {"A": "top.s1.n1", "B": "top.s2.n2", "C": "top.s2.n1"}
    members = {id_: replace(one, switches=switches[one.replica]) for id_, one in seen.members.items()}
    assert proposed(replace(seen, members=members)) == ("B0", "B1", "A0", "A1", "C0", "C1")


def test_who_loses_a_worker_is_lost_as_a_whole() -> None:
    seen = changed(sharded(view("ABC", "ABC")), gone="A1")
    assert proposed(seen) == ("B0", "B1", "C0", "C1")
    assert seen.gone["A0"] == "its replica lost A1"


def test_a_replica_leaves_as_a_whole_and_those_who_have_not_left_yet_are_not_lost() -> None:
    seen = changed(sharded(view("AB", "AB")), leaving="A0", gone="A0")
    assert seen.leaving == {"A0", "A1"}
    assert "A1" not in seen.gone
    assert proposed(seen) == ("B0", "B1")


def test_replicas_of_another_size_are_left_out() -> None:
    seen = sharded(view("AB", "AB"))
    others = {f"C{shard}": worker("C", shard, 3, 9.0) for shard in range(3)}
    assert proposed(replace(seen, members={**seen.members, **others})) is None
