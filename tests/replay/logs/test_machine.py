from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.errors import InputError
from freetrain.replay.logs.machine import read_machine
from tests.replay.logs.build import Write, holes_of, read, row, sacct

POOLS = """
name = "m"
[[pools]]
name = "thin"
nodes = 3
cores = 8
[[pools]]
name = "gpu"
nodes = "g[1-2]"
cores = 4
gpus = 2
partitions = ["gpu"]
shared = true
"""
NAMED = 'name = "m"\n[[pools]]\nname = "all"\nnodes = "c[1-4]"\n'
EXAMPLE = Path(__file__).parents[3] / "etc" / "machine.example.toml"


def test_pools_are_read_in_order_with_names_made_up_where_needed(write: Write) -> None:
    machine = read_machine(write(POOLS))
    assert machine.node_names == ("thin1", "thin2", "thin3", "g1", "g2")
    assert [(pool.begin, pool.end, pool.gpus, pool.shared) for pool in machine.pools] == [
        (0, 3, 0, False),
        (3, 5, 2, True),
    ]


def test_a_partition_runs_on_the_pools_that_list_it_or_on_those_for_all(write: Write) -> None:
    machine = read_machine(write(POOLS))
    assert [pool.name for pool in machine.pools_of("gpu")] == ["gpu"]
    assert [pool.name for pool in machine.pools_of("batch")] == ["thin"]


def test_the_example_is_a_machine() -> None:
    assert len(read_machine(EXAMPLE).node_names) == 5184


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("name = ", "is not TOML"),
        ('name = "m"', "pools: field required"),
        ('name = "m"\npools = []', "pools: tuple should have at least 1 item"),
        (NAMED + "color = 1\n", r"pools\[0\].color: extra inputs"),
        (NAMED + "cores = 0\n", r"pools\[0\].cores: input should be greater"),
        (NAMED.replace('"c[1-4]"', "true"), r"pools\[0\].nodes"),
        (NAMED.replace('"c[1-4]"', "0"), r"pools\[0\].nodes"),
        (NAMED.replace("c[1-4]", "c[1-"), r"pools\[0\].nodes: node list 'c\[1-' cannot be read"),
        (NAMED + '[[pools]]\nname = "b"\nnodes = "c[4-5]"\n', "node 'c4' is in two pools"),
    ],
)
def test_a_wrong_file_is_refused_with_the_field_s_name(write: Write, content: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_machine(write(content))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_machine(tmp_path / "none.toml")


def test_named_nodes_are_the_machine_and_no_others(write: Write) -> None:
    log = read(write(sacct(row("1", list="c2"), row("2", list="c[4-5]"))), machine=write(NAMED))
    assert log.holes.node_names == ("c1", "c2", "c3", "c4")
    assert holes_of(log, "c4") == [(0, 24)]
    assert "node 'c5' is not in the machine" in log.rows.first_rejects[0].reason


def test_more_nodes_than_the_log_names_look_idle_and_the_notes_say_so(write: Write) -> None:
    log = read(write(sacct(row(list="c[1-2]"))), nodes=5)
    assert len(log.holes.node_names) == 5
    assert any("never named in the log" in note for note in log.notes)


def test_fewer_nodes_than_the_log_names_are_refused(write: Write) -> None:
    with pytest.raises(InputError, match="names 2 nodes, but the machine has 1"):
        read(write(sacct(row(list="c[1-2]"))), nodes=1)


def test_a_job_for_more_nodes_than_the_machine_has_is_a_bad_row(write: Write) -> None:
    log = read(write(sacct(row("1", list=""), row("2", list="", nodes="1K"))), nodes=8)
    assert log.rows.first_rejects[0].reason == "needs 1,024 nodes, but the machine has 8 for it"


def test_if_no_job_fits_the_sentence_says_why(write: Write) -> None:
    with pytest.raises(InputError, match="needs 9 nodes"):
        read(write(sacct(row(list="", nodes="9"))), nodes=8)


def test_a_partition_without_pool_is_a_bad_row(write: Write) -> None:
    only_gpu = write(POOLS.replace("cores = 8", 'cores = 8\npartitions = ["thin"]'))
    log = read(write(sacct(row("1", list="", partition="gpu"), row("2", list=""))), machine=only_gpu)
    assert log.rows.first_rejects[0].reason == "partition 'batch' is in no pool of the machine"


def test_jobs_in_a_shared_pool_share_its_nodes(write: Write) -> None:
    rows = [row(str(n), list="", partition="gpu", cores="2", start=f"0{n}", end="06") for n in range(1, 4)]
    log = read(write(sacct(*rows)), machine=write(POOLS))
    assert holes_of(log, "g1") == [(0, 1), (6, 24)]
    assert holes_of(log, "g2") == [(0, 3), (6, 24)]
    assert holes_of(log, "thin1") == [(0, 24)]
    assert log.packed


def test_without_node_lists_and_machine_the_hint_names_the_peak(write: Write) -> None:
    rows = [row("1", list="", nodes="3", end="05"), row("2", list="", nodes="2", start="05", end="06")]
    with pytest.raises(InputError, match="names no nodes") as caught:
        read(write(sacct(*rows)))
    assert "up to 3 nodes in use at once" in caught.value.hint


def test_leaves_are_counted_off_within_each_pool(write: Write) -> None:
    topology = read_machine(write(POOLS.replace("cores = 8", "nodes_per_leaf = 2"))).topology(("thin1", "g1"))
    assert topology.leaves == {"thin1": "thin/leaf1", "thin2": "thin/leaf1", "thin3": "thin/leaf2"}
    assert topology.way_up("thin/leaf2") == ("thin/leaf2", "thin/", "/")
    assert topology.leaf_of("g1") == ""


def test_a_log_with_names_of_its_own_is_counted_off_in_its_order(write: Write) -> None:
    machine = read_machine(write('name = "m"\n[[pools]]\nname = "all"\nnodes = 3\nnodes_per_leaf = 2\n'))
    assert machine.topology(("17", "4", "9")).leaves == {"17": "all/leaf1", "4": "all/leaf1", "9": "all/leaf2"}


def test_links_carry_what_the_machine_file_says(write: Write) -> None:
    machine = read_machine(write(POOLS + "[links]\nnode_gbit = 100\nuplink_gbit = 800.5\n"))
    assert (machine.node_gbit, machine.uplink_gbit) == (100.0, 800.5)
    unsaid = read_machine(write(POOLS))
    assert (unsaid.node_gbit, unsaid.uplink_gbit) == (0.0, 0.0)
    with pytest.raises(InputError, match=r"links\.node_gbit: input should be greater than or equal to 0"):
        read_machine(write(POOLS + "[links]\nnode_gbit = -1\n"))
