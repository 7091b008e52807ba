from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from freetrain.config.sections import State
from freetrain.daemon.controls.site_orders import (
    Drain,
    OrdersReader,
    are_heeded,
    changing,
    read_drains,
    read_orders,
    reasons,
    without,
)
from freetrain.errors import StateError
from freetrain.lending.facts import SiteOrders
from freetrain.lending.node_verdicts import NODE_VERDICTS
from tests.daemon.conftest import StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

NOW_S = 1_000_000.0


def drain(*nodes: str, until_s: float | None = None) -> Drain:
    return Drain(nodes=frozenset(nodes), until_s=until_s)


def keep(directory: Path, *drains: Drain) -> None:
    with changing(directory, NOW_S) as kept:
        kept[:] = drains


def test_drains_are_kept_until_they_end(tmp_path: Path) -> None:
    assert read_drains(tmp_path, NOW_S) == ()
    brief, lasting = drain("n1", "n2", until_s=NOW_S + 10), drain("n3")
    keep(tmp_path, brief, lasting)
    assert read_drains(tmp_path, NOW_S + 9) == (brief, lasting)
    assert read_drains(tmp_path, NOW_S + 10) == (lasting,)
    assert (tmp_path / "drains.json").stat().st_mode & 0o777 == 0o644


def test_of_two_drains_of_a_node_the_longer_counts() -> None:
    said = reasons([drain("n1"), drain("n1", "n2", until_s=0.0)])
    assert said == {
        "n1": "drained by the site until further notice",
        "n2": "drained by the site until 1970-01-01T00:00:00Z",
    }


def test_nodes_are_taken_out_of_drains() -> None:
    assert without([drain("n1", "n2"), drain("n3")], frozenset({"n1", "n3"})) == (drain("n2"),)


def test_what_goes_wrong_meanwhile_changes_nothing(tmp_path: Path) -> None:
    keep(tmp_path, drain("n1"))
    with suppress(RuntimeError), changing(tmp_path, NOW_S) as drains:
        drains.clear()
        raise RuntimeError
    assert read_drains(tmp_path, NOW_S) == (drain("n1"),)


def test_without_a_directory_the_sentence_says_where_to_do_it(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot change which nodes are drained"):
        keep(tmp_path / "nowhere", drain("n1"))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"drains": [{"nodes": ["n1"], "until_s": "NaN"}]}', "\0"])
def test_a_damaged_file_leaves_what_is_drained_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    reader, state = OrdersReader(), State(directory=str(tmp_path))
    keep(tmp_path, drain("n1"))
    before = reader.read(state, NOW_S)
    (tmp_path / "drains.json").write_text(text)
    assert reader.read(state, NOW_S) == reader.read(state, NOW_S) == before
    reader.note_heeded(state)
    assert not are_heeded(tmp_path)
    assert len(caplog.records) == 1


def test_the_daemon_says_when_it_has_heeded_what_is_drained_now(tmp_path: Path) -> None:
    reader, state = OrdersReader(), State(directory=str(tmp_path))
    reader.read(state, NOW_S)
    reader.note_heeded(state)
    keep(tmp_path, drain("n1"))
    assert not are_heeded(tmp_path)
    reader.note_heeded(state)  # of a look that began before
    assert not are_heeded(tmp_path)
    assert reader.read(state, NOW_S).kept_off["drained"].keys() == {"n1"}
    reader.note_heeded(state)
    assert are_heeded(tmp_path)
    keep(tmp_path, drain("n2"))
    assert not are_heeded(tmp_path)


def test_each_order_that_keeps_nodes_off_has_its_verdict(tmp_path: Path) -> None:
    kept_off = read_orders(State(directory=str(tmp_path)), NOW_S).kept_off
    assert kept_off.keys() <= {verdict.name for verdict in NODE_VERDICTS}


def test_the_file_is_one_that_people_can_read(tmp_path: Path) -> None:
    keep(tmp_path, drain("n1", until_s=NOW_S + 1))
    assert json.loads((tmp_path / "drains.json").read_text()) == {
        "format": "freetrain-drains/1",
        "drains": [{"nodes": ["n1"], "until_s": NOW_S + 1}],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["drains.json"]


def test_drained_nodes_are_given_back_and_lent_no_more(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    daemon = start_daemon()
    for _ in range(2):
        daemon.cycle()
    assert len(slurm.running(array)) == 8
    why = {"n2": "drained by the site until further notice", "n3": "drained by the site until further notice"}
    for _ in range(3):
        daemon.cycle(orders=SiteOrders(kept_off={"drained": why}))
    assert slurm.running(array) == ["n1", "n4", "n5", "n6", "n7", "n8"]
    assert daemon.judgement.offers.withheld == why
    daemon.cycle()
    assert len(slurm.running(array)) == 8
