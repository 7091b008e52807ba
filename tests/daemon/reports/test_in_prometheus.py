"""A real Prometheus takes the metrics, the alert rules and all that the dashboard asks."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest, start_http_server

from freetrain.core.decision import Decision, Status
from freetrain.daemon.reports.look_status import status_of
from freetrain.daemon.reports.metrics import Metrics
from tests import needed
from tests.daemon.conftest import StartDaemon
from tests.daemon.reports.test_monitoring_files import ALERTS, DASHBOARD
from tests.slurm_lab import eventually, free_port

CASES = Path(__file__).with_name("alerts.test.yml")
NAMES = re.findall(r"alert: (\w+)", ALERTS.read_text())

pytestmark = needed.a_program("promtool")


def promtool(*words: str | Path, told: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *words], input=told, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def metrics(start_daemon: StartDaemon) -> Metrics:
    """What the daemon exports after a look."""
    daemon, metrics = start_daemon(), Metrics()
    daemon.cycle()
    look = status_of(daemon.judgement, (), {}, (), 0.1)
    decisions = [Decision(status, 0.0, {}, "by hand") for status in Status]
    metrics.looked(daemon.judgement, look, decisions, {}, acts=True)
    return metrics


def test_promtool_finds_no_fault_with_the_metrics(metrics: Metrics) -> None:
    text = generate_latest(metrics.registry).decode()
    done = promtool("check", "metrics", told=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert promtool("check", "metrics", told=text.replace("_total", "")).returncode != 0


def test_promtool_finds_no_fault_with_the_rules(tmp_path: Path) -> None:
    done = promtool("check", "rules", "--lint-fatal", ALERTS)
    assert done.returncode == 0, done.stderr
    wrong = tmp_path / "rules.yml"
    wrong.write_text(ALERTS.read_text().replace("absent(", "absnt("))
    assert promtool("check", "rules", wrong).returncode != 0


def cases_with(tmp_path: Path, rules: str) -> subprocess.CompletedProcess[str]:
    """What becomes of the cases with these rules."""
    (tmp_path / "rules.yml").write_text(rules)
    cases = tmp_path / CASES.name
    cases.write_text(re.sub(r"- \S*freetrain-alerts\.yml", "- rules.yml", CASES.read_text()))
    return promtool("test", "rules", cases)


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    done = cases_with(tmp_path, ALERTS.read_text())
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_that_never_fires_is_found(tmp_path: Path) -> None:
    never = re.sub(r"expr:.*?\n(?=        \w)", "expr: vector(1) > 1\n", ALERTS.read_text(), flags=re.DOTALL)
    missed = re.findall(r'exp: \{alertname="(\w+)".*\n +got: nil', cases_with(tmp_path, never).stderr)
    assert set(missed) == set(NAMES)


def test_an_alert_that_always_fires_is_found(tmp_path: Path) -> None:
    rules = ALERTS.read_text().replace("freetrain_backs_off == 1", "freetrain_backs_off >= 0")
    assert rules != ALERTS.read_text()
    assert cases_with(tmp_path, rules).returncode != 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("> 300\n", "> 900\n"),
        ("for: 10m", "for: 30m"),
        ('le="60.0"', 'le="30.0"'),
        ("> 20\n", "> 40\n"),
        ("> ignoring (status) 0.1 *", "> ignoring (status) 0.3 *"),
        ("for: 6h", "for: 5h"),
        (' > 0\n        for: 6h', ' >= 0\n        for: 6h'),
    ],
)  # fmt: skip
def test_a_wrong_limit_is_found(tmp_path: Path, right: str, wrong: str) -> None:
    assert right in ALERTS.read_text()
    assert cases_with(tmp_path, ALERTS.read_text().replace(right, wrong)).returncode != 0


def asked_by_the_dashboard() -> Sequence[str]:
    """Its expressions, with what Grafana puts in the place of its variables."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    variables = {"$instance": ".*", "$__rate_interval": "1m", "$__range": "1h"}
    for variable, value in variables.items():
        found = [text.replace(variable, value) for text in found]
    assert not [text for text in found if "$" in text]
    return found


class Prometheus:
    """One that works on this machine."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v1"

    def says(self, path: str, **query: str) -> Any:
        """What it answers; None: that it cannot, or does not yet."""
        try:
            with urllib.request.urlopen(f"{self._address}/{path}?{urllib.parse.urlencode(query)}") as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def found(self, expression: str) -> list[Any]:
        """What there is now of an expression."""
        answer = self.says("query", query=expression)
        assert answer is not None, f"it cannot say {expression}"
        result: list[Any] = answer["result"]
        return result


@pytest.fixture
def prometheus(metrics: Metrics, tmp_path: Path) -> Iterator[Prometheus]:
    """One that scrapes them and has the rules."""
    server, thread = start_http_server(0, "127.0.0.1", metrics.registry)
    scraped, port = server.server_port, free_port()
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{ALERTS}']\n"
        f"scrape_configs: [{{job_name: freetrain, static_configs: [{{targets: ['127.0.0.1:{scraped}']}}]}}]\n"
    )
    command = [
        "prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.communicate(timeout=60)
        server.shutdown()
        thread.join()


def test_a_prometheus_evaluates_the_rules_and_answers_the_dashboard(prometheus: Prometheus) -> None:
    assert eventually(lambda: bool((prometheus.says("query", query="up") or {"result": []})["result"]))

    def in_order() -> list[str]:
        groups = (prometheus.says("rules") or {"groups": []})["groups"]
        return [rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "ok"]

    assert eventually(lambda: in_order() == NAMES), in_order()
    empty = lambda: [text for text in asked_by_the_dashboard() if not prometheus.found(text)]  # noqa: E731
    assert eventually(lambda: not empty()), empty()  # rates are of two samples and more
    assert prometheus.says("query", query="freetrain_lends{") is None
    assert prometheus.found("freetrain_lent") == []
