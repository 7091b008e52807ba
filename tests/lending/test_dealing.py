from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freetrain.core.place import Place
from freetrain.core.topology import Topology
from freetrain.lending.sharing.claims import Claimant, Deal, Shares, SizeRange, usable_sizes
from freetrain.lending.sharing.dealing import deal


def largest_usable(sizes: int, nodes: float) -> int:
    """The largest usable number that is not more than ``nodes``; ``sizes`` are bits."""
    whole = int(min(nodes, sizes.bit_length()))
    return (sizes & ((1 << (whole + 1)) - 1)).bit_length() - 1


def names(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(count))


def nodes(count: int) -> list[Place]:
    return [Place(name) for name in names(count)]


def claimant(user: str, *ranges: tuple[int, int], on: int | frozenset[str] = 100, account: str = "") -> Claimant:
    """A user with trainers of these sizes."""
    wants = tuple(SizeRange(f"{user}{number}", *each) for number, each in enumerate(ranges))
    eligible = frozenset(names(on)) if isinstance(on, int) else on
    path = (f"account {account}", f"user {user}") if account else (f"user {user}",)
    return Claimant(user, path, wants, eligible, capped_by=(f"user {user}",))


def sizes(found: Deal) -> list[int]:
    return [len(part) for part in found.places.values()]


def test_users_share_equally_however_many_trainers_they_have() -> None:
    assert sizes(deal(nodes(16), [claimant("a", *[(1, 16)] * 10), claimant("b", (1, 16))])) == [8, 8]


def test_what_one_user_leaves_the_others_get() -> None:
    three = [claimant("a", (1, 2)), claimant("b", (1, 16)), claimant("c", (1, 16))]
    assert sizes(deal(nodes(16), three)) == [2, 7, 7]


def test_trainers_too_large_for_the_share_block_nobody() -> None:
    many = claimant("a", *[(8, 16)] * 22)
    assert sizes(deal(nodes(7), [many, claimant("b", (1, 16))])) == [0, 7]
    assert sizes(deal(nodes(14), [many, claimant("b", (1, 16))])) == [0, 14]
    assert sizes(deal(nodes(16), [many, claimant("b", (1, 16))])) == [8, 8]


def test_a_large_trainer_runs_where_the_others_leave_enough() -> None:
    assert sizes(deal(nodes(16), [claimant("a", (10, 12)), claimant("b", (1, 4))])) == [12, 4]


def test_where_there_is_not_enough_for_all_who_had_least_comes_first() -> None:
    everybody = [claimant(user, (2, 2)) for user in "abc"]
    used = {"user a": 5.0, "user b": 1.0, "user c": 3.0}
    assert sizes(deal(nodes(4), everybody, Shares(used=used))) == [0, 2, 2]


def test_weights_tilt_shares_and_limits_end_them() -> None:
    two = [claimant("a", (1, 99)), claimant("b", (1, 99))]
    assert sizes(deal(nodes(15), two, Shares(weight={"user a": 2.0}))) == [10, 5]
    assert sizes(deal(nodes(15), two, Shares(caps={"user a": 3}))) == [3, 12]


def test_accounts_share_equally_and_their_users_within() -> None:
    people = [
        claimant("a", (1, 99), account="x"),
        claimant("b", (1, 99), account="y"),
        claimant("c", (1, 99), account="y"),
    ]
    assert sizes(deal(nodes(16), people)) == [8, 4, 4]


def test_who_can_only_use_few_nodes_gets_those() -> None:
    rare = frozenset(names(4))
    anywhere, particular = claimant("a", (1, 8), on=8), claimant("b", (1, 8), on=rare)
    found = deal(nodes(8), [anywhere, particular])
    assert set(found.places["b"]) == rare
    assert len(found.places["a"]) == 4


def test_nodes_are_passed_along_a_chain() -> None:
    """A may use 0 to 3, B 2 to 5, C 4 and 5: C's come from B, and B's from A, who holds them."""
    who = [
        claimant("a", (1, 2), on=frozenset(names(4))),
        claimant("b", (1, 2), on=frozenset(names(6)[2:])),
        claimant("c", (1, 2), on=frozenset(names(6)[4:])),
    ]
    holders = (None, None, "a0", "a0", "b0", "b0")
    held = [Place(name, holder=by) for name, by in zip(names(6), holders, strict=True)]
    found = deal(held, who)
    assert sizes(found) == [2, 2, 2]
    assert set(found.places["c"]) == {"n4", "n5"}


