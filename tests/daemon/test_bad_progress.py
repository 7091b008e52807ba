from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from freetrain.core import objectives
from freetrain.core.throughput import Observation
from freetrain.core.trainer import Trainer
from freetrain.daemon.trainers import kinds, progress_reader
from freetrain.slurm import submissions
from freetrain.store.store import Store
from tests.daemon.training import Site, everybody_is_me, rate

SIX = [
    [rate(samples_per_s=float("inf"))],
    [rate(samples_per_s=10**400)],
    [rate(nodes=10**400)],
    [rate(nodes=1, samples_per_s=1e-320), rate(nodes=2, samples_per_s=1e308)],
    [rate(samples_done=10**400)],
    [b"[" * 100_000],
]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    everybody_is_me(monkeypatch)
    return Site(tmp_path, Store.open(tmp_path / "freetrain.db"))


def submit(site: Site, name: str, *tag: str) -> str:
    """A training of a user of this name, with its directory."""
    keys = ("min=1", f"dir={site.directory(name)}", *tag)
    return site.slurm.submit_array("freetrain:" + ",".join(keys), tasks=4, user=name)


def without_traceback(caplog: pytest.LogCaptureFixture) -> bool:
    return not any(record.exc_info for record in caplog.records if record.levelno > logging.DEBUG)


def test_bad_lines_harm_neither_the_daemon_nor_its_next_start_nor_anybody_elses_progress(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = submit(site, "mallory"), submit(site, "alice")
    samples_done = 0
    for lines in SIX:
        site.train("mallory", *lines)
        for _ in range(2):  # the daemon that reads it, and one that begins with what that has stored
            with site.daemon():
                samples_done += 1_000
                site.train("alice", rate(samples_done=samples_done))
                site.look(2)
                assert site.training(good).trainer.samples_done == samples_done
                assert site.training(good).trainer.fault == ""
                assert site.competes(good)
                assert len(site.slurm.running(good)) == len(site.slurm.running(bad)) == 4
    assert site.training(bad).trainer.observations == ()
    assert without_traceback(caplog)


def test_its_owner_is_told_how_many_lines_and_why_the_log_only_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    bad = submit(site, "mallory")
    said = "trainer {} of mallory: a line of its progress was not understood: at byte 0, because {}"
    with site.daemon():
        site.look()
        for lines in SIX:
            site.train("mallory", *lines)
            site.look()
        assert site.training(bad).trainer.fault == (
            "7 lines of its progress were not understood: "
            "the first, at byte 0, because samples_per_s is not finite"
        )
        site.train("mallory", rate(samples_done=7))
        site.look()
        assert site.training(bad).trainer.samples_done == 7
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [said.format(bad, "samples_per_s is not finite")]


def test_what_an_earlier_version_has_stored_ends_no_daemon(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = submit(site, "mallory"), submit(site, "alice")
    with site.daemon():
        site.look()
        stored = (Observation(1, 1e-320, 5.0), Observation(2, 1e308, 5.0), Observation(2, float("inf"), 5.0))
        trainer = site.training(bad).trainer
    poisoned = replace(trainer, observations=stored)
    site.store.ledger().save_trainers([poisoned])
    with site.daemon():
        site.look(2)
        assert site.training(bad).trainer.observations == ()
        assert site.competes(good)
        assert site.competes(bad)
    assert without_traceback(caplog)


def test_a_pipe_where_the_progress_was_is_said_and_the_others_go_on(site: Site) -> None:
    bad, good = submit(site, "mallory"), submit(site, "alice")
    with site.daemon():
        site.train("mallory", rate())
        site.look()
        (site.directory("mallory") / "progress.jsonl").unlink()
        os.mkfifo(site.directory("mallory") / "progress.jsonl")
        site.train("alice", rate(samples_done=5))
        site.look()
        assert site.training(bad).trainer.fault == "progress.jsonl is not a plain file"
        assert site.training(good).trainer.samples_done == 5
        (site.directory("mallory") / "progress.jsonl").unlink()
        site.look()
        assert site.training(bad).trainer.fault == ""


def picky(trainer: Trainer) -> Sequence[float]:
    """A site's objective that knows an answer for few trainers only."""
    match trainer.weight:
        case 2.0:
            raise KeyError("no such project")
        case 3.0:
            return np.full(trainer.most_nodes + 1, np.nan)  # type: ignore[return-value]
        case 4.0:
            return [1.0]
    return objectives.speedup(trainer)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (
            2,
            "The objective 'tests.daemon.test_bad_progress:picky' failed for trainer '101': KeyError",
        ),
        (3, "it gave nan at 0 nodes."),
        (4, "it gave 1 values."),
    ],
)
def test_an_objective_that_fails_for_one_trainer_leaves_out_that_one(
    site: Site, caplog: pytest.LogCaptureFixture, weight: int, said: str
) -> None:
    site.objective = f"{__name__}:picky"
    bad, good = submit(site, "mallory", f"weight={weight}"), submit(site, "alice")
    with site.daemon():
        site.look(3)
        assert said in site.training(bad).trainer.fault
        assert not site.competes(bad)
        assert len(site.slurm.running(good)) == 4
    assert site.slurm.running(bad) == []
    assert len([record for record in caplog.records if said in record.getMessage()]) == 1
    assert without_traceback(caplog)


@pytest.mark.parametrize("defect", ["parse_tag", "curve_of"])
def test_a_defect_that_shows_with_one_trainer_leaves_out_that_one(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    where = {"parse_tag": submissions, "curve_of": kinds}[defect]
    right = getattr(where, defect)

    def fail(given: object, *others: object) -> object:
        if "weight=7" in (given if isinstance(given, str) else given.tag):  # type: ignore[attr-defined]
            raise ZeroDivisionError("nobody thought of this")
        return right(given, *others)

    bad, good = submit(site, "mallory", "weight=7"), submit(site, "alice")
    with site.daemon():
        site.look(2)
        assert len(site.slurm.running(bad)) == 4
        monkeypatch.setattr(where, defect, fail)
        site.look(3)
        trainer = site.training(bad).trainer
        assert "a defect (ZeroDivisionError('nobody thought of this'))" in f"{trainer.fault} {trainer.note}"
        assert site.slurm.running(bad) == []
        assert len(site.slurm.running(good)) == 4
        monkeypatch.setattr(where, defect, right)
        site.look(2)
        assert site.training(bad).trainer.fault == ""
        assert len(site.slurm.running(bad)) == 4
    warned = (record for record in caplog.records if record.levelno >= logging.WARNING)
    told = [record for record in warned if "nobody thought" in record.getMessage()]
    assert len(told) == (defect == "curve_of"), "a tag that cannot be read refuses the training"
    assert without_traceback(caplog)


def test_a_defect_in_reading_one_trainers_progress_is_its_fault(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = progress_reader.read_report

    def fail(place: progress_reader.ProgressFiles, most_bytes: int) -> progress_reader.Report:
        if place.owner == "mallory":
            raise ZeroDivisionError("nobody thought of this")
        return right(place, most_bytes)

    monkeypatch.setattr(progress_reader, "read_report", fail)
    bad, good = submit(site, "mallory"), submit(site, "alice")
    with site.daemon():
        site.look()
        site.train("alice", rate(samples_done=5))
        site.look()
        assert "nobody thought of this" in site.training(bad).trainer.fault
        assert site.training(good).trainer.samples_done == 5
    assert without_traceback(caplog)
