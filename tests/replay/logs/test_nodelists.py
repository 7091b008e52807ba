from __future__ import annotations

import numpy as np
import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st

from freetrain.replay.logs import nodelists
from freetrain.replay.logs.nodelists import (
    NodeIndex,
    NodeListError,
    expand,
    gathered,
    read_node_lists,
    spelled_twice,
)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("c1", ["c1"]),
        ("c[08-11]", ["c08", "c09", "c10", "c11"]),
        ("c[8-11]", ["c8", "c9", "c10", "c11"]),
        ("d13n[03,05,07-08],gpu3", ["d13n03", "d13n05", "d13n07", "d13n08", "gpu3"]),
        ("cpn-q06-04-[01-02],cpn-u25-[20,36]", ["cpn-q06-04-01", "cpn-q06-04-02", "cpn-u25-20", "cpn-u25-36"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("r[1-2]-ib", ["r1-ib", "r2-ib"]),
    ],
)
def test_a_list_names_its_nodes(text: str, nodes: list[str]) -> None:
    index = NodeIndex()
    names = [list(index.position)[position] for position in index.positions(text)]
    assert sorted(names) == sorted(nodes)


@pytest.mark.parametrize(
    "text",
    [
        "c[1-",
        "c]1[",
        "c[]",
        "c[a-b]",
        "c[5-1]",
        "c[010-9]",
        "a b",
        "@all",
        "c*",
        "c[1-2]!c1",
        ",",
        "c[1-9999999]",
        "n[-99999999-5]x",
        "c[1--5]x",
        "n[99999999999999999999-1]x",
    ],
)
def test_an_unreadable_list_is_refused(text: str) -> None:
    with pytest.raises(NodeListError):
        NodeIndex().positions(text)


@pytest.mark.parametrize("text", ["c[1-99999999999999]x", "r[1-900000]n[1-900000]"])
def test_a_list_that_names_too_many_nodes_is_refused_at_once(text: str) -> None:
    with pytest.raises(NodeListError, match="names more than 1,000,000 nodes"):
        expand(text)


def test_a_closed_machine_has_no_other_nodes() -> None:
    lists = read_node_lists(["c1", "c2", "c[1-2]"], NodeIndex(["c1"], closed=True))
    assert lists.bad == {1: "node 'c2' is not in the machine", 2: "node 'c2' is not in the machine"}
    assert lists.node.tolist() == [0]


@given(st.sets(st.integers(1, 300), min_size=1), st.integers(1, 4))
def test_the_fast_path_reads_what_clustershell_writes(numbers: set[int], width: int) -> None:
    nodes = {f"n{number:0{width}d}" for number in numbers}
    index = NodeIndex()
    positions = index.positions(str(NodeSet.fromlist(sorted(nodes))))
    assert {list(index.position)[position] for position in positions} == nodes


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_nodes_of_some_lists_are_gathered_some_lists_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodelists, "_LISTS_AT_ONCE", at_once)
    lists = read_node_lists(["c[1-3]", "c7", "c[", "c[2-3]"], NodeIndex())
    node, count = gathered(lists, np.array([3, 2, 0, 1, 0], np.uint16))
    assert node.tolist() == [1, 2, 0, 1, 2, 3, 0, 1, 2]
    assert count.tolist() == [2, 0, 3, 1, 3]
    assert [len(part) for part in gathered(lists, np.zeros(0, np.uint16))] == [0, 0]


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (["n4", "N4", "n5"], [("n4", "N4")]),
        (["n4", "n04", "n004"], [("n4", "n04"), ("n4", "n004")]),
        (["n4", "n4.hpc.org", "n5.hpc.org"], [("n4", "n4.hpc.org")]),
        (["n0", "n00"], [("n0", "n00")]),
        (["r1.n1", "r1.n2", "n10", "n1", "n100", "10", "1"], []),
    ],
)
def test_names_that_may_be_of_one_node_are_found(names: list[str], pairs: list[tuple[str, str]]) -> None:
    assert spelled_twice(names) == pairs
