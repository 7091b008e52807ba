"""Which nodes a daemon lends, by the switches that Slurm shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.config import Config, ConfigError
from freetrain.daemon.admission.contradictions import check_choices
from freetrain.store.store import Store
from tests.daemon.training import Site

SWITCHES = (
    "SwitchName=outer Level=0 LinkSpeed=1 Nodes=n[1,4]\n"
    "SwitchName=inner Level=0 LinkSpeed=1 Nodes=n[2-3]\n"
    "SwitchName=other Level=0 LinkSpeed=1 Nodes=n[5-8]\n"
    "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=outer,inner,other\n"
)


def nodes_lent(tmp_path: Path, place: str, *users: str) -> list[tuple[str, ...]]:
    """To two trainings of two nodes each, of these users."""
    site = Site(tmp_path, Store.open(tmp_path / "freetrain.db"), place=place)
    site.slurm.topology = SWITCHES
    arrays = [site.slurm.submit_array("freetrain:min=2,max=2", user=user) for user in users]
    with site.daemon():
        decisions = site.look(2)
        assert sum(len(site.slurm.running(array)) for array in arrays) == 4
    return [tuple(sorted(nodes)) for decision in decisions for nodes in decision.placement.values()]


def test_a_daemon_that_knows_the_switches_lends_nodes_of_one_leaf(tmp_path: Path) -> None:
    assert nodes_lent(tmp_path, "ring", "news", "news") == [("n5", "n6"), ("n7", "n8")]


def test_each_user_is_dealt_nodes_of_one_leaf(tmp_path: Path) -> None:
    assert nodes_lent(tmp_path, "ring", "news", "games") == [("n5", "n7"), ("n6", "n8")]


def test_a_daemon_that_does_not_look_at_switches_deals_nodes_in_turns(tmp_path: Path) -> None:
    assert nodes_lent(tmp_path, "first", "news", "games") == [("n1", "n3"), ("n2", "n4")]


def test_a_daemon_without_a_placer_of_its_own_lends_the_first_nodes(tmp_path: Path) -> None:
    assert nodes_lent(tmp_path, "first", "news", "news") == [("n1", "n2"), ("n3", "n4")]


HEAVY = "freetrain:max=8,curve=1:100/8:700,gradients=10/1"
"""On eight nodes its ring needs 12.3 Gbit/s of each of its links, on four 10.7, on two 7.4."""


@pytest.mark.parametrize(
    ("links", "leaves"),
    [
        ({}, {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}),
        ({"uplink_gbit": 5.0}, {"n5", "n6", "n7", "n8"}),
        ({"node_gbit": 5.0, "uplink_gbit": 100.0}, {"n2"}),
    ],
)
def test_gadget_lends_no_more_nodes_than_links_have_room_for(
    tmp_path: Path, links: dict[str, float], leaves: set[str]
) -> None:
    site = Site(tmp_path, Store.open(tmp_path / "freetrain.db"), policy="gadget", links=links)
    site.slurm.topology = SWITCHES
    array = site.slurm.submit_array(HEAVY, tasks=8)
    with site.daemon():
        (decision,) = site.look()
    assert set(decision.placement[array]) == leaves
    assert any("does not have left" in note for note in decision.notes) == bool(links)


def test_the_switches_are_asked_for_once_and_not_where_nobody_wants_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(tmp_path, Store.open(tmp_path / "freetrain.db"), place="ring")
    site.slurm.topology = "SwitchName=odd Level=high Nodes=n1\n"
    with site.daemon():
        site.look(3)
    assert caplog.text.count("a line of Slurm's topology was not understood: switch 'SwitchName=odd") == 1


def test_settings_that_name_a_placer_which_is_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"decide\.place: There is no placer 'nearby'"):
        check_choices(Config.model_validate({"decide": {"place": "nearby"}}))
