from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.live.site import Site
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import NODES, POLL_S, daemon_that_polls_every, site_of


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with site_of(LabOptions(nodes=NODES, accounting=True)) as site:
        yield site


@pytest.fixture
def daemon(site: Site) -> Iterator[Site]:
    """The site with a daemon that has just begun to look, and nobody's jobs."""
    with daemon_that_polls_every(POLL_S, site):
        yield site