def test_a_trainer_far_above_its_minimum_gives_up_nodes_first() -> None:
    held = [Place(name, holder="a0" if number < 4 else "a1") for number, name in enumerate(names(16))]
    found = deal(held, [claimant("a", (4, 16), (1, 16)), claimant("b", (1, 16))])
    assert set(names(4)) <= set(found.places["a"])
    assert set(found.leaving.values()) == {"b"}
    assert len(found.leaving) == 8


def test_those_who_lack_nodes_get_long_lived_ones_in_turns() -> None:
    offered = [Place(name, until_s=float(number + 1)) for number, name in enumerate(names(4))]
    found = deal(offered, [claimant("a", (1, 4)), claimant("b", (1, 4))])
    assert found.places == {"a": ("n3", "n1"), "b": ("n2", "n0")}


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 7), (5, 16), (3, 3)])
def test_usable_sizes_are_all_sums(low: int, high: int) -> None:
    by_hand = {0} | set(range(low, high + 1)) | {4} | {4 + size for size in range(low, high + 1)}
    bits = usable_sizes([SizeRange("x", low, high), SizeRange("y", 4, 4)], 20)
    assert {size for size in range(25) if bits >> size & 1} == by_hand
    assert largest_usable(bits, 3.7) == max(size for size in by_hand if size <= 3)


ranges = st.tuples(st.integers(1, 9), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair)))
wants = st.lists(ranges, min_size=1, max_size=5)
weights = st.sampled_from([0.5, 0.625, 0.75, 1.0, 2.0])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Place], list[Claimant], Shares]:
    """Nodes, some of them held, users who may use some or all of them, and what the site has set."""
    count = draw(st.integers(1, 24))
    kinds = [frozenset(names(24)), frozenset(names(12)), frozenset(names(18)[6:])]
    who = [
        claimant(f"u{number}-", *draw(wants), on=draw(st.sampled_from(kinds)))
        for number in range(draw(st.integers(1, 5)))
    ]
    trainers = [want.trainer for claimant in who for want in claimant.wants]
    offered = [Place(name, holder=draw(st.sampled_from([None, *trainers]))) for name in names(count)]
    labels = [claimant.path[0] for claimant in who]
    shares = Shares(
        {label: draw(weights) for label in labels},
        {label: draw(st.floats(0, 10)) for label in labels},
        draw(st.dictionaries(st.sampled_from(labels), st.integers(1, 9))),
    )
    return offered, who, shares


@given(tables())
@settings(max_examples=400)
def test_every_deal_keeps_its_promises(table: tuple[list[Place], list[Claimant], Shares]) -> None:
    offered, who, shares = table
    found = deal(offered, who, shares)
    dealt = Counter(name for part in found.places.values() for name in part)
    holder = {want.trainer: claimant.key for claimant in who for want in claimant.wants}
    assert not dealt or max(dealt.values()) == 1, "a node is dealt to one claimant at most"
    unused = {node.name for node in offered} - dealt.keys()
    for claimant in who:
        part = found.places[claimant.key]
        assert set(part) <= claimant.eligible, "and to one that may use it"
        assert claimant.sizes >> len(part) & 1, "a number of nodes that can be used"
        limit = shares.caps.get(claimant.path[0], 99)
        assert len(part) <= limit
        bigger = [size for size in range(len(part) + 1, 25) if claimant.sizes >> size & 1]
        if bigger and bigger[0] <= limit:
            assert len(part) + len(unused & claimant.eligible) < bigger[0], "no step fits into what is left"
        held = {node.name for node in offered if holder.get(node.holder or "") == claimant.key}
        assert {name for name in held if name not in part} == found.leaving.keys() & held
    for name, key in found.leaving.items():
        assert (key is None and name in unused) or name in found.places[key]


