from __future__ import annotations

from freetrain.daemon.reports.status import NodeGroup
from freetrain.web.nodes import MOST_ROWS, gather_reasons


def test_like_reasons_are_one_row_and_say_what_would_change_it() -> None:
    busy = [NodeGroup(f"n{number}", "not lent", why=f"job {700 + number} runs here") for number in range(5)]
    short = NodeGroup("m1", "not lent", why="its hole ends in 23 s")
    lent = [NodeGroup("a[1-2]", "lent", "7", until_s=50.0), NodeGroup("a3", "lent", "8", until_s=40.0)]
    first, second, third = gather_reasons([*busy, short, *lent])
    assert (first.state, first.count, first.nodes, first.until_s, first.advice) == ("lent", 3, "a[1-3]", 40.0, "")
    assert (second.count, second.why, second.nodes) == (5, "a job runs here", "n[0-4]")
    assert second.advice == "It can be lent once that job has ended."
    assert third.why == "its hole ends in some seconds"


def test_rows_and_lists_of_nodes_stay_short() -> None:
    apart = [NodeGroup(f"n{number}", "not lent", why=f"because {'x' * number}") for number in range(100)]
    assert len(gather_reasons(apart)) == MOST_ROWS
    (row,) = gather_reasons([NodeGroup(f"rack{number}-{number * 7}", "free") for number in range(1000)])
    assert row.count == 1000
    assert len(row.nodes) < 150
    assert row.nodes.endswith(", …")
