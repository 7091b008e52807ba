"""Settings that make little sense, one by one."""

from __future__ import annotations

import re
from math import inf
from typing import Any

import pytest

from freetrain.config import Config, ConfigError, find_setting, settings
from freetrain.config.settings import Setting
from freetrain.core.node import Nodes
from freetrain.daemon.admission.contradictions import USUAL, check_contradictions, find_contradictions
from freetrain.slurm.finding import Finding


def config_with(path: str, value: float, mode: str = "observe") -> Config:
    *sections, name = path.split(".")
    setting = find_setting(path)
    assert setting is not None
    given = int(value) if isinstance(setting.default, int) else value
    document: dict[str, Any] = {"lend": {"mode": mode}}
    table = document
    for section in sections:
        table = table.setdefault(section, {})
    table[name] = given
    return Config.model_validate(document)


def said(path: str, value: float) -> list[Finding]:
    """What is found in this value, whatever is found in others beside it."""
    found = find_contradictions(config_with(path, value), Nodes())
    return [finding for finding in found if re.match(rf"{path} is \S+ (less|more) than ", finding.what)]


def test_every_duration_is_judged() -> None:
    assert {setting.path for setting in settings() if setting.is_duration} <= USUAL.keys()


@pytest.mark.parametrize("path", USUAL)
def test_a_usual_value_passes_and_another_is_mended_by_the_default(path: str) -> None:
    setting, usual = find_setting(path), USUAL[path]
    assert setting is not None
    assert usual.least <= setting.default <= usual.most
    assert [said(path, value) for value in (usual.least, setting.default, usual.most)] == [[], [], []]
    unusual = []
    if usual.least > (setting.least or 0.0):
        unusual.append((usual.least - 1, usual.unsafe_below))
    if usual.most < (setting.most or inf):
        unusual.append((usual.most + 1, usual.unsafe_above))
    for value, is_unsafe in unusual:
        (finding,) = said(path, value)
        assert (finding.mend, finding.is_unsafe) == (f"[{setting.section}]\n{setting.line}", is_unsafe)


PATHS = [setting for setting in settings() if setting.is_path]


@pytest.mark.parametrize("setting", PATHS, ids=[setting.path for setting in PATHS])
def test_a_relative_path_is_mended_by_the_default(setting: Setting) -> None:
    config = Config.model_validate({setting.section: {setting.name: "here"}})
    (finding,) = [found for found in find_contradictions(config, Nodes()) if setting.path in found.what]
    assert (finding.mend, finding.is_unsafe) == (setting.lines, True)
    assert [found for found in find_contradictions(Config(), Nodes()) if setting.path in found.what] == []


def test_what_harms_the_sites_jobs_is_refused_where_nodes_are_lent() -> None:
    why = r"harm\.limit is 1-00:00:00, more than 01:00:00: the site's jobs may wait so long"
    with pytest.raises(ConfigError, match=why):
        check_contradictions(config_with("harm.limit", 86400.0, "act"))
    check_contradictions(config_with("harm.limit", 86400.0, "observe"))
    check_contradictions(config_with("state.keep", 1.0, "act"))
