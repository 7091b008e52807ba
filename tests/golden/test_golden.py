"""Recordings of replays: equal where nothing has changed, and naming the first row that has."""

from __future__ import annotations

import json

from tests.golden.__main__ import differences, rows_of
from tests.golden.cases import Case
from tests.golden.without_logs import problems, walks

CASE = Case("hours", "small-cluster.sacct.gz", ("--until", "2024-06-03T02:00"), is_sample=True)


def test_a_replay_is_recorded_alike_each_time_with_all_that_was_decided() -> None:
    arguments = CASE.arguments(None)
    assert arguments is not None
    rows = rows_of(arguments)
    assert list(differences(rows, rows_of(arguments))) == []
    assert {json.loads(row)[1] for row in rows} >= {"offered", "withheld", "decision", "horizon"}


def test_walks_and_problems_are_recorded_alike_each_time() -> None:
    assert list(differences(problems(20), problems(20))) == []
    rows = walks(1)
    assert list(differences(rows, walks(1))) == []
    assert {json.loads(row)[1] for row in rows} >= {"offered", "order", "decision"}


def test_the_first_row_that_differs_is_named() -> None:
    assert next(differences(["a", "b"], ["a", "c"])) == "row 2 was b, is c"
    assert next(differences(["a"], ["a", "c"])) == "row 2 was (nothing), is c"
    assert Case("away", "traces/none.gz", ()).arguments(None) is None
