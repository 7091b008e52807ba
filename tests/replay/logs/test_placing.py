"""Packing of jobs on nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from freetrain.replay.logs.placing import PackedJobs, PackingGroup, pack, peak_in_use

Job = tuple[int, int, int]


def packed(jobs: list[Job], nodes: int, cores: int = 1, shared: bool = False) -> PackedJobs:
    start, end, need = (np.array(column) for column in zip(*jobs, strict=True))
    each = np.full(nodes, cores, np.int32)
    group = PackingGroup(np.arange(nodes, dtype=np.int32), each, shared)
    return pack(start.astype(float), end.astype(float), need, np.zeros(len(jobs), np.int64), [group], each)


def nodes_of(result: PackedJobs) -> list[list[int]]:
    return [piece.tolist() for piece in np.split(result.node, np.cumsum(result.count)[:-1])]


def test_jobs_take_the_lowest_free_nodes_in_the_order_of_their_starts() -> None:
    assert nodes_of(packed([(2, 9, 1), (0, 3, 2), (1, 9, 1)], nodes=4)) == [[3], [0, 1], [2]]


def test_a_job_that_ends_makes_room_for_one_that_starts_then() -> None:
    assert nodes_of(packed([(0, 5, 2), (5, 9, 2)], nodes=2)) == [[0, 1], [0, 1]]


def test_a_full_machine_gives_what_is_left_and_counts_what_is_missing() -> None:
    result = packed([(0, 9, 3), (1, 9, 3)], nodes=4)
    assert nodes_of(result) == [[0, 1, 2], [3]]
    assert result.missing_nodes.tolist() == [0, 2]


def test_shared_nodes_are_filled_whole_first_and_the_rest_goes_where_there_is_room() -> None:
    jobs = [(0, 9, 3), (1, 9, 5), (2, 9, 1)]
    assert nodes_of(packed(jobs, nodes=3, cores=4, shared=True)) == [[0], [1, 0], [2]]


def test_cores_are_taken_wherever_they_are_if_no_node_has_room() -> None:
    result = packed([(0, 9, 3), (1, 9, 3), (2, 9, 3)], nodes=2, cores=4, shared=True)
    assert nodes_of(result)[2] == [0, 1]
    assert result.missing_nodes.tolist() == [0, 0, 0.25]


jobs_strategy = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 12)).map(lambda t: (t[0], t[0] + t[1], t[2])),
    min_size=1,
    max_size=30,
)


@given(jobs_strategy, st.booleans())
def test_no_node_ever_holds_more_than_it_has(jobs: list[Job], shared: bool) -> None:
    cores = 3 if shared else 1
    result = packed(jobs, nodes=4, cores=cores, shared=shared)
    for number, (node, (start, end, need)) in enumerate(zip(nodes_of(result), jobs, strict=True)):
        assert len(set(node)) == len(node)
        if not shared:
            assert len(node) + result.missing_nodes[number] == need
            others = [
                other for n, other in enumerate(nodes_of(result)) if n != number and overlap(jobs[n], (start, end))
            ]
            assert not set(node) & {taken for other in others for taken in other}


@given(jobs_strategy)
def test_a_machine_as_large_as_the_peak_has_room_for_all(jobs: list[Job]) -> None:
    start, end, need = (np.array(column) for column in zip(*jobs, strict=True))
    peak = peak_in_use(start.astype(float), end.astype(float), need)
    assert packed(jobs, nodes=peak).missing_nodes.sum() == 0


def overlap(job: Job, span: tuple[int, int]) -> bool:
    return job[0] < span[1] and job[1] > span[0]
