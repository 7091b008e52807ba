"""The alert rules and the dashboard speak of metrics that there are, with labels and values that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from freetrain.core.decision import Decision, Status
from freetrain.daemon.reports.look_status import status_of
from freetrain.daemon.reports.metrics import Metrics
from tests.daemon.conftest import StartDaemon

ETC = Path(__file__).parents[3] / "etc"
ALERTS, DASHBOARD = ETC / "prometheus/freetrain-alerts.yml", ETC / "grafana/freetrain.json"
_SELECTED = re.compile(r"(freetrain_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r'(\w+)(=~?)"([^"]*)"')


@pytest.fixture
def samples(start_daemon: StartDaemon) -> list[Sample]:
    """What the daemon exports after a look."""
    daemon, metrics = start_daemon(), Metrics()
    daemon.cycle()
    look = status_of(daemon.judgement, (), {}, (), 0.1)
    decisions = [Decision(status, 0.0, {}, "by hand") for status in Status]
    metrics.looked(daemon.judgement, look, decisions, {}, acts=True)
    text = generate_latest(metrics.registry).decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def unknown(text: str, samples: list[Sample]) -> list[str]:
    """Selectors that match nothing that is exported, whatever Prometheus adds to it."""
    wrong = []
    for name, labels in _SELECTED.findall(text):
        wanted = {label: value for label, how, value in _LABEL.findall(labels) if label != "instance"}
        if not any(sample.name == name and wanted.items() <= sample.labels.items() for sample in samples):
            wrong.append(f"{name}{{{labels}}}")
    return wrong


def expressions() -> str:
    """All that the two files ask Prometheus."""
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["query"] for variable in dashboard["templating"]["list"]]
    rules = re.findall(r"^ +expr: (.*(?:\n {10}\S.*)*)", ALERTS.read_text(), re.MULTILINE)
    assert len(rules) == ALERTS.read_text().count("alert: ")
    return "\n".join([*asked, *rules])


def test_every_metric_that_is_asked_for_is_exported(samples: list[Sample]) -> None:
    asked = expressions()
    assert len(_SELECTED.findall(asked)) > 30
    assert unknown(asked, samples) == []
    assert unknown('freetrain_lents + freetrain_nodes{state="lended"} + freetrain_nodes', samples) == [
        "freetrain_lents{}", 'freetrain_nodes{state="lended"}',
    ]  # fmt: skip


def test_the_dashboard_shows_every_metric_but_for_parts_of_histograms(samples: list[Sample]) -> None:
    asked = expressions()
    names = {re.sub(r"_(bucket|sum|count|created)$", "", sample.name) for sample in samples}
    assert sorted(name for name in names if name not in asked) == []


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
