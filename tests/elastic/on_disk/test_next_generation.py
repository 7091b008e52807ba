from __future__ import annotations

from dataclasses import replace

import pytest

from freetrain.elastic.on_disk.members import Generation, Member
from freetrain.elastic.on_disk.next_generation import View, members_missing, next_generation, spread, watched_by


def member(name: str, joined_s: float = 0.0) -> Member:
    return Member(name, "agent", "host", "address", 1, 1, "2.13", "mark", joined_s)


def view(ranks: str, joined: str, leaving: str = "", gone: str = "", broken: bool = False) -> View:
    """A view in which letters are members; newcomers joined in the order of ``joined``; - is no generation."""
    return View(
        generation=Generation(7, tuple(ranks), "host", "address", 1, "nonce", "") if ranks != "-" else None,
        members={name: member(name, order) for order, name in enumerate(joined)},
        leaving=frozenset(leaving),
        gone=dict.fromkeys(gone, "lost"),
        broken_numbers=frozenset([7] if broken else []),
    )


@pytest.mark.parametrize(
    ("seen", "members", "proposer", "cause"),
    [
        (view("-", "ba"), "ba", "b", "start"),
        (view("ab", "abc"), "abc", "a", "join"),
        (view("ab", "bdca"), "abdc", "a", "join"),
        (view("abc", "abc", leaving="a"), "bc", "b", "leave"),
        (view("abc", "abc", gone="a"), "bc", "b", "loss"),
        (view("abc", "abcd", leaving="b", gone="a"), "cd", "c", "loss"),
        (view("ab", "ab", leaving="ab"), "", "a", "leave"),
        (view("ab", "abc", leaving="ab"), "c", "c", "leave"),
        (view("ab", "abc", gone="ab"), "c", "c", "start"),
        (view("ab", "ab", broken=True), "ab", "a", "broken"),
        (view("", "c"), "c", "c", "start"),
    ],
)
def test_next_generation(seen: View, members: str, proposer: str, cause: str) -> None:
    proposal = next_generation(seen)
    assert proposal is not None
    assert ("".join(proposal.members), proposal.proposer, proposal.cause) == (members, proposer, cause)
    assert proposal.number == seen.number + 1


def test_a_worker_whose_script_is_rank_0_goes_first_and_the_first_survivor_proposes() -> None:
    seen = view("ab", "abcd")
    main = replace(seen.members["d"], is_main=True)
    proposal = next_generation(replace(seen, members={**seen.members, "d": main}))
    assert proposal is not None
    assert ("".join(proposal.members), proposal.proposer) == ("dabc", "a")


def on(seen: View, **switches: str) -> View:
    """The same, with members on these nodes."""
    members = {name: replace(member, switches=switches.get(name, "")) for name, member in seen.members.items()}
    return replace(seen, members=members)


@pytest.mark.parametrize(
    ("seen", "members"),
    [
        (view("-", "abcd"), "acbd"),
        (view("ac", "abcd"), "acbd"),
        (view("cb", "abcd"), "cbda"),
        (view("cbda", "abcd", gone="d"), "cba"),
        (view("cbda", "abcd", leaving="c"), "bda"),
    ],
)
def test_ranks_form_a_ring_that_crosses_each_leaf_once_and_keeps_rank_0(seen: View, members: str) -> None:
    proposal = next_generation(on(seen, a="top.s1.n1", b="top.s2.n2", c="top.s1.n3", d="top.s2.n4"))
    assert proposal is not None
    assert ("".join(proposal.members), proposal.proposer) == (members, members[0])


def test_workers_on_one_node_follow_each_other() -> None:
    proposal = next_generation(on(view("-", "abcd"), a="top.s.n2", b="top.s.n1", c="top.s.n2", d="top.s.n1"))
    assert proposal is not None
    assert proposal.members == ("a", "c", "b", "d")


def test_a_world_is_not_made_anew_for_another_order_alone() -> None:
    assert next_generation(on(view("abc", "abc"), a="top.s.n1", b="top.s.n3", c="top.s.n2")) is None


def fed(seen: View, *names: str) -> View:
    """The same, with members that have to be fed first."""
    members = {name: replace(member, is_fed=name in names) for name, member in seen.members.items()}
    return replace(seen, members=members)


def test_a_newcomer_that_has_to_be_fed_comes_in_when_it_is_ready() -> None:
    seen = fed(view("ab", "abcd"), "c", "d")
    assert next_generation(seen) is None
    assert seen.outside == ("c", "d")
    proposal = next_generation(replace(seen, ready=frozenset("d")))
    assert proposal is not None
    assert (proposal.members, proposal.cause) == (("a", "b", "d"), "join")


def test_a_newcomer_comes_in_unfed_where_nobody_is_left_to_feed_it() -> None:
    proposal = next_generation(fed(view("ab", "abc", gone="ab"), "c"))
    assert proposal is not None
    assert (proposal.members, proposal.cause) == (("c",), "start")


def test_the_loss_of_another_does_not_bring_a_newcomer_in_before_it_is_ready() -> None:
    proposal = next_generation(fed(view("abc", "abcd", gone="b"), "d"))
    assert proposal is not None
    assert (proposal.members, proposal.cause) == (("a", "c"), "loss")


def served(seen: View, servers: str, in_world: str = "") -> View:
    """The same, where these members are servers, some of them in the latest generation."""
    members = {name: replace(member, is_server=name in servers) for name, member in seen.members.items()}
    generation = seen.generation and replace(seen.generation, servers=tuple(in_world))
    return replace(seen, members=members, generation=generation)


