from __future__ import annotations

from itertools import islice

from freetrain.core.trainer import Trainer
from freetrain.replay.report.page import render
from freetrain.replay.report.tables import trainer_kinds
from freetrain.replay.trainers import PRESETS
from tests.replay.report.conftest import make_holes, make_input, make_record

ROWS = [(node, 0.0, 3600.0) for node in range(40)]


def test_trainers_that_are_alike_share_a_line() -> None:
    record = make_record(make_holes(ROWS, 40, 3600), tuple(islice(PRESETS["mix"], 30)), max_running=30)
    rows = trainer_kinds(record.runs)
    assert {row.name for row in rows} == {trainer.id.rpartition("-")[0] for trainer in islice(PRESETS["mix"], 7)}
    assert sum(row.trainers for row in rows) == 30
    assert sum(row.samples for row in rows) == sum(run.samples for run in record.runs)


def test_few_trainers_have_a_line_each() -> None:
    assert trainer_kinds(make_record(make_holes(ROWS, 40, 3600), tuple(islice(PRESETS["mix"], 9))).runs) == ()


def test_trainers_that_all_differ_are_no_kinds() -> None:
    many = tuple(Trainer(f"t{number}", ((1, 1.0 + number),)) for number in range(30))
    assert trainer_kinds(make_record(make_holes(ROWS, 40, 3600), many, max_running=30).runs) == ()


def test_names_without_anything_in_common_are_cut_short() -> None:
    many = tuple(Trainer(f"{number}-x", ((1, 1.0),)) for number in range(30))
    runs = make_record(make_holes(ROWS, 40, 3600), many, max_running=30).runs
    assert [row.name for row in trainer_kinds(runs)] == ["0-x …"]


def test_the_page_shows_kinds_instead_of_many_lines_that_are_alike() -> None:
    trainers = tuple(Trainer(f"hpo-{number:02d}", ((1, 1.0),), target_samples=300) for number in range(30))
    page = render(make_input(make_holes(ROWS, 40, 3600), trainers))
    assert "hpo-07" not in page
    assert '<th scope="row">hpo</th><td class="n">30</td><td class="n">30</td>' in page
