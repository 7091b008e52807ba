"""The metrics, read with Prometheus's own parser."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from freetrain import __version__
from freetrain.config import Config, ConfigError, Loaded, MetricsSettings
from freetrain.core.harm import Harm
from freetrain.daemon.publisher import MetricsOutlets
from freetrain.daemon.reports.look_status import status_of
from freetrain.daemon.reports.metrics import Metrics
from freetrain.daemon.reports.status import LookStatus
from freetrain.daemon.service import Service
from freetrain.lending.meter import Meter
from freetrain.slurm.errors import SlurmUnreachableError
from tests.daemon.conftest import Daemon, StartDaemon
from tests.daemon.fake_slurm import FakeSlurm
from tests.slurm_lab import free_port

Samples = Mapping[tuple[str, str], float]


def read(text: str) -> Samples:
    """(name, value of its only label) → value."""
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config.model_validate(
        {
            "lend": {"mode": "act"},
            "state": {"directory": str(tmp_path / "state"), "stop_file": str(tmp_path / "STOP")},
            "metrics": {"textfile": str(tmp_path / "freetrain.prom")},
        }
    )


def after_looks(config: Config, slurm: FakeSlurm, looks: int = 1) -> Samples:
    Service(Loaded(config), slurm, lambda: Loaded(config)).run(cycles=looks)
    return read(Path(config.metrics.textfile).read_text())


def test_after_a_look_the_file_says_what_it_came_to(config: Config) -> None:
    slurm = FakeSlurm()
    slurm.submit_array("freetrain:min=1")
    found = after_looks(config, slurm)
    assert found["freetrain_build_info", __version__] == 1
    assert (found["freetrain_lends", ""], found["freetrain_slurm_answers", ""]) == (1, 1)
    assert found["freetrain_nodes", "asked for"] == 4
    assert found["freetrain_nodes", "free"] == 4
    assert (found["freetrain_trainers", "active"], found["freetrain_trainers", "paused"]) == (1, 0)
    assert found["freetrain_looks_total", "answered"] == found["freetrain_look_seconds_count", ""] == 1
    assert found["freetrain_looks_total", "silent"] == 0
    assert found["freetrain_decisions_total", "optimal"] == found["freetrain_solve_seconds_count", ""] == 1
    assert found["freetrain_slurm_calls_total", ""] == slurm.calls
    assert found["freetrain_last_look_timestamp_seconds", ""] == slurm.now_s
    assert found["freetrain_fragment_ends_total", "preempted"] == 0


def test_everybody_may_read_the_file_and_only_freetrains_own_metrics_are_in_it(config: Config) -> None:
    names = {name for name, _ in after_looks(config, FakeSlurm())}
    assert all(name.startswith("freetrain_") for name in names)
    assert Path(config.metrics.textfile).stat().st_mode & 0o777 == 0o644
    text = Path(config.metrics.textfile).read_text()
    assert set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) == set(
        re.findall(r"^# HELP (\S+)", text, re.MULTILINE)
    )


def test_nothing_is_lent_where_the_daemon_observes_or_is_stopped(config: Config) -> None:
    observing = config.model_copy(update={"lend": config.lend.model_copy(update={"mode": "observe"})})
    assert after_looks(observing, FakeSlurm())["freetrain_lends", ""] == 0
    Path(config.state.stop_file).touch()
    assert after_looks(config, FakeSlurm())["freetrain_lends", ""] == 0


def test_a_slurm_that_falls_silent_is_counted(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm()
    snapshot = slurm.snapshot

    def sometimes() -> object:
        if Path(config.metrics.textfile).exists():
            raise SlurmUnreachableError("Slurm's controller is away.")
        return snapshot()

    monkeypatch.setattr(slurm, "snapshot", sometimes)
    monkeypatch.setattr("freetrain.daemon.service.Timetable.wait", lambda *_: None)
    found = after_looks(config, slurm, looks=3)
    assert (found["freetrain_looks_total", "answered"], found["freetrain_looks_total", "silent"]) == (1, 2)
    assert found["freetrain_slurm_answers", ""] == 0


def test_node_time_and_ends_are_counted(start_daemon: StartDaemon, slurm: FakeSlurm) -> None:
    daemon, metrics = start_daemon(), Metrics()
    slurm.submit_array("freetrain:min=1")
    for _ in range(3):
        decision = daemon.cycle(after_s=10.0)
        look = look_of(daemon)
        metrics.looked(daemon.judgement, look, [decision], daemon.cluster.books.end_counts, True)
    found = read_metrics(metrics)
    assert found["freetrain_idle_node_seconds_total", ""] == 8 * 20
    assert found["freetrain_offered_node_seconds_total", ""] == 8 * 20
    assert found["freetrain_lent_node_seconds_total", ""] == 4 * 10
    assert found["freetrain_useful_node_seconds_total", ""] == 0


def test_harm_is_a_histogram_of_delays(start_daemon: StartDaemon) -> None:
    daemon, metrics = start_daemon(), Metrics()
    decision = daemon.cycle()
    harms = tuple(Harm("1", 0.0, delay_s, 0.0, 0.0, ()) for delay_s in (0.5, 7.0, 7.5, 90.0))
    judged = replace(daemon.judgement, memory=replace(daemon.judgement.memory, meter=Meter(new=harms)))
    metrics.noticed(judged)  # as where Slurm falls silent before all is done
    metrics.looked(judged, look_of(daemon), [decision], {}, True)
    found = read_metrics(metrics)
    assert found["freetrain_harm_seconds_count", ""] == 4
    assert found["freetrain_harm_seconds_sum", ""] == 105.0
    within = {bound: count for (name, bound), count in found.items() if name == "freetrain_harm_seconds_bucket"}
    assert [within[bound] for bound in ("1.0", "5.0", "10.0", "60.0", "120.0", "+Inf")] == [1, 1, 3, 3, 4, 4]


def test_what_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outlets = MetricsOutlets(MetricsSettings(textfile=str(tmp_path / "none" / "freetrain.prom")), b"")
    outlets.publish(b"")
    outlets.publish(b"")
    assert caplog.text.count("cannot write metrics.textfile") == 1


def test_a_scrape_is_answered(tmp_path: Path) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    with (
        serving(MetricsSettings(listen=address)),
        urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert read(answer.read().decode())["freetrain_build_info", __version__] == 1
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(ConfigError, match="cannot be used"),
        serving(MetricsSettings(listen=address)),
    ):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_by_default_this_machine_may_ask(host: str) -> None:
    assert scraped(host, MetricsSettings().allow) == 200


@pytest.mark.parametrize(
    ("allow", "status"), [("127.0.0.0/8", 200), ("127.0.0.1", 200), ("10.1.0.0/16,::1", 403), ("", 403)]
)
def test_who_is_not_allowed_is_refused(allow: str, status: int) -> None:
    assert scraped("127.0.0.1", allow) == status


def scraped(host: str, allow: str) -> int:
    """The status that somebody on this machine gets."""
    address = f"{host}:{free_port()}"
    with serving(MetricsSettings(listen=address, allow=allow)):
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code if b"metrics.allow" in refused.read() else 0


@pytest.mark.parametrize("allow", ["10.1.0.0/33", "everybody", "10.1.2.3/16"])
def test_what_is_no_network_is_refused(allow: str) -> None:
    with pytest.raises(ValueError, match=r"write addresses and networks as 127\.0\.0\.0/8"):
        Config.model_validate({"metrics": {"allow": allow}})


@pytest.mark.parametrize("address", ["9810", "localhost", "127.0.0.1:http", "127.0.0.1:99999", ":9810"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="write an address and a port"):
        Config.model_validate({"metrics": {"listen": address}})


def serving(settings: MetricsSettings) -> AbstractContextManager[None]:
    return MetricsOutlets(settings, generate_latest(Metrics().registry)).answering()


def look_of(daemon: Daemon) -> LookStatus:
    """What the daemon would publish."""
    return status_of(daemon.judgement, (), {}, daemon.cluster.books.open, 0.1)


def read_metrics(metrics: Metrics) -> Samples:
    return read(generate_latest(metrics.registry).decode())
