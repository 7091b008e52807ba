from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from freetrain.core.fragment import LentTime
from freetrain.lending.lent_time import ChangeCosts, Lending, each_node_once, lent_times

COSTS = ChangeCosts(start_s=10.0, scale_up_s=2.0, scale_down_s=3.0)


def lending(node: str, start_s: float, end_s: float, trainer: str = "7", evicted: bool = False) -> Lending:
    return Lending(f"{trainer}_0", trainer, node, start_s, end_s, was_evicted=evicted)


def time_of(*lendings: Lending, from_s: float = 0.0, until_s: float = 1000.0) -> LentTime:
    return lent_times(lendings, {"7": COSTS}, from_s, until_s)["7"]


def test_a_start_growing_and_shrinking_cost_all_the_nodes_that_there_are_then() -> None:
    found = time_of(lending("n1", 100, 400), lending("n2", 200, 300, evicted=True))
    assert found == LentTime(lent_s=400, lost_to_starts_s=10 + 2 * 2, lost_to_ends_s=3, starts=2, evictions=1)
    assert found.useful_s == 400 - 17


def test_a_training_that_ends_or_loses_all_nodes_loses_no_time_of_nodes_that_are_gone() -> None:
    assert time_of(lending("n1", 100, 200), lending("n2", 100, 200)).lost_to_ends_s == 0
    again = time_of(lending("n1", 100, 200), lending("n2", 300, 400))
    assert (again.lost_to_starts_s, again.lost_to_ends_s) == (20, 0), "each time from nothing"


def test_what_is_lost_at_the_same_time_is_lost_once() -> None:
    assert time_of(lending("n1", 100, 400), lending("n2", 101, 400)).lost_to_starts_s == 1 + 9 * 2


def test_a_node_is_lent_once_at_a_time_to_who_came_last() -> None:
    found = each_node_once([lending("n1", 100, 300), lending("n1", 200, 250, "8"), lending("n2", 100, 300)])
    assert [(lending.trainer, lending.node, lending.start_s, lending.end_s) for lending in found] == [
        ("7", "n1", 100, 200), ("7", "n2", 100, 300), ("8", "n1", 200, 250),
    ]  # fmt: skip
    twice = each_node_once([lending("n1", 100, 300), lending("n1", 100, 300)])
    assert [(lending.start_s, lending.end_s) for lending in twice] == [(100, 300)], "found twice"


def test_parts_of_a_node_count_beside_each_other_as_far_as_they_are_no_more_than_the_node() -> None:
    quarters = [replace(lending("n1", 100 + 10 * number, 300, str(number)), share=0.25) for number in range(4)]
    assert each_node_once(quarters) == quarters
    found = each_node_once([*quarters, replace(lending("n1", 200, 300, "late"), share=0.5)])
    assert [(lending.trainer, lending.end_s) for lending in found] == [
        ("0", 200), ("1", 200), ("2", 300), ("3", 300), ("late", 300),
    ]  # fmt: skip
    whole = each_node_once([*quarters, lending("n1", 200, 300, "late")])
    assert [lending.end_s for lending in whole] == [200] * 4 + [300]


def test_parts_of_different_resources_lie_beside_each_other_and_of_the_same_one_the_later_counts() -> None:
    gpus = replace(lending("n1", 100, 300, "gpus"), share=0.75, parts=(0.25, 0.1, 0.75))
    cpus = replace(lending("n1", 150, 300, "cpus"), share=0.5, parts=(0.5, 0.5, 0.0))
    more_gpus = replace(lending("n1", 200, 300, "more"), share=0.5, parts=(0.1, 0.1, 0.5))
    whole = lending("n1", 250, 300, "whole")
    assert each_node_once([gpus, cpus]) == [gpus, cpus]
    assert [(lending.job, lending.end_s) for lending in each_node_once([gpus, cpus, more_gpus])] == [
        (gpus.job, 200), (cpus.job, 300), (more_gpus.job, 300),
    ]  # fmt: skip
    assert [lending.end_s for lending in each_node_once([cpus, more_gpus, whole])] == [250, 250, 300]


def test_of_a_part_as_much_counts_as_it_is_of_the_node() -> None:
    parts = [replace(lending("n1", 100, 400), share=0.25), replace(lending("n1", 200, 300), share=0.5)]
    assert time_of(*parts) == LentTime(300 / 4 + 50, 10 / 4 + 2 * 3 / 4, 3 / 4, starts=2)
    alone = lent_times(parts, {"7": replace(COSTS, independent=True)}, 0.0, 1000.0)["7"]
    assert (alone.lent_s, alone.lost_to_starts_s) == (125, 10 * 3 / 4)


def test_nodes_that_work_each_by_itself_lose_their_own_start_and_what_was_cut_off() -> None:
    costs = ChangeCosts(start_s=10.0, scale_down_s=60.0, independent=True)
    cut_off = replace(lending("n2", 120, 320, evicted=True), was_cut_off=True)
    short = replace(lending("n3", 130, 150), was_cut_off=True)
    own = [lending("n1", 100, 400), cut_off, short]
    whole = lent_times(own, {"7": costs}, 0.0, 1000.0)["7"]
    assert whole == LentTime(300 + 200 + 20, 10 + 10 + 10, 0 + 60 + 10, starts=3, evictions=1)
    halves = [lent_times(own, {"7": costs}, *half)["7"] for half in ((0.0, 300.0), (300.0, 1000.0))]
    assert halves[0] + halves[1] == whole


def test_what_goes_on_has_not_shrunk() -> None:
    on = replace(lending("n1", 100, 200), goes_on=True)
    assert time_of(on, lending("n2", 100, 400)).lost_to_ends_s == 0
    assert time_of(on, until_s=400).lent_s == 100, "what comes after now is not known"


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_counting_second_by_second_gives_and_ranges_side_by_side_add_up(seed: int) -> None:
    luck = random.Random(seed)
    starts = [(luck.randrange(100), luck.randrange(1, 40)) for _ in range(12)]
    lendings = each_node_once(
        lending(f"n{luck.randrange(4)}", start, start + lasts, evicted=luck.random() < 0.5)
        for start, lasts in starts
    )
    inner = sorted(luck.sample(range(5, 130), 3))
    bounds = [0, *inner, 140]
    parts = [lent_times(lendings, {"7": COSTS}, low, high).get("7", LentTime()) for low, high in pairwise(bounds)]
    for (low, high), part in zip(pairwise(bounds), parts, strict=True):
        seconds = [
            sum(lending.start_s <= second < lending.end_s for lending in lendings) for second in range(low, high)
        ]
        assert part.lent_s == sum(seconds)
        assert 0 <= part.useful_s <= part.lent_s
    assert sum(parts, LentTime()) == lent_times(lendings, {"7": COSTS}, 0, 140)["7"]
