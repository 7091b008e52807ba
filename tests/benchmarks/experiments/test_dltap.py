"""DLTAP: the published scores, and where they lead tasks."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.experiments.dltap import (
    KUBERNETES,
    LEAF_AWARE,
    PAPER,
    Host,
    PlacedTask,
    TaskKind,
    Weights,
    balanced,
    crossing_pairs,
    least_requested,
    place_tasks,
    spreading,
)
from freetrain.policies.dltap import aggregation_score

WORKER, SERVER = PlacedTask(TaskKind.WORKER, 5, 5), PlacedTask(TaskKind.SERVER, 5, 5)


@pytest.mark.parametrize(("peers", "scores"), [(4, [1, 3, 6, 8, 11]), (3, [1, 4, 7, 11]), (0, [1])])
def test_the_aggregation_score_is_the_published_one(peers: int, scores: list[int]) -> None:
    assert [aggregation_score(here, peers) for here in range(peers + 1)] == scores


def test_with_weight_one_two_workers_do_not_outweigh_an_emptier_node() -> None:
    """Node A has two of four workers and is half used, node B has none and is empty: a tie of 18 to 18."""
    size = np.array([[50.0, 50.0], [50.0, 50.0]])
    asked = np.array([[35.0, 30.0], [15.0, 15.0]])
    assert least_requested(asked, size).tolist() == [3, 7]
    assert balanced(asked, size).tolist() == [9, 10]
    own = [aggregation_score(2, 4), aggregation_score(0, 4)]
    assert (own + least_requested(asked, size) + balanced(asked, size)).tolist() == [18, 18]


def test_what_is_used_up_is_not_balanced_and_the_fewest_own_tasks_spread_best() -> None:
    full = np.array([[50.0, 20.0]])
    assert balanced(full, np.array([[50.0, 50.0]])).tolist() == [0]
    assert spreading(np.array([0, 1, 3])).tolist() == [10, 6, 0]
    assert spreading(np.array([0, 0])).tolist() == [10, 10]


def test_a_server_follows_its_workers_only_if_these_come_first() -> None:
    hosts = (Host("big", 40, 40, 12, 12), Host("small", 17, 17))
    only_aggregation = Weights(1, 0, 0, 0)
    first_workers = place_tasks((WORKER, WORKER, WORKER, SERVER), hosts, only_aggregation)
    assert first_workers == (1, 1, 1, 0)  # three fill the small host, and the server finds no room beside them
    roomy = (Host("big", 40, 40, 20, 20), Host("small", 20, 20))
    assert place_tasks((WORKER, WORKER, WORKER, SERVER), roomy, only_aggregation) == (0, 0, 0, 0)
    servers_first = place_tasks((SERVER, WORKER), hosts, PAPER)
    assert servers_first == place_tasks((SERVER, WORKER), hosts, KUBERNETES)


def test_leaf_aware_tasks_stay_on_a_leaf_where_no_node_has_room_for_all() -> None:
    hosts = tuple(Host(f"n{number}", 12, 12, leaf=f"leaf{number // 3}") for number in range(6))
    where = place_tasks((WORKER,) * 5 + (SERVER,), hosts, LEAF_AWARE)
    assert None not in where
    assert len({hosts[place].leaf for place in where if place is not None}) == 1


def test_pairs_of_server_and_worker_in_different_places_are_counted() -> None:
    tasks = (WORKER, WORKER, SERVER, SERVER)
    assert crossing_pairs(tasks, ("a", "b", "a", "b")) == (2, 4)
    assert crossing_pairs(tasks, ("a", None, "a", "b")) == (1, 2)