@pytest.mark.parametrize(
    ("seen", "members", "servers", "cause"),
    [
        (served(view("-", "sab"), "s"), "ab", "s", "start"),
        (served(view("ab", "abs"), "s"), "ab", "s", "join"),
        (served(view("ab", "abst"), "st", "s"), "ab", "st", "join"),
        (served(view("ab", "absc"), "s", "s"), "abc", "s", "join"),
        (served(view("ab", "abs", leaving="s"), "s", "s"), "ab", "", "leave"),
        (served(view("ab", "abst", leaving="s"), "st", "s"), "ab", "t", "leave"),
        (served(view("ab", "abs", gone="s"), "s", "s"), "ab", "", "loss"),
        (served(view("ab", "abs", gone="b"), "s", "s"), "a", "s", "loss"),
        (served(view("ab", "abs", broken=True), "s", "s"), "ab", "s", "broken"),
        (served(view("ab", "absc", gone="ab"), "s", "s"), "c", "s", "start"),
    ],
)
def test_servers_are_in_the_world_beside_its_workers(seen: View, members: str, servers: str, cause: str) -> None:
    proposal = next_generation(seen)
    assert proposal is not None
    assert ("".join(proposal.members), "".join(proposal.servers)) == (members, servers)
    assert (proposal.cause, proposal.proposer) == (cause, members[0])


@pytest.mark.parametrize(
    "seen",
    [
        served(view("-", "s"), "s"),
        served(view("ab", "abs"), "s", "s"),
        served(view("ab", "abs", gone="ab"), "s", "s"),
        served(view("", "s"), "s"),
    ],
)
def test_servers_alone_make_no_world(seen: View) -> None:
    assert next_generation(seen) is None


def test_a_world_that_all_workers_leave_has_no_servers() -> None:
    proposal = next_generation(served(view("ab", "abs", leaving="ab"), "s", "s"))
    assert proposal is not None
    assert (proposal.members, proposal.servers, proposal.cause) == ((), (), "leave")


def test_a_newcomer_comes_in_unfed_where_only_servers_are_left() -> None:
    proposal = next_generation(fed(served(view("ab", "absc", gone="ab"), "s", "s"), "c"))
    assert proposal is not None
    assert (proposal.members, proposal.servers) == (("c",), ("s",))


@pytest.mark.parametrize("seen", [view("ab", "ab"), view("-", ""), view("ab", "ab", gone="ab"), view("", "")])
def test_nothing_to_do(seen: View) -> None:
    assert next_generation(seen) is None


def test_starting_from_nothing_waits_for_enough() -> None:
    assert next_generation(view("-", "ab"), min_members=3) is None
    assert next_generation(view("-", "abc"), min_members=3) is not None
    assert next_generation(view("abc", "abc", gone="ab"), min_members=3) is not None


@pytest.mark.parametrize(
    ("seen", "missing"),
    [
        (view("-", "a"), 2),
        (view("-", "abc"), 0),
        (view("ab", "abcd", gone="ab"), 1),
        (view("ab", "abc"), 0),
        (view("-", ""), 0),
        (view("-", "ab", leaving="ab"), 0),
    ],
)
def test_who_is_missing_for_a_start_from_nothing(seen: View, missing: int) -> None:
    assert members_missing(seen, min_members=3) == missing


def test_a_generation_that_comes_to_be_needs_no_other() -> None:
    """The decision is stable: once its proposal is the latest generation, nothing is left to do."""
    for seen in (view("-", "ba"), view("abc", "abcd", leaving="b", gone="a"), view("ab", "abc", leaving="ab")):
        proposal = next_generation(seen)
        assert proposal is not None
        published = Generation(proposal.number, proposal.members, "h", "a", 1, "n", "")
        assert next_generation(View(published, seen.members, seen.leaving, seen.gone)) is None


def test_everybody_is_watched() -> None:
    seen = view("abcdef", "abcdefg")
    assert set(watched_by("a", seen)) == set("bcdefg")
    assert set(watched_by("g", seen)) == set("abcdef")
    assert all("a" in watched_by(name, seen) for name in "bcdef")
    assert {other for name in "bcdef" for other in watched_by(name, seen)} == set("abcdef") - {"b"}


def sharded(seen: View, size: int = 2) -> View:
    """The same, where letters are replicas' names if they are capitals: ``A`` has members A0, A1 and so on."""

    def workers(names: object) -> tuple[str, ...]:
        return tuple(f"{name}{shard}" for name in names for shard in range(size))  # type: ignore[attr-defined]

    members = {
        f"{name}{shard}": worker(name, shard, size, member.joined_s)
        for name, member in seen.members.items()
        for shard in range(size)
    }
    generation = replace(seen.generation, members=workers(seen.ranks)) if seen.generation else None
    return replace(seen, generation=generation, members=members)


def worker(name: str, shard: int, shards: int, joined_s: float) -> Member:
    # The later the shard, the earlier it joined.
    one = member(f"{name}{shard}", joined_s - shard / 10)
    return replace(one, replica=name, shard=shard, shards=shards)


def without(seen: View, *names: str) -> View:
    return replace(seen, members={id_: member for id_, member in seen.members.items() if id_ not in names})


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
    members = {id_: replace(member, switches=switches[member.replica]) for id_, member in seen.members.items()}
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
