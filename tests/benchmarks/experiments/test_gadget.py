"""Slots filled greedily, held against all that could have been done."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from benchmarks.experiments.gadget import RingJob, RingModel, contended, fill_slot, rate_of, samples_in_slot
from freetrain.policies.gadget.links import LinkBooks, PlacedRing, RingServer
from freetrain.policies.gadget.policy import LINEAR, LOG, Utility

SLOT_S, SLOTS, PLACES = 300.0, 3, 4


def one_server() -> LinkBooks:
    return LinkBooks((RingServer("s", PLACES),), 1e9, 1e9)


def three_jobs(seed: int) -> tuple[RingJob, ...]:
    draw = random.Random(seed)
    models = [RingModel(draw.choice((1e8, 5e8)), draw.uniform(0.08, 0.4)) for _ in range(3)]
    return tuple(
        RingJob(f"j{row}", model, draw.choice((1, 2, 4)), 0.0, draw.uniform(500.0, 6000.0))
        for row, model in enumerate(models)
    )


def after(jobs: Sequence[RingJob], rings: Mapping[str, PlacedRing]) -> tuple[RingJob, ...]:
    """The trainings when the slot is over."""
    done = (samples_in_slot(job, rings[job.id], SLOT_S) if job.id in rings else 0.0 for job in jobs)
    return tuple(replace(job, samples=job.samples + more) for job, more in zip(jobs, done, strict=True))


def worth(jobs: Sequence[RingJob], utility: Utility) -> float:
    return sum(utility.of(job.samples, job.target_samples) for job in jobs)


def best_of_all(jobs: tuple[RingJob, ...], utility: Utility) -> float:
    """The best sequence of slots, by trying all of them."""
    per_slot = [
        [
            rate_of(job, PlacedRing((("s", width),), 1, 0.0)) * SLOT_S if width else 0.0
            for job, width in zip(jobs, widths, strict=True)
        ]
        for widths in itertools.product(*((0, *job.widths) for job in jobs))
        if sum(widths) <= PLACES
    ]
    return max(
        sum(
            utility.of(sum(done), job.target_samples)
            for job, done in zip(jobs, zip(*plan, strict=True), strict=True)
        )
        for plan in itertools.combinations_with_replacement(per_slot, SLOTS)
    )


@pytest.mark.parametrize("utility", [LINEAR, LOG], ids=["linear", "log"])
def test_slot_by_slot_at_least_half_of_what_could_have_been_done_is_done(utility: Utility) -> None:
    ratios = []
    for seed in range(40):
        jobs = start = three_jobs(seed)
        for _ in range(SLOTS):
            jobs = after(jobs, fill_slot(one_server(), jobs, SLOT_S, utility))
        ratios.append(worth(jobs, utility) / best_of_all(start, utility))
    assert min(ratios) >= 0.5
    assert sum(ratios) / len(ratios) >= 0.9


def test_upgrades_do_better_than_rings_started_once_by_their_ratio() -> None:
    """The plain rule: the ring with most utility per worker first, and none is ever widened."""
    upgraded = plain = 0.0
    for seed in range(40):
        jobs = three_jobs(seed)
        upgraded += worth(after(jobs, fill_slot(one_server(), jobs, SLOT_S, LOG)), LOG)
        options = [(job, PlacedRing((("s", width),), 1, 0.0)) for job in jobs for width in job.widths]

        def ratio(option: tuple[RingJob, PlacedRing]) -> float:
            job, ring = option
            return LOG.of(samples_in_slot(job, ring, SLOT_S), job.target_samples) / ring.width

        rings: dict[str, PlacedRing] = {}
        for job, ring in sorted(options, key=ratio, reverse=True):
            if job.id not in rings and sum(ring.width for ring in rings.values()) + ring.width <= PLACES:
                rings[job.id] = ring
        plain += worth(after(jobs, rings), LOG)
    assert upgraded > plain


def site() -> LinkBooks:
    servers = tuple(RingServer(f"{leaf}{number}", 4, leaf) for leaf in "abcd" for number in range(4))
    return LinkBooks(servers, link_bytes_per_s=3e9, uplink_bytes_per_s=12e9)


@pytest.mark.parametrize("seed", range(10))
def test_no_place_and_no_link_is_given_twice_and_the_same_slot_is_filled_alike(seed: int) -> None:
    draw = random.Random(seed)
    jobs = tuple(
        RingJob(
            f"j{row}",
            RingModel(draw.choice((5e7, 5e8, 1.3e9)), draw.uniform(0.08, 0.4)),
            draw.choice((4, 8, 16, 32)),
            draw.uniform(0.0, 1e4),
            2e4,
        )
        for row in range(30)
    )
    books = site()
    rings = fill_slot(books, jobs, SLOT_S, LOG)
    assert min(*books.free.values(), *books.link.values(), *books.uplink.values()) >= -1e-6
    assert sum(books.free.values()) == 64 - sum(ring.width for ring in rings.values())
    assert rings == fill_slot(site(), jobs, SLOT_S, LOG)


def test_a_ring_that_may_stay_stays_where_it_is() -> None:
    model = RingModel(5e7, 0.2)
    job = RingJob("j", model, 4, 0.0, 1e6, PlacedRing((("c2", 4),), 1, 0.0), rescale_s=30.0)
    assert fill_slot(site(), (job,), SLOT_S, LINEAR) == {"j": job.ring}


def test_a_single_ring_worth_more_than_all_upgrades_is_used_instead() -> None:
    """A ring of one worker gains most per worker, and then the one that needs four finds no room."""
    small = RingJob("small", RingModel(0.0, 0.1), 1, 0.0, 1e5, weight=0.3)
    wide = RingJob("wide", RingModel(0.0, 0.1), 4, 0.0, 1e5, weight=0.2, narrowest=4)
    assert fill_slot(one_server(), (small, wide), SLOT_S, LINEAR).keys() == {"wide"}
    unimportant = replace(wide, weight=0.05)
    assert fill_slot(one_server(), (small, unimportant), SLOT_S, LINEAR).keys() == {"small"}


MODEL = RingModel(gradient_bytes=1e8, compute_s=0.150)


@pytest.mark.parametrize(("workers", "servers", "step_ms"), [(1, 1, 150.0), (8, 2, 166.044), (64, 16, 181.799)])
def test_a_step_takes_as_long_as_worked_out(workers: int, servers: int, step_ms: float) -> None:
    assert 1000 * MODEL.step_s(workers, servers, 12.5e9) == pytest.approx(step_ms, abs=5e-4)


def test_three_rings_on_one_link_slow_each_other_down() -> None:
    assert contended(12.5e9, 3) == pytest.approx(12.5e9 / 3.4)
    assert 1000 * MODEL.step_s(64, 16, contended(12.5e9, 3)) == pytest.approx(219.599, abs=5e-4)
    assert contended(12.5e9, 1) == 12.5e9


def test_with_the_bandwidth_it_wants_a_ring_sends_as_long_as_it_computes() -> None:
    wanted = MODEL.wanted_bytes_per_s(8)
    assert MODEL.step_s(8, 1, wanted) == pytest.approx(2 * 0.150, rel=0.01)
    assert MODEL.wanted_bytes_per_s(1) == 0


def test_each_worker_keeps_its_share_of_the_batch() -> None:
    assert MODEL.rate(8, 2, 12.5e9) == pytest.approx(8 / 0.166044, rel=1e-5)
