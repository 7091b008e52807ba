from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.config.sections import State
from freetrain.daemon.controls.site_orders import OrdersReader, Pause, read_pause, write_pause
from freetrain.errors import StateError
from freetrain.lending.facts import SiteOrders
from tests.daemon.conftest import StartDaemon
from tests.daemon.fake_slurm import FakeSlurm

PAUSE = Pause(by="root", reason="new firmware", since_s=1000.0, until_s=2000.0)


def test_in_a_pause_what_is_lent_stays_and_nothing_more_is_lent(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon()
    first = slurm.submit_array("freetrain:min=1", tasks=3)
    for _ in range(2):
        daemon.cycle()
    assert len(slurm.running(first)) == 3
    second = slurm.submit_array("freetrain:min=1", tasks=3, user="games")
    for _ in range(3):
        daemon.cycle(orders=SiteOrders(paused="paused by root"))
    assert (len(slurm.running(first)), slurm.running(second)) == (3, [])
    assert daemon.waits_for[second] == "nothing is lent at the moment: paused by root"
    withheld = daemon.judgement.offers.withheld
    assert list(withheld.values()) == ["nothing more is lent: paused by root"] * 5
    for _ in range(2):
        daemon.cycle()
    assert len(slurm.running(second)) == 3


def test_in_a_pause_lent_nodes_give_way_to_the_sites_jobs(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    array = slurm.submit_array("freetrain:min=1", tasks=8)
    for _ in range(2):
        daemon.cycle()
    assert len(slurm.running(array)) == 8
    slurm.submit(nodes=2)
    for _ in range(2):
        daemon.cycle(orders=SiteOrders(paused="paused by root"))
    assert len(slurm.running(array)) == 6


def test_in_a_pause_no_node_changes_hands(slurm: FakeSlurm, start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    first = slurm.submit_array("freetrain:min=1", tasks=8)
    for _ in range(2):
        daemon.cycle()
    slurm.submit_array("freetrain:min=1", tasks=8, user="games")
    for _ in range(3):
        daemon.cycle(orders=SiteOrders(paused="paused by root"))
    assert len(slurm.running(first)) == 8
    for _ in range(3):
        daemon.cycle()
    assert len(slurm.running(first)) == 4


def test_a_pause_ends_by_itself_where_it_has_an_end(tmp_path: Path) -> None:
    assert read_pause(tmp_path, 1500.0) is None
    write_pause(tmp_path, PAUSE)
    assert read_pause(tmp_path, 1500.0) == PAUSE
    assert read_pause(tmp_path, 2000.0) is None
    write_pause(tmp_path, PAUSE.model_copy(update={"until_s": None}))
    assert read_pause(tmp_path, 9e9) is not None
    write_pause(tmp_path, None)
    write_pause(tmp_path, None)
    assert read_pause(tmp_path, 1500.0) is None


def test_the_daemon_says_it_once_and_when_it_has_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reader, state = OrdersReader(), State(directory=str(tmp_path))
    write_pause(tmp_path, PAUSE)
    sentence = "paused by root until 1970-01-01T00:33:20Z (new firmware)"
    assert [reader.read(state, now_s).paused for now_s in (1500.0, 1600.0, 2000.0)] == [sentence, sentence, ""]
    assert caplog.messages == [f"nothing more is lent: {sentence}", "the pause has ended"]


def test_a_file_that_makes_no_sense_changes_nothing_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader, state = OrdersReader(), State(directory=str(tmp_path))
    write_pause(tmp_path, PAUSE)
    before = reader.read(state, 1500.0)
    (tmp_path / "pause.json").write_text("{")
    assert [reader.read(state, 1500.0), reader.read(state, 1500.0)] == [before, before]
    assert caplog.text.count("whether lending is paused stays as it was") == 1
    with pytest.raises(StateError, match="is damaged"):
        read_pause(tmp_path, 1500.0)


def test_who_may_not_write_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot change"):
        write_pause(tmp_path / "none", PAUSE)
