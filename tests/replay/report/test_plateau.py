from __future__ import annotations

from freetrain.core.trainer import Trainer
from freetrain.replay.report.sentences import about_plateau, find_plateau
from tests.replay.report.conftest import make_holes, make_record

TWO_NODES = ((1, 10.0), (2, 20.0))


def trainers(count: int) -> tuple[Trainer, ...]:
    return tuple(Trainer(f"t{number}", TWO_NODES) for number in range(count))


def test_idle_nodes_beyond_what_the_trainers_can_use_are_a_plateau() -> None:
    holes = make_holes([(node, 0, 3600) for node in range(10)], 10, 3600)
    runs = make_record(holes, trainers(9), max_running=3).runs
    plateau = find_plateau(holes, runs, 3)
    assert plateau is not None
    assert (plateau.reach_nodes, plateau.beyond_node_hours, plateau.share) == (6, 4.0, 0.4)
    assert plateau.suffices == 5
    assert "--max-running 5" in about_plateau(plateau)


def test_where_more_would_not_help_nothing_is_said() -> None:
    holes = make_holes([(node, 0, 3600) for node in range(6)], 10, 3600)
    assert find_plateau(holes, make_record(holes, trainers(9), max_running=3).runs, 3) is None
    assert find_plateau(holes, (), 3) is None


def test_a_peak_of_less_than_one_percent_does_not_count() -> None:
    rows = [(0, 0.0, 100_000.0), *((node, 10.0, 20.0) for node in range(1, 20))]
    holes = make_holes(rows, 20, 100_000)
    assert find_plateau(holes, make_record(holes, trainers(1), max_running=1).runs, 1) is None


def test_who_lacks_trainers_is_told_so_and_not_to_raise_the_limit() -> None:
    holes = make_holes([(node, 0, 3600) for node in range(10)], 10, 3600)
    plateau = find_plateau(holes, make_record(holes, trainers(2), max_running=5).runs, 5)
    assert plateau is not None
    assert "--max-running" not in about_plateau(plateau)
    assert "No more trainers came" in about_plateau(plateau)
