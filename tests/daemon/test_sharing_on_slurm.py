"""On a real Slurm, with two people: nothing that one of them hands in takes what is the other's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.live.site import Site
from freetrain.lab import LabOptions
from tests.daemon.test_on_slurm import (
    NODES,
    POLL_S,
    daemon_that_polls_every,
    lent,
    several_people,
    site_of,
    wait_until,
)

pytestmark = [pytest.mark.slurm, several_people]

HALF = NODES // 2
HOSTILE = {
    "ten trainings": (10, 4, "min=1"),
    "impossible ones": (22, 17, "min=17"),
    "curves of 1e9": (2, 8, "min=8,max=8,curve=8:1e9"),
}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with site_of(LabOptions(nodes=NODES, accounting=True)) as site:
        yield site


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_honest_training_that_comes_later_gets_half(site: Site, kind: str) -> None:
    count, tasks, tag = HOSTILE[kind]
    with daemon_that_polls_every(POLL_S, site):
        hostile = [site.submit_trainer("bob", tasks, tag) for _ in range(count)]
        wait_until(lambda: lent(site, *hostile) > HALF or "min=17" in tag, 60, site)
        honest = site.submit_trainer("alice", NODES, "min=1")
        wait_until(lambda: lent(site, honest) >= HALF, 60, site)
