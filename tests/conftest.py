from __future__ import annotations

import functools
import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.slurm_lab import without_slurm

# What all modules of tests import stays: looking through it for rubbish again and again costs each worker seconds.
gc.disable()

# How fast examples are drawn says nothing on a busy machine.
settings.register_profile("freetrain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("freetrain")


def pytest_collection_finish() -> None:
    """From now on what tests leave behind is looked for, and nothing else."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _no_store_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test records by default goes to a place of its own, not to the home of whoever runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.delenv("FREETRAIN_STORE", raising=False)
    monkeypatch.delenv("FREETRAIN_CONFIG", raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture starts a lab: is there a Slurm? What is skipped shares this one line of the summary."""
    if item.get_closest_marker("slurm") and (why := without_slurm()):
        pytest.skip(why)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """For several workers: modules with slow tests come first, so that none of them is the last to end."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if {"slow", "slurm"} & {mark.name for mark in item.iter_markers()}}
        items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """For several workers, which are dealt whole modules: the tests of each share its fixtures and its lab."""
    return Dealer(config, log)


class Dealer(LoadFileScheduling):
    """Every other worker gets modules that wait for a real Slurm; the others have the cores meanwhile."""

    def _assign_work_unit(self, node: Any) -> None:
        waits = self.nodes.index(node) % 2 == 0
        suitable = [module for module in self.workqueue if self._waits(module) == waits]
        for module in suitable[:1]:
            self.workqueue.move_to_end(module, last=False)
        super()._assign_work_unit(node)

    @functools.cache  # noqa: B019 (there is one)
    def _waits(self, module: str) -> bool:
        return "mark.slurm" in (self.config.rootpath / module).read_text()
