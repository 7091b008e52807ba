from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.slurm import node_groups
from freetrain.slurm.node_groups import read_node_list
from freetrain.slurm.parsing import expand_nodes

GROUPS = """[Main]
default: local
autodir: $CFGDIR/groups.d
[local]
map: sed -n 's/^$GROUP:\\(.*\\)/\\1/p' $CFGDIR/nodes
all: echo n[001-006]
list: sed -n 's/^\\([a-z]*\\):.*/\\1/p' $CFGDIR/nodes
"""


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of a site: gpu and empty, and r1 of another source, racks."""
    site = tmp_path / "clustershell"
    (site / "groups.d").mkdir(parents=True)
    (site / "groups.conf").write_text(GROUPS)
    (site / "nodes").write_text("gpu: n[001-002]\nempty:\n")
    (site / "groups.d" / "racks.yaml").write_text("racks:\n  r1: 'n[002-004]'\n")
    monkeypatch.setattr(node_groups, "_SITES", str(site))
    monkeypatch.delenv("CLUSTERSHELL_CFGDIR", raising=False)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("@gpu", "n[001-002]"),
        ("@racks:r1", "n[002-004]"),
        ("c[1-2],@gpu,d5", "c[1-2],d5,n[001-002]"),
        ("@gpu,@racks:r1", "n[001-004]"),
        ("@racks:r1!@gpu", "n[003-004]"),
        ("@*", "n[001-006]"),
        ("c[01-02]", "c[01-02]"),
        ("c1", "c1"),
    ],
)
def test_groups_stand_for_their_nodes(text: str, nodes: str) -> None:
    assert read_node_list(text) == expand_nodes(nodes)


def test_too_many_are_refused_beside_groups_too() -> None:
    with pytest.raises(ValueError, match="more than 100,000 nodes in"):
        read_node_list("@gpu,c[1-99999999]")


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("@nope", "@nope"), ("n001,@nope", "@nope"), ("@racks:nope", "@racks:nope"), ("@no:r1", "@no:r1"),
        ("@empty", "@empty"), ("@", "@"),
    ],
)  # fmt: skip
def test_a_group_that_does_not_exist_is_named(text: str, group: str) -> None:
    with pytest.raises(ValueError, match=f"there is no group of nodes {group}, or nothing in it"):
        read_node_list(text)


def test_without_any_groups_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_groups, "_SITES", "/nowhere")
    with pytest.raises(ValueError, match="there is no group of nodes @gpu"):
        read_node_list("@gpu")


def test_a_variable_names_other_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "groups.conf").write_text("[Main]\ndefault: own\n[own]\nmap: echo x[1-3]\n")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path))
    assert read_node_list("@any") == {"x1", "x2", "x3"}


def test_groups_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "groups.conf").write_text("[Main]\ndefault: own\n[own]\nall: echo x1\n")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path))
    with pytest.raises(ValueError, match="the groups of nodes in '@any' cannot be read"):
        read_node_list("@any")


@pytest.mark.parametrize("text", ["@gpu,c[1-", "@gpu,"])
def test_what_is_no_list_of_nodes_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no list of nodes"):
        read_node_list(text)


@pytest.mark.parametrize(
    "text",
    [
        "n1 n2", "n1;n2", "n1|n2", "n1:n2", "n1/n2", "n1&n2", "n1!n2", "n1\tn2", "n1\nn2", "n[1-2] n3", "n1,,n2",
        "n1,", "n*", "n?", "n(1-2)", "n{1..4}", "n1]", "n[1-2", "c[01-04 17]", "n[2-1]", "n[1:3]", "-n1", "ö1",
        "n1-n4",
    ],
)  # fmt: skip
def test_what_is_not_a_list_of_nodes_is_refused_and_never_taken_for_one_node(text: str) -> None:
    with pytest.raises(ValueError, match="no list of nodes: "):
        read_node_list(text)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n1, n2", {"n1", "n2"}),
        (" n1 ", {"n1"}),
        ("cn1-12", {"cn1-12"}),
        ("", set()),
        ("gpu-a.b_1", {"gpu-a.b_1"}),
    ],
)
def test_spaces_around_names_are_no_part_of_them(text: str, nodes: set[str]) -> None:
    assert read_node_list(text) == nodes
