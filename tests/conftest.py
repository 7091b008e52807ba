from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.slurm_lab import without_slurm

# How fast examples are drawn says nothing on a busy machine.
settings.register_profile("freetrain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("freetrain")


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
    """For several workers: what takes longest comes first, and the tests of a module share its fixtures and lab.

    A module whose tests take long says in ``SHARES`` among how many workers they are dealt.
    """
    if not hasattr(config, "workerinput"):
        return
    turns: dict[str, tuple[int, int]] = {}
    dealt: Counter[str] = Counter()
    of_kind: Counter[int] = Counter()
    for item in items:
        kind = _kind(item)
        module = f"{item.nodeid.partition('::')[0]}-{kind}"
        group = f"{module}-{dealt[module] % getattr(getattr(item, 'module', None), 'SHARES', 1)}"
        dealt[module] += 1
        item.add_marker(pytest.mark.xdist_group(group))
        if group not in turns:
            turns[group] = (of_kind[kind] if kind < OTHER else len(items), kind)
            of_kind[kind] += 1
    items.sort(key=lambda item: turns[item.get_closest_marker("xdist_group").args[0]])


WAITING, COMPUTING, OTHER = range(3)


def _kind(item: pytest.Item) -> int:
    """Tests of a real Slurm wait for it, while those of elastic trainings compute: so they take turns."""
    if item.get_closest_marker("slurm"):
        return WAITING
    return COMPUTING if item.path.parent.name in ("elastic", "examples") else OTHER
