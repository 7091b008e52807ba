"""Packing places of several sizes on nodes, beside enumeration."""

from __future__ import annotations

from random import Random

import pytest

from freetrain.core.amounts import Amount, left_of
from freetrain.lending.sharing.bin_packing import Bin, PlaceCounts, pack

Sizes = list[Amount | None]


def gpus(**of_types: int) -> Amount:
    return Amount(1, 1, tuple((f"gpu:{name}" if name != "any" else "gpu", n) for name, n in of_types.items()))


def may_lie(on_node: PlaceCounts, sizes: Sizes, node: Bin) -> bool:
    """Whether places lie on a node as they are said to, those of a type first."""
    if any(count and not may for count, may in zip(on_node, node.takes, strict=True)):
        return False
    each = [size for size, count in zip(sizes, on_node, strict=True) for _ in range(count)]
    if None in each:
        return len(each) == 1
    room: Amount | None = node.room
    for amount in sorted(filter(None, each), key=lambda asked: str(asked.gres), reverse=True):
        room = None if room is None else left_of(room, amount)
    return room is not None


def fits(wanted: PlaceCounts, sizes: Sizes, nodes: list[Bin]) -> bool:
    """By enumeration of all ways to put one place after the other somewhere."""
    every = [size for size, count in enumerate(wanted) for _ in range(count)]

    def put(number: int, lying: list[list[int]]) -> bool:
        if number == len(every):
            return True
        for node, counts in zip(nodes, lying, strict=True):
            counts[every[number]] += 1
            if may_lie(tuple(counts), sizes, node) and put(number + 1, lying):
                return True
            counts[every[number]] -= 1
        return False

    return put(0, [[0] * len(sizes) for _ in nodes])


@pytest.mark.parametrize("seed", range(3))
def test_what_enumeration_places_is_placed_and_nothing_else(seed: int) -> None:
    random, placed = Random(seed), 0
    for _ in range(150):
        sizes: Sizes = [
            Amount(random.randint(1, 9), random.randint(1, 9), (("gpu", random.randint(0, 3)),)) for _ in range(2)
        ]
        sizes.append(random.choice((None, Amount(3, 3))))
        nodes = [
            Bin(
                Amount(random.randint(4, 20), random.randint(4, 20), (("gpu", random.randint(1, 6)),)),
                (True, random.random() < 0.9, random.random() < 0.6),
            )
            for _ in range(3)
        ]
        wanted = (random.randint(0, 3), random.randint(0, 3), random.randint(0, 2))
        found, _ = pack(wanted, sizes, nodes, 10_000)
        assert (found is not None) == fits(wanted, sizes, nodes)
        if found is not None:
            placed += 1
            assert tuple(map(sum, zip(*found, strict=True))) == wanted
            assert all(may_lie(*one) for one in zip(found, [sizes] * len(nodes), nodes, strict=True))
    assert 30 < placed < 130, "some of both"


def test_gpus_of_a_type_and_of_any() -> None:
    node = Bin(Amount(9, 9, (("gpu:a100", 2), ("gpu:h100", 1))), (True, True))
    sizes: Sizes = [gpus(a100=1), gpus(any=1)]
    assert pack((2, 1), sizes, [node], 100)[0] == [(2, 1)]
    assert pack((3, 0), sizes, [node], 100)[0] is None
    assert pack((2, 2), sizes, [node], 100)[0] is None


def test_the_work_is_bounded_by_counts_and_the_same_question_has_the_same_answer() -> None:
    random = Random(1)
    sizes: Sizes = [Amount(random.randint(20, 60), random.randint(20, 60)) for _ in range(6)]
    nodes = [Bin(Amount(random.randint(80, 130), random.randint(80, 130)), (True,) * 6) for _ in range(30)]
    answers = [pack((11,) * 6, sizes, nodes, 500) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0][0] is None
    assert answers[0][1] == 500
