from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.problems import mixed_problem
from freetrain.cli.main import cli
from freetrain.core.problem import problem_to_dict

PROBLEM: dict[str, Any] = {
    "format": "freetrain-problem/1",
    "now": 0,
    "horizon_s": 120,
    "objective": "throughput",
    "nodes": [{"name": "n1", "free_until": None, "held_by": "A"}, {"name": "n2"}, {"name": "n3"}],
    "trainers": [{"id": "A", "max_nodes": 64, "throughput": [[1, 2831.0], [2, 5259.0], [4, 9988.0]]}],
}


def with_curve(points: list[list[float]], **fields: Any) -> dict[str, Any]:
    return PROBLEM | {"trainers": [{"id": "A", "throughput": points} | fields]}


def many_large_trainers() -> dict[str, Any]:
    trainers = [{"id": str(number), "throughput": [[1, 1.0], [100_000, 2.0]]} for number in range(60)]
    return PROBLEM | {"nodes": [], "trainers": trainers}


def solve(tmp_path: Path, content: str, *options: str) -> Result:
    path = tmp_path / "problem.json"
    path.write_text(content)
    return CliRunner().invoke(cli, ["solve", str(path), *options])


def test_one_problem_gives_one_result(tmp_path: Path) -> None:
    result = solve(tmp_path, json.dumps(PROBLEM, indent=2))
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    assert answer["format"] == "freetrain-result/1"
    assert answer["status"] == "optimal"
    assert answer["gap"] == 0.0
    assert sorted(answer["allocation"]["A"]) == ["n1", "n2", "n3"]
    assert answer["objective"] == pytest.approx(120 * 7623.5 - 18 * 2831)
    assert "cut to 4" in result.stderr


def test_many_problems_give_results_in_order(tmp_path: Path) -> None:
    problems = [mixed_problem(seed) for seed in range(20)]
    lines = "\n".join(json.dumps(problem_to_dict(problem)) for problem in problems)
    by_solver = [
        [json.loads(line)["objective"] for line in solve(tmp_path, lines, "--solver", solver).stdout.splitlines()]
        for solver in ("auto", "highs")
    ]
    assert len(by_solver[0]) == 20
    assert by_solver[0] == pytest.approx(by_solver[1], rel=1e-6, abs=1e-6)


def test_standard_input_is_a_file_too() -> None:
    result = CliRunner().invoke(cli, ["solve", "-"], input=json.dumps(PROBLEM))
    assert json.loads(result.stdout)["status"] == "optimal"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (json.dumps(PROBLEM | {"horizon_s": -1}), "horizon_s: "),
        (json.dumps(PROBLEM) + "\n" + json.dumps(PROBLEM | {"now": "x"}), "Line 2: "),
        (json.dumps(PROBLEM | {"horizon_s": 1e300}), "horizon_s: "),
        (json.dumps(with_curve([[1, 1e308]])), "at most 1e+18 samples/s"),
        (json.dumps(with_curve([[1, 1.0], [100_000_000, 2.0]])), "100,000,000 nodes; 100,000 is the most"),
        (json.dumps(with_curve([[1, 5e-324], [2, 1e18]]) | {"objective": "speedup"}), "inf at 2 nodes"),
        (json.dumps(with_curve([[1, 1.0]], min_nodes=10**30)), "min_nodes: "),
        (json.dumps(with_curve([[1, 1.0]], weight=1e300)), "weight: "),
        (json.dumps(with_curve([[1, 1.0]], start_s=1e300)), "start_s: "),
        (json.dumps(many_large_trainers()), "sizes to choose from"),
        ("", "empty"),
        ("{", "Invalid JSON"),
        ("\x00\x01", "Invalid JSON"),
    ],
)
def test_a_malformed_problem_ends_with_2_and_a_sentence(tmp_path: Path, content: str, complaint: str) -> None:
    result = solve(tmp_path, content)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_a_problem_or_a_recorded_decision_must_be_named(tmp_path: Path) -> None:
    assert CliRunner().invoke(cli, ["solve"]).exit_code == 2
    missing = CliRunner().invoke(cli, ["solve", "--decision", "1:1", "--store", str(tmp_path / "none.db")])
    assert missing.exit_code == 74
    odd = CliRunner().invoke(cli, ["solve", "--decision", "latest", "--store", str(tmp_path / "none.db")])
    assert odd.exit_code == 2
    assert "names no decision" in odd.stderr


def test_what_trainers_have_done_is_part_of_a_problem(tmp_path: Path) -> None:
    trainers = [{"id": name, "throughput": [[1, 10.0], [2, 20.0]], "target_samples": 2e3} for name in "AB"]
    problem = PROBLEM | {"nodes": [{"name": "n1"}, {"name": "n2"}], "trainers": trainers}
    fresh = json.loads(solve(tmp_path, json.dumps(problem), "--policy", "gadget").stdout)
    problem |= {"done_samples": {"A": 2e3}}
    after = json.loads(solve(tmp_path, json.dumps(problem), "--policy", "gadget").stdout)
    assert sum(map(len, fresh["allocation"].values())) == 2
    assert after["allocation"] == {"B": ["n1", "n2"]}
    past = {"A": {"done_samples": 2e3, "first_start_s": 50.0}}
    told = json.loads(solve(tmp_path, json.dumps(problem | {"past": past}), "--policy", "gadget").stdout)
    assert told["allocation"] == after["allocation"]
    for name, value in (("done_samples", {"A": -1}), ("past", {"A": {"node_s": -1}})):
        assert f"{name}.A" in solve(tmp_path, json.dumps(problem | {name: value})).stderr


def test_nodes_are_placed_by_the_switches_of_the_machine_file(tmp_path: Path) -> None:
    machine = tmp_path / "machine.toml"
    pools = ('name = "a"\nnodes = "n[2]"', 'name = "b"\nnodes = "n[1,3]"')
    machine.write_text('name = "m"\n' + "".join(f"[[pools]]\n{pool}\nnodes_per_leaf = 2\n" for pool in pools))
    free = [{"name": "n1"}, {"name": "n2"}, {"name": "n3"}]
    two_nodes = json.dumps(with_curve([[1, 10.0], [2, 20.0]]) | {"nodes": free})
    first = json.loads(solve(tmp_path, two_nodes).stdout)
    near = json.loads(solve(tmp_path, two_nodes, "--place", "ring", "--machine", str(machine)).stdout)
    assert first["allocation"] == {"A": ["n1", "n2"]}
    assert near["allocation"] == {"A": ["n1", "n3"]}


def test_bandwidth_is_that_of_the_machine_file(tmp_path: Path) -> None:
    """The ring of two needs 7.6 Gbit/s."""
    machine = tmp_path / "machine.toml"
    one = {"id": "A", "throughput": [[1, 100.0], [2, 190.0]], "bytes_per_sample": 1e7, "target_samples": 1e6}
    problem = json.dumps(PROBLEM | {"nodes": [{"name": "n1"}, {"name": "n2"}], "trainers": [one]})
    options = ("--policy", "gadget", "--machine", str(machine))
    for gbit, nodes in ((10, ["n1", "n2"]), (5, ["n1"])):
        links = f'[links]\nnode_gbit = {gbit}\n[[pools]]\nname = "a"\nnodes = "n[1-2]"\n'
        machine.write_text(f'name = "m"\n{links}')
        answer = solve(tmp_path, problem, *options)
        assert json.loads(answer.stdout)["allocation"] == {"A": nodes}
    assert "freetrain: A gets at most 1 instead of 2 nodes: its ring would need 7.6 Gbit/s" in answer.stderr
