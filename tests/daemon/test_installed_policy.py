"""A daemon whose policy is somebody else's: used where it is right, and no end of any look where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from freetrain.config import Config, ConfigError
from freetrain.core.decision import Decision, Status
from freetrain.daemon.admission.contradictions import check_choices, without_effect
from freetrain.daemon.admission.inspection import inspect_files
from freetrain.daemon.log_output import Problems
from freetrain.daemon.reports.look_log import tell_unusable
from freetrain.store.store import Store
from tests.daemon.training import Site
from tests.installing import install_policy

MOODY = """
from pathlib import Path

import numpy as np

from freetrain.policies import Allocation

class Still:
    def decide(self, problem):
        if Path(__file__).with_name("bad-mood").exists():
            raise RuntimeError("leave me alone")
        counts = np.zeros_like(problem.held)
        counts[0, 0] = 3
        return Allocation(counts, "by mood")
"""


def test_a_policy_from_outside_decides_and_one_that_fails_ends_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install_policy(tmp_path, monkeypatch, "moody", "moody_policy", MOODY)
    site = Site(tmp_path, Store.open(tmp_path / "freetrain.db"), policy="moody")
    array = site.slurm.submit_array("freetrain:min=1")
    with site.daemon():
        (decision,) = site.look(2)
        assert decision.solver == "by mood"
        assert len(site.slurm.running(array)) == 3
        (tmp_path / "moody_policy" / "bad-mood").touch()
        (decision,) = site.look(2)
        assert decision.solver == "stay"
        assert len(site.slurm.running(array)) == 3
        assert (
            caplog.text.count("the policy Still failed, so all stays as it is: RuntimeError: leave me alone") == 1
        )
        (tmp_path / "moody_policy" / "bad-mood").unlink()
        (decision,) = site.look()
        assert decision.solver == "by mood"


def test_a_policy_may_call_itself_what_it_likes(caplog: pytest.LogCaptureFixture) -> None:
    mine = Decision(Status.HEURISTIC, 0.0, {}, "stay")
    stands_in = replace(mine, notes=("the policy failed", "a warning"))
    problems = Problems()
    for _ in range(2):
        tell_unusable([mine, stands_in], problems)
    assert caplog.messages == ["the policy failed"]


def test_settings_that_name_a_policy_which_cannot_be_loaded_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_policy(tmp_path, monkeypatch, "lame", "lame_policy", "import moonbeams")
    with pytest.raises(ConfigError, match=r"decide\.policy: The policy 'lame' .* No module named 'moonbeams'"):
        check_choices(Config.model_validate({"decide": {"policy": "lame"}}))


def test_settings_may_name_a_policy_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_policy(tmp_path, monkeypatch, "fine", "fine_policy", MOODY)
    check_choices(Config.model_validate({"decide": {"policy": "fine"}}))


@pytest.mark.parametrize("setting", ["policy", "place", "finish"])
def test_settings_that_name_what_is_not_there_are_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"decide\.{setting}: There is no \w+ 'moonbeams'"):
        check_choices(Config.model_validate({"decide": {setting: "moonbeams"}}))


@pytest.mark.parametrize("finisher", ["synergy-tune", "synergy-opt"])
def test_that_a_finisher_has_nothing_to_divide_of_whole_nodes_is_said(finisher: str) -> None:
    whole = Config.model_validate({"decide": {"finish": finisher}})
    said = f'decide.finish: {finisher} has nothing to divide, as lend.share = "whole" lends whole nodes.'
    assert without_effect(whole) == {"decide.finish": said}
    assert without_effect(Config.model_validate({"decide": {"finish": finisher}, "lend": {"share": "gpus"}})) == {}
    assert without_effect(Config()) == {}


def test_that_a_policy_reserves_no_bandwidth_is_said_where_links_are_known() -> None:
    links = {"uplink_gbit": 100.0}
    known = Config.model_validate({"links": links})
    said = "links: the policy freetrain reserves no bandwidth; gadget does."
    assert without_effect(known) == {"links.uplink_gbit": said}
    assert said in {finding.what for finding in inspect_files(known, [], "root").findings}
    assert (
        without_effect(Config.model_validate({"links": links, "decide": {"policy": "gadget,utility=fair"}})) == {}
    )
