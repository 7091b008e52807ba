"""Parts of nodes: who is dealt which places, beside each other and beside the site's own jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.amounts import Amount, left_of
from freetrain.core.place import Place, node_of, room_of
from freetrain.lending.rooms import Room
from freetrain.lending.shadow import LentPart
from freetrain.lending.sharing.claims import Claimant, Deal, Shares, SizeRange
from freetrain.lending.sharing.dealing import deal

TOTAL = Amount(64, 1000, (("gpu", 8),))
Rooms = Mapping[str, Room]


def gpus(count: int, cpus: int = 1) -> Amount:
    return Amount(cpus, 10, (("gpu", count),))


def rooms_of(*left: int, total: int = 8) -> Rooms:
    """Nodes with so many GPUs left, the others being the site's."""
    return {f"n{number}": room(count, total) for number, count in enumerate(left)}


def room(left: int, total: int = 8) -> Room:
    free = Amount(64, 1000, (("gpu", left),) if left else ())
    return Room(free, Amount(64, 1000, (("gpu", total),)), left < total)


def offers_of(rooms: Rooms, held: Mapping[str, str] = {}) -> list[Place]:
    """What is left of each node, and the places that trainers hold: name → trainer."""
    return [*(Place(room_of(name)) for name in rooms), *(Place(name, holder=who) for name, who in held.items())]


def claimant(
    user: str, each: Amount | None, rooms: Rooms, sizes: tuple[int, int] = (1, 99), cap: bool = False
) -> Claimant:
    worth = 1.0 if each is None else each.part_of(TOTAL)
    wants, capped_by = (SizeRange(f"{user}0", *sizes),), (f"user {user}",) if cap else ()
    nodes = frozenset(rooms)
    return Claimant(user, (f"user {user}",), wants, nodes, capped_by=capped_by, each=each, worth=worth)


def counts(found: Deal) -> list[int]:
    return [len(part) for part in found.places.values()]


def on_nodes(found: Deal, user: str) -> Counter[str]:
    return Counter(map(node_of, found.places[user]))


def test_as_many_tasks_get_a_place_as_fit() -> None:
    rooms = rooms_of(8, 5, 0)
    found = deal(offers_of(rooms), [claimant("a", gpus(2), rooms)], Shares(), rooms)
    assert on_nodes(found, "a") == {"n0": 4, "n1": 2}
    assert len({place.name for place in found.new}) == 6
    assert found.leaving == {}


def test_the_scarcest_of_what_a_task_takes_bounds_how_many_there_are() -> None:
    rooms = rooms_of(8)
    assert counts(deal(offers_of(rooms), [claimant("a", gpus(1, cpus=20), rooms)], Shares(), rooms)) == [3]


def test_shares_are_parts_of_nodes_and_not_numbers_of_places() -> None:
    rooms = rooms_of(8, 8)
    two = [claimant("a", gpus(4), rooms), claimant("b", gpus(1), rooms)]
    assert counts(deal(offers_of(rooms), two, Shares(), rooms)) == [2, 8]


def test_limits_count_nodes() -> None:
    rooms = rooms_of(8, 8)
    one = claimant("a", gpus(2), rooms, cap=True)
    assert counts(deal(offers_of(rooms), [one], Shares(caps={"user a": 1}), rooms)) == [4]


def test_who_takes_a_whole_node_gets_one_on_which_nobody_else_is() -> None:
    rooms = rooms_of(7, 8)
    two = [claimant("a", None, rooms), claimant("b", gpus(1), rooms)]
    found = deal(offers_of(rooms), two, Shares(), rooms)
    assert found.places["a"] == ("n1",), "by the name of the node: it is all of it"
    assert on_nodes(found, "b") == {"n0": 7}


def test_who_holds_places_keeps_them_and_dealing_again_moves_nothing() -> None:
    rooms = rooms_of(2, 0)
    held = {"n0#a_1": "a0", "n1#a_2": "a0", "n1#b_1": "b0"}
    two = [claimant("a", gpus(1), rooms), claimant("b", gpus(1), rooms)]
    found = deal(offers_of(rooms, held), two, Shares(), rooms)
    assert {"n0#a_1", "n1#a_2"} <= set(found.places["a"])
    assert "n1#b_1" in found.places["b"]
    assert found.leaving == {}


