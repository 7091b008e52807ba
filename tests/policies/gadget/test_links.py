"""Embedding rings, and the books of their bandwidth."""

from __future__ import annotations

import random

import pytest

from benchmarks.experiments.gadget import embed
from freetrain.core.topology import Topology, crossings
from freetrain.policies.gadget.links import LinkBooks, PlacedRing, RingServer

FOUR_BY_TWO = tuple(RingServer(f"{leaf}{number}", 4, leaf) for leaf in "ab" for number in (1, 2))


def books() -> LinkBooks:
    return LinkBooks(FOUR_BY_TWO, link_bytes_per_s=10.0, uplink_bytes_per_s=20.0)


def test_a_ring_prefers_one_server_the_tightest() -> None:
    site = books()
    site.reserve(PlacedRing((("a2", 1),), 1, 0.0))
    assert embed(site, 3, 5.0) == PlacedRing((("a2", 3),), 1, 0.0)


def test_then_one_leaf_the_tightest() -> None:
    site = books()
    site.reserve(PlacedRing((("b1", 1),), 1, 0.0))
    assert embed(site, 6, 5.0) == PlacedRing((("b2", 4), ("b1", 2)), 1, 5.0)


def test_then_few_leaves_each_of_which_is_entered_once() -> None:
    ring = embed(books(), 14, 5.0)
    assert ring is not None
    assert (ring.width, ring.leaves) == (14, 2)
    leaves = Topology({server.name: server.leaf for server in FOUR_BY_TWO})
    assert crossings([name for name, _ in ring.workers], leaves) == 2


def test_without_bandwidth_or_places_there_is_no_ring() -> None:
    site = books()
    assert embed(site, 17, 1.0) is None
    assert embed(site, 6, 11.0) is None
    assert embed(site, 14, 10.0) is not None
    site.reserve(PlacedRing((("a1", 1), ("b1", 1)), 2, 8.0))
    assert embed(site, 14, 5.0) is None


@pytest.mark.parametrize("seed", range(20))
def test_books_are_never_overdrawn_and_empty_again_in_the_end(seed: int) -> None:
    draw, site, rings = random.Random(seed), books(), []
    for _ in range(30):
        ring = embed(site, draw.randint(1, 12), draw.uniform(0.0, 6.0))
        if ring is not None:
            assert site.has_room(ring)
            site.reserve(ring)
            rings.append(ring)
        assert min(*site.free.values(), *site.link.values(), *site.uplink.values()) >= -1e-9
        if rings and draw.random() < 0.5:
            site.release(rings.pop(draw.randrange(len(rings))))
    for ring in rings:
        site.release(ring)
    assert list(site.free.values()) == [4] * 4
    assert list(site.link.values()) == pytest.approx([10.0] * 4)