def leaves_of(part: tuple[str, ...], switches: Topology) -> set[str]:
    return set(map(switches.leaf_of, part))


CONSECUTIVE = Topology({name: f"s{number // 4}" for number, name in enumerate(names(16))})
INTERLEAVED = Topology({name: f"s{number % 4}" for number, name in enumerate(names(16))})


def test_of_nodes_that_stay_equally_long_everybody_gets_those_of_few_switches() -> None:
    found = deal(nodes(16), [claimant("a", (1, 16)), claimant("b", (1, 16))], topology=CONSECUTIVE)
    assert sizes(found) == [8, 8]
    assert [len(leaves_of(part, CONSECUTIVE)) for part in found.places.values()] == [2, 2]


def test_new_nodes_are_near_those_that_a_claimant_has() -> None:
    offered = [Place(node.name, holder="b0" if node.name == "n6" else None) for node in nodes(16)]
    found = deal(offered, [claimant("a", (1, 12)), claimant("b", (1, 4))], topology=INTERLEAVED)
    assert leaves_of(found.places["b"], INTERLEAVED) == {"s2"}
    assert leaves_of(found.places["a"], INTERLEAVED) == {"s0", "s1", "s3"}


def test_nodes_that_stay_longer_are_still_dealt_in_turns() -> None:
    offered = [Place(name, until_s=1000.0 - number) for number, name in enumerate(names(16))]
    found = deal(offered, [claimant("a", (1, 16)), claimant("b", (1, 16))], topology=INTERLEAVED)
    assert [part[0] for part in found.places.values()] == ["n0", "n1"]
    assert found == deal(offered, [claimant("a", (1, 16)), claimant("b", (1, 16))])


@given(tables())
@settings(max_examples=400)
def test_dealing_again_what_was_dealt_moves_nothing(
    table: tuple[list[Place], list[Claimant], Shares],
) -> None:
    offered, who, shares = table
    first = deal(offered, who, shares)
    now = {name: claimant.wants[0].trainer for claimant in who for name in first.places[claimant.key]}
    again = deal([Place(node.name, holder=now.get(node.name)) for node in offered], who, shares)
    assert again.leaving == {}
    assert {key: set(part) for key, part in again.places.items()} == {
        key: set(part) for key, part in first.places.items()
    }


@given(st.integers(1, 40), st.lists(st.tuples(wants, weights), min_size=1, max_size=5))
@settings(max_examples=400)
def test_nothing_that_others_hand_in_takes_what_somebody_can_use_of_his_share(
    count: int, others: list[tuple[list[tuple[int, int]], float]]
) -> None:
    """Nor does a node that somebody else leaves, or can use, go to nobody."""
    who = [claimant(f"u{number}-", *given_wants, on=count) for number, (given_wants, _) in enumerate(others)]
    weight = {claimant.path[0]: each for claimant, (_, each) in zip(who, others, strict=True)}
    found = deal(nodes(count), who, Shares(weight))
    taking_part = [claimant for claimant in who if claimant.sizes > 1]
    for one in taking_part:
        share = count * weight[one.path[0]] / sum(weight[each.path[0]] for each in taking_part)
        assert len(found.places[one.key]) >= largest_usable(one.sizes, floor(share + 1e-9))


@given(st.integers(1, 40), wants, wants, wants)
def test_more_trainers_of_one_user_leave_another_his_share(
    count: int, mine: list[tuple[int, int]], yours: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    me = claimant("b", *mine, on=count)
    before, after = (
        len(deal(nodes(count), [claimant("a", *each, on=count), me]).places["b"]) for each in (yours, yours + more)
    )
    assert after >= min(before, largest_usable(me.sizes, count // 2))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 30))
def test_without_minimum_sizes_no_level_differs_by_more_than_a_node(most: list[int], count: int) -> None:
    who = [claimant(f"u{number}-", (1, 9 * limit)) for number, limit in enumerate(most)]
    found = sizes(deal(nodes(count), who))
    hungry = sorted(size for size, limit in zip(found, most, strict=True) if size < 9 * limit)
    assert all(right - left <= 1 for left, right in pairwise([*hungry[:1], *hungry[-1:]]))