def test_who_gives_up_places_keeps_those_that_have_run_longest() -> None:
    held = {f"n0#a_{number}": "a0" for number in range(4)}
    since_s = (30.0, 10.0, 40.0, 20.0)
    lent = tuple(LentPart(name, "a0", gpus(2), started_s=at_s) for name, at_s in zip(held, since_s, strict=True))
    rooms = {"n0": replace(room(0), lent=lent)}
    two = [claimant("a", gpus(2), rooms), claimant("b", gpus(2), rooms)]
    found = deal(offers_of(rooms, held), two, Shares(), rooms)
    assert set(found.places["a"]) == {"n0#a_1", "n0#a_3"}


def test_who_comes_later_gets_the_room_of_places_beyond_the_share_of_others() -> None:
    rooms = rooms_of(0, 0)
    held = {f"n{number % 2}#a_{number}": "a0" for number in range(16)}
    two = [claimant("a", gpus(1), rooms), claimant("b", gpus(4), rooms)]
    found = deal(offers_of(rooms, held), two, Shares(), rooms)
    assert counts(found) == [8, 2]
    assert len(found.leaving) == 8
    assert set(found.leaving.values()) == {"b"}
    for name in rooms:
        leaving = sum(node_of(one) == name for one in found.leaving)
        assert 4 * on_nodes(found, "b")[name] <= leaving


def test_nobody_gives_up_a_place_and_gets_another_on_the_same_node() -> None:
    """The place of a makes way for c; when that of b has, too, there is room for that of a again."""
    each = (gpus(2, cpus=4), gpus(2, cpus=3), gpus(1, cpus=2))
    small = {"n0": Room(Amount(0, 980), Amount(64, 1000, (("gpu", 8),)), True)}
    held = {"n0#a_1": "a0", "n0#b_1": "b0"}
    three = [claimant(user, size, small) for user, size in zip("abc", each, strict=True)]
    found = deal(offers_of(small, held), three, Shares(), small)
    leaving = {held[name][0] for name in found.leaving}
    gained = {claimant.key for claimant in three for name in found.places[claimant.key] if name not in held}
    assert not leaving & gained


def test_nobody_moves_for_whom_there_is_as_much_where_he_is() -> None:
    """Two places of c are dealt where a or b has one now; a is dealt one as well, and it need not be that of b."""
    small = {name: Room(Amount(6, 990), TOTAL, True) for name in ("n0", "n1")}
    held = {"n0#a_1": "a0", "n1#b_1": "b0"}
    each = (gpus(2, cpus=2), gpus(2), gpus(1))
    three = [claimant(user, size, small) for user, size in zip("abc", each, strict=True)]
    found = deal(offers_of(small, held), three, Shares(), small)
    assert counts(found) == [1, 0, 2]
    assert found.leaving == {"n1#b_1": "c"}


def test_places_beyond_what_somebody_can_use_are_given_up() -> None:
    rooms = rooms_of(8)
    held = {"n0#a_1": "a0", "n0#a_2": "a0"}
    found = deal(offers_of(rooms, held), [claimant("a", gpus(1), rooms, sizes=(1, 1))], Shares(), rooms)
    assert counts(found) == [1]
    assert list(found.leaving.values()) == [None]


def test_nothing_waits_for_a_minimum_size() -> None:
    rooms = rooms_of(3)
    two = [claimant("a", gpus(1), rooms, sizes=(4, 8)), claimant("b", gpus(1), rooms)]
    assert counts(deal(offers_of(rooms), two, Shares(), rooms)) == [0, 3]


