"""Frozen fillers as the daemon sees them: which it takes, what their ends cost, and which losses it counts."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest

from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.trainers.kinds import most_lost_s
from freetrain.slurm.tags import Tag, parse_tag
from freetrain.store.store import Store
from tests.daemon.training import Site, everybody_is_me

LINE = "exec true"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    everybody_is_me(monkeypatch)
    freeze = {line: {"small": LINE} for line in ("launch", "save", "thaw")}
    return Site(tmp_path, Store.open(tmp_path / "freetrain.db"), freeze=freeze)


def submit(site: Site, freezer: str) -> str:
    return site.slurm.submit_array(f"freetrain:kind=tasks,freeze={freezer},dir={site.directory('alice')}", tasks=4)


def loss(cause: str, elapsed_s: float) -> bytes:
    return json.dumps({"event": "loss", "time_s": 1e9, "elapsed_s": elapsed_s, "cause": cause}).encode()


def test_a_filler_whose_freezer_the_site_has_not_is_refused_with_those_that_it_has(site: Site) -> None:
    wrong, right = submit(site, "dmtcp"), submit(site, "small")
    with site.daemon():
        site.look(2)
        known = site.training(wrong).trainer
        assert known.state is TrainerState.REFUSED
        assert known.note == "this site has no freezer dmtcp; it has small"
        assert site.slurm.running(right)


def test_losses_are_counted_and_the_filler_goes_on_as_one(site: Site) -> None:
    filler = submit(site, "small")
    with site.daemon():
        site.look(2)
        site.train("alice", loss("the save was late", 5000.0), loss("the save failed", 400.0))
        site.look(2)
        trainer = site.training(filler).trainer
        assert trainer.fault == "2 runs of its tasks, 5400 s, were lost: the last time the save failed"
        assert trainer.state is TrainerState.ACTIVE
        assert not site.training(filler).is_elastic, "progress that a freezer writes makes no training of it"
        assert site.competes(filler)


def test_what_a_user_writes_of_losses_is_a_claim(site: Site) -> None:
    filler = submit(site, "small")
    with site.daemon():
        site.look(2)
        site.train("alice", loss("<b>hostile</b>", 1.0), loss("the save failed", 1e300))
        site.look(2)
        assert "2 lines of its progress were not understood" in site.training(filler).trainer.fault


def test_the_end_of_a_frozen_task_is_expected_to_cost_nothing() -> None:
    frozen, plain = parse_tag("freetrain:kind=tasks,freeze=small"), parse_tag("freetrain:kind=tasks")
    assert isinstance(frozen, Tag)
    assert isinstance(plain, Tag)
    assert (most_lost_s(frozen), most_lost_s(plain)) == (0.0, inf)
