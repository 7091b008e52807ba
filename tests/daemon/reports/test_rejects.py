from __future__ import annotations

import pytest

from freetrain.daemon.reports.look_log import Rejects


def test_each_line_that_was_not_understood_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    rejects = Rejects()
    for _ in range(3):
        rejects.tell(["one", "two", "one"])
    assert [record.message for record in caplog.records] == [
        "not understood, and left aside: one",
        "not understood, and left aside: two",
    ]


def test_of_many_lines_the_first_are_said_and_the_rest_counted(caplog: pytest.LogCaptureFixture) -> None:
    rejects = Rejects()
    rejects.tell(map(str, range(5000)))
    assert len(caplog.records) == 11
    assert caplog.messages[-1] == "4990 more lines of Slurm's were not understood"