def test_a_place_that_nobody_holds_yet_makes_way_for_one_that_fits_nowhere_else() -> None:
    """The first of b takes n0, where it leaves least; a fits there only, and b's on n1 as well."""
    small = {
        "n0": Room(Amount(10, 100, (("gpu", 1),)), TOTAL, True),
        "n1": Room(Amount(64, 30, (("gpu", 2),)), TOTAL, True),
    }
    two = [claimant("b", Amount(1, 10), small, sizes=(1, 1)), claimant("a", Amount(10, 90), small, sizes=(1, 1))]
    assert counts(deal(offers_of(small), two, Shares(), small)) == [1, 1]


Problem = tuple[Rooms, list[Claimant], dict[str, str]]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Some nodes, of which trainers hold parts already."""
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    sizes = [gpus(draw(st.integers(0, 4)), draw(st.integers(1, 16))) for _ in range(draw(st.integers(1, 3)))]
    rooms, held = {}, {}
    for name in names:
        left = Amount(draw(st.integers(4, 32)), draw(st.integers(10, 100)), (("gpu", draw(st.integers(1, 8))),))
        for row, each in enumerate(sizes):
            for number in range(draw(st.integers(0, 2))):
                if (rest := left_of(left, each)) is not None:
                    left = rest
                    held[f"{name}#{row}_{number}"] = f"{'abc'[row]}0"
        rooms[name] = Room(left, TOTAL, True)
    low = [draw(st.integers(1, 3)) for _ in sizes]
    claimants = [
        claimant("abc"[row], each, rooms, (low[row], low[row] + draw(st.integers(0, 9))))
        for row, each in enumerate(sizes)
    ]
    return rooms, claimants, held


def left_after(problem: Problem, found: Deal) -> dict[str, Amount | None]:
    """Node → what is left of it once everybody has what he was dealt; None: more was dealt than there is."""
    rooms, claimants, held = problem
    each = {f"{claimant.key}0": claimant.each for claimant in claimants}
    left: dict[str, Amount | None] = {name: room.free for name, room in rooms.items()}
    for name in found.leaving:
        left[node_of(name)] = (left[node_of(name)] or Amount()) + (each[held[name]] or Amount())
    for claimant in claimants:
        for name in found.places[claimant.key]:
            room = left[node_of(name)]
            if name not in held:
                left[node_of(name)] = (
                    None if room is None or claimant.each is None else left_of(room, claimant.each)
                )
    return left


@given(problems())
def test_no_node_is_dealt_beyond_what_there_is_of_it(problem: Problem) -> None:
    rooms, claimants, held = problem
    found = deal(offers_of(rooms, held), claimants, Shares(), rooms)
    assert None not in left_after(problem, found).values()
    dealt = [name for part in found.places.values() for name in part]
    assert len(dealt) == len(set(dealt))
    assert not set(dealt) & found.leaving.keys()
    for claimant in claimants:
        want, size = claimant.wants[0], len(found.places[claimant.key])
        assert size == 0 or want.min_nodes <= size <= want.max_nodes


@given(problems())
def test_dealing_again_what_was_dealt_moves_nothing(problem: Problem) -> None:
    rooms, claimants, held = problem
    found = deal(offers_of(rooms, held), claimants, Shares(), rooms)
    left = left_after(problem, found)
    after = {name: Room(left[name] or Amount(), TOTAL, True) for name in rooms}
    now_held = {name: f"{key}0" for key, part in found.places.items() for name in part}
    again = deal(offers_of(after, now_held), claimants, Shares(), after)
    assert again.leaving == {}


def most_for_the_last(rooms: Rooms, small: Amount, count: int, large: Amount) -> int:
    """By enumeration: most places of one size beside so many of another."""
    best = 0
    for split in product(range(count + 1), repeat=len(rooms)):
        if sum(split) != count:
            continue
        places = 0
        for room, number in zip(rooms.values(), split, strict=True):
            left: Amount | None = room.free
            for _ in range(number):
                left = None if left is None else left_of(left, small)
            if left is None:
                break
            while (left := left_of(left, large)) is not None:
                places += 1
        else:
            best = max(best, places)
    return best


@pytest.mark.parametrize("seed", range(3))
def test_places_of_two_sizes_lie_beside_each_other_as_enumeration_finds(seed: int) -> None:
    """What one claimant may have at most is dealt first; the other gets as many places as any packing leaves.

    With GPUs that come in powers of two, as tasks ask for them.
    """
    random, missed = Random(seed), 0
    for _ in range(100):
        rooms = rooms_of(*(random.randint(1, 8) for _ in range(3)))
        small, large = gpus(random.choice((1, 2))), gpus(random.choice((2, 4)))
        few = claimant("a", small, rooms, (1, random.randint(1, 3)))
        found = counts(deal(offers_of(rooms), [few, claimant("b", large, rooms)], Shares(), rooms))
        missed += found[1] < most_for_the_last(rooms, small, found[0], large)
    assert missed == 0


def test_places_of_any_two_sizes_lie_beside_each_other_as_enumeration_finds() -> None:
    """Vectors of CPUs, memory and GPUs without any common measure."""
    random, missed = Random(5), 0
    for _ in range(300):
        rooms = {f"n{number}": Room(_vector(random, 4, 40, 8), TOTAL, True) for number in range(3)}
        small, large = _vector(random, 1, 16, 3), _vector(random, 1, 16, 3)
        few = claimant("a", small, rooms, (1, random.randint(1, 3)))
        found = counts(deal(offers_of(rooms), [few, claimant("b", large, rooms)], Shares(), rooms))
        missed += found[1] != most_for_the_last(rooms, small, found[0], large)
    assert missed == 0


def can_lie(left: list[Amount | None], wanted: list[Amount | None]) -> bool:
    """By enumeration: whether so many more places fit; of a node None is left once somebody has all of it."""
    if not wanted:
        return True
    each, tried = wanted[0], set()
    for number, room in enumerate(left):
        rest = room if each is None or room is None else left_of(room, each)
        is_fit = room == TOTAL if each is None else room is not None and rest is not None
        if is_fit and room not in tried:
            tried.add(room)
            after = [*left[:number], None if each is None else rest, *left[number + 1 :]]
            if can_lie(after, wanted[1:]):
                return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_nobody_goes_without_a_place_that_enumeration_finds_for_him(seed: int) -> None:
    """Of three sizes, one of which may be all of a node, on nodes of which trainers hold parts already."""
    random, missed = Random(seed), 0
    for _ in range(100):
        each = [_vector(random, 8, 32, 4), _vector(random, 8, 32, 4), random.choice((None, gpus(3, 20)))]
        rooms, held = {}, {}
        for name in ("n0", "n1", "n2"):
            left = TOTAL if random.random() < 0.5 else _vector(random, 20, 64, 8)
            is_whole = left == TOTAL
            for row, size in enumerate(each[:2]):
                if size is not None and random.random() < 0.4 and (rest := left_of(left, size)) is not None:
                    left, held[f"{name}#{row}"] = rest, f"{'ab'[row]}0"
            rooms[name] = Room(left, TOTAL, not is_whole)
        claimants = [claimant("abc"[row], size, rooms, (1, random.randint(1, 4))) for row, size in enumerate(each)]
        found = deal(offers_of(rooms, held), claimants, Shares(), rooms)
        base: dict[str, Amount | None] = {name: room.free for name, room in rooms.items()}
        for name in found.leaving:
            base[node_of(name)] = (base[node_of(name)] or Amount()) + (each["ab".index(held[name][0])] or Amount())
        new = [
            size
            for size, claimant in zip(each, claimants, strict=True)
            for name in found.places[claimant.key]
            if name not in held
        ]
        assert can_lie(list(base.values()), sorted(new, key=str)), "what was dealt lies somewhere"
        for one, size in zip(claimants, counts(found), strict=True):
            more = size < one.wants[0].max_nodes
            missed += more and can_lie(list(base.values()), sorted([*new, one.each], key=str))
    assert missed == 0


def _vector(random: Random, fewest_cpus: int, most_cpus: int, most_gpus: int) -> Amount:
    cpus = random.randint(fewest_cpus, most_cpus)
    return Amount(cpus, 4 * random.randint(fewest_cpus, most_cpus), (("gpu", random.randint(0, most_gpus)),))
