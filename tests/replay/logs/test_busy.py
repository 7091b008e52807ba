from __future__ import annotations

import pytest

from freetrain.errors import InputError
from tests.replay.logs.build import Write, read


def holes(write: Write, *rows: str, **options: object) -> list[tuple[str, float, float]]:
    log = read(write("\n".join(("t,node,idle", *rows)) + "\n"), **({"from_s": 0.0, "until_s": 100.0} | options))
    found = log.holes
    names = [found.node_names[node] for node in found.node]
    return sorted(zip(names, found.start_s.tolist(), found.end_s.tolist(), strict=True))


def test_a_hole_lasts_from_idle_to_taken(write: Write) -> None:
    assert holes(write, "10,a,1", "20,a,0", "0,b,0", "100,b,1") == [("a", 10, 20)]


def test_before_its_first_event_a_node_was_in_the_other_state(write: Write) -> None:
    assert holes(write, "10,a,0", "20,b,1", "100,c,1") == [("a", 0, 10), ("b", 20, 100)]


def test_a_node_taken_and_freed_at_once_was_idle_throughout(write: Write) -> None:
    assert holes(write, "0,a,1", "50,a,0", "50,a,1", "100,b,1") == [("a", 0, 100)]


def test_a_repeated_state_changes_nothing_and_is_counted(write: Write) -> None:
    log = read(write("t,node,idle\n0,a,1\n5,a,1\n9,a,0\n100,a,1\n"), from_s=None, until_s=None)
    assert log.rows.ignored == {"repeats the node's state": 1}
    assert (log.jobs, log.packed, log.format) == (0, False, "node events")
    assert (log.holes.from_s, log.holes.until_s) == (0, 100)


def test_rows_may_be_out_of_order_and_columns_too(write: Write) -> None:
    log = read(write("idle,t,node,why\n0,20,a,x\n1,10,a,y\n0,100,b,z\n"), from_s=0.0, until_s=99.0, only_nodes="a")
    assert log.holes.start_s.tolist() == [10]


def test_bad_events_are_named(write: Write) -> None:
    path = write("t,node,idle\n0,a,1\nx,a,0\n5,,1\n6,a,2\n7,a\nnan,a,1\n9,a,0\n10,a,1\n11,a,0\n12,a,1\n")
    log = read(path, from_s=None, until_s=None)
    assert [reject.line for reject in log.rows.first_rejects] == [3, 4, 5, 6, 7]
    assert (log.rows.read, log.rows.used, log.rows.rejected) == (10, 5, 5)


def test_a_numeric_range_selects_nodes_whose_names_are_numbers(write: Write) -> None:
    rows = [f"{10 + node},{node},1" for node in range(12)]
    assert [name for name, _, _ in holes(write, *rows, only_nodes="0-2,10")] == ["0", "1", "10", "2"]


def test_choosing_nodes_that_are_not_there_is_refused(write: Write) -> None:
    with pytest.raises(InputError, match="names no node"):
        holes(write, "10,a,1", "20,a,0", only_nodes="b[1-3]")
    with pytest.raises(InputError, match="--only-nodes cannot be read"):
        holes(write, "10,a,1", "20,a,0", only_nodes="b[1-")


def test_nodes_without_events_count_as_busy(write: Write) -> None:
    log = read(write("t,node,idle\n0,a,1\n100,a,0\n"), from_s=None, until_s=None, nodes=5)
    assert len(log.holes.node_names) == 5
    assert log.holes.mean_idle_nodes == 1


@pytest.mark.parametrize("t", ["99999999999999999999", "-1e300", "inf", "2200-01-01T00:00:00"])
def test_a_time_that_no_clock_shows_is_a_bad_event(write: Write, t: str) -> None:
    log = read(write(f"t,node,idle\n0,a,1\n{t},a,0\n9,a,0\n"), from_s=None, until_s=None)
    assert (log.rows.rejected, log.rows.first_rejects[0].line, log.holes.until_s) == (1, 3, 9)
