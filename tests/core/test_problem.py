from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from freetrain.core.problem import problem_from_json, problem_to_dict
from freetrain.core.trainer import Servers
from freetrain.errors import InputError


def a_problem(**changes: Any) -> dict[str, Any]:
    problem: dict[str, Any] = {
        "format": "freetrain-problem/1",
        "now": 1000.0,
        "horizon_s": 120,
        "objective": "throughput",
        "nodes": [{"name": "n1", "free_until": None, "held_by": "A"}, {"name": "n2", "free_until": 1050.0}],
        "trainers": [{"id": "A", "throughput": [[1, 10.0], [2, 18.0]], "min_nodes": 1, "max_nodes": 2}],
    }
    return problem | changes


def test_a_problem_survives_its_json_form() -> None:
    problem = problem_from_json(json.dumps(a_problem()))
    assert problem_from_json(json.dumps(problem_to_dict(problem))) == problem


def test_servers_survive_it_too_and_nothing_is_said_of_them_where_nobody_uses_them() -> None:
    trainer = a_problem()["trainers"][0] | {"servers": {"most": 2, "step_s": [1, 0, 0.02, 0.02, 0.04]}}
    served = problem_from_json(json.dumps(a_problem(trainers=[trainer], serving={"A": ["n1"]})))
    assert served.trainers[0].servers == Servers(2, (1.0, 0.0, 0.02, 0.02, 0.04))
    assert served.serving == {"A": ("n1",)}
    assert problem_from_json(json.dumps(problem_to_dict(served))) == served
    assert "serv" not in json.dumps(problem_to_dict(problem_from_json(json.dumps(a_problem()))))


def test_how_often_sizes_change_survives_it_too_and_once_is_not_said() -> None:
    often = problem_from_json(json.dumps(a_problem(changes=7.5)))
    assert often.changes == 7.5
    assert problem_from_json(json.dumps(problem_to_dict(often))) == often
    assert "changes" not in problem_to_dict(problem_from_json(json.dumps(a_problem())))


def test_nodes_are_put_together_by_the_time_they_stay() -> None:
    problem = problem_from_json(json.dumps(a_problem()))
    assert [(node_class.life_s, node_class.taken_back) for node_class in problem.classes] == [
        (120.0, False),
        (50.0, True),
    ]
    assert problem.held.tolist() == [[1, 0]]
    assert problem.held_names == {"A": ("n1",)}


def test_whoever_decides_cannot_change_what_is() -> None:
    """The arrays are shared: with those who verify, and the trainers' terms with later decisions."""
    problem = problem_from_json(json.dumps(a_problem()))
    terms = problem.terms
    shared = [problem.held, problem.held_nodes, problem.capacity]
    parts = (getattr(terms, field.name) for field in dataclasses.fields(terms))
    shared += [part for part in parts if isinstance(part, np.ndarray)]
    assert [array.flags.writeable for array in shared] == [False] * 17


def test_a_node_that_is_due_back_is_left_out() -> None:
    nodes = [{"name": "gone", "free_until": 1000.0, "held_by": "A"}, {"name": "n2"}]
    problem = problem_from_json(json.dumps(a_problem(nodes=nodes)))
    assert problem.node_count == 1
    assert problem.held_nodes.tolist() == [0]


def test_an_end_beyond_the_horizon_does_not_matter() -> None:
    nodes = [{"name": "n1", "free_until": 9999.0}, {"name": "n2"}]
    assert len(problem_from_json(json.dumps(a_problem(nodes=nodes))).classes) == 1


def test_a_maximum_past_the_last_point_is_cut_with_a_warning() -> None:
    trainer = {"id": "A", "throughput": [[1, 10.0]], "max_nodes": 8}
    (warning,) = problem_from_json(json.dumps(a_problem(trainers=[trainer]))).terms.warnings
    assert "max_nodes 8" in warning
    assert "cut to 1" in warning


def test_a_minimum_past_the_last_point_is_warned_of() -> None:
    trainer = {"id": "A", "throughput": [[1, 10.0]], "min_nodes": 8}
    (warning,) = problem_from_json(json.dumps(a_problem(trainers=[trainer]))).terms.warnings
    assert "never gets a node" in warning


TRAINER: dict[str, Any] = {"id": "A", "throughput": [[1, 10.0]]}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"now": "noon"}, "now: "),
        ({"now": float("inf")}, "now: "),
        ({"horizon_s": 0}, "horizon_s: "),
        ({"format": "freetrain-problem/2"}, "format: "),
        ({"nods": []}, "nods: is not a field of it"),
        ({"objective": "fastest"}, "no objective 'fastest'"),
        ({"nodes": [{"free_until": None}]}, r"nodes\[0\].name: is missing"),
        ({"nodes": [{"name": "n1", "held_by": "B"}]}, r"nodes\[0\].held_by: there is no trainer 'B'"),
        ({"nodes": [{"name": "n1"}, {"name": "n1"}]}, "'n1' occurs 2 times"),
        ({"trainers": [TRAINER, TRAINER]}, "'A' occurs 2 times"),
        ({"trainers": [TRAINER | {"min_nodes": 3, "max_nodes": 2}]}, r"trainers\[0\]: min_nodes 3 is more"),
        ({"trainers": [TRAINER | {"scale_up_s": -1}]}, r"trainers\[0\].scale_up_s: "),
        ({"trainers": [TRAINER | {"throughput": [[2, 1.0], [1, 2.0]]}]}, r"trainers\[0\]: .*ascending"),
        ({"trainers": [TRAINER | {"throughput": []}]}, r"trainers\[0\].throughput: "),
        ({"trainers": [TRAINER | {"servers": {"most": 17}}]}, r"trainers\[0\].servers.most: "),
        ({"trainers": [TRAINER | {"servers": {"step_s": [1, 2]}}]}, r"trainers\[0\].servers.step_s"),
        ({"trainers": [{"id": "A"}]}, r"trainers\[0\].throughput: is missing"),
    ],
)
def test_a_malformed_problem_is_refused_with_a_sentence_that_names_the_field(
    changes: dict[str, Any], complaint: str
) -> None:
    nodes = {} if "nodes" in changes else {"nodes": []}
    with pytest.raises(InputError, match=complaint):
        problem_from_json(json.dumps(a_problem(**nodes, **changes)))


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(InputError, match="Invalid JSON"):
        problem_from_json("{nodes")
