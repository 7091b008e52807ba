"""Slots filled greedily, held against all that could have been done."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from freetrain.policies.gadget.ring_model import RingModel
from freetrain.policies.gadget.servers import Books, Ring, Server
from freetrain.policies.gadget.slot import RingJob, fill_slot, rate_of, samples_in_slot
from freetrain.policies.gadget.utility import LINEAR, LOG, Utility

SLOT_S, SLOTS, PLACES = 300.0, 3, 4


def one_server() -> Books:
    return Books((Server("s", PLACES),), 1e9, 1e9)


def three_jobs(seed: int) -> tuple[RingJob, ...]:
    draw = random.Random(seed)
    models = [RingModel(draw.choice((1e8, 5e8)), draw.uniform(0.08, 0.4)) for _ in range(3)]
    return tuple(
        RingJob(f"j{row}", model, draw.choice((1, 2, 4)), 0.0, draw.uniform(500.0, 6000.0))
        for row, model in enumerate(models)
    )


def after(jobs: Sequence[RingJob], rings: Mapping[str, Ring]) -> tuple[RingJob, ...]:
    """The trainings when the slot is over."""
    done = (samples_in_slot(job, rings[job.id], SLOT_S) if job.id in rings else 0.0 for job in jobs)
    return tuple(replace(job, samples=job.samples + more) for job, more in zip(jobs, done, strict=True))


def worth(jobs: Sequence[RingJob], utility: Utility) -> float:
    return sum(utility.of(job.samples, job.target_samples) for job in jobs)


def best_of_all(jobs: tuple[RingJob, ...], utility: Utility) -> float:
    """The best sequence of slots, by trying all of them."""
    per_slot = [
        [
            rate_of(job, Ring((("s", width),), 1, 0.0)) * SLOT_S if width else 0.0
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
        options = [(job, Ring((("s", width),), 1, 0.0)) for job in jobs for width in job.widths]

        def ratio(option: tuple[RingJob, Ring]) -> float:
            job, ring = option
            return LOG.of(samples_in_slot(job, ring, SLOT_S), job.target_samples) / ring.width

        rings: dict[str, Ring] = {}
        for job, ring in sorted(options, key=ratio, reverse=True):
            if job.id not in rings and sum(one.width for one in rings.values()) + ring.width <= PLACES:
                rings[job.id] = ring
        plain += worth(after(jobs, rings), LOG)
    assert upgraded > plain


def site() -> Books:
    servers = tuple(Server(f"{leaf}{number}", 4, leaf) for leaf in "abcd" for number in range(4))
    return Books(servers, link_bytes_per_s=3e9, uplink_bytes_per_s=12e9)


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
    job = RingJob("j", model, 4, 0.0, 1e6, Ring((("c2", 4),), 1, 0.0), rescale_s=30.0)
    assert fill_slot(site(), (job,), SLOT_S, LINEAR) == {"j": job.ring}


def test_where_energy_costs_more_than_training_is_worth_nobody_trains() -> None:
    job = RingJob("j", RingModel(5e7, 0.2), 4, 0.0, 1e4)
    assert fill_slot(site(), (job,), SLOT_S, Utility(energy_per_worker_s=1.0)) == {}


def test_a_single_ring_worth_more_than_all_upgrades_is_used_instead() -> None:
    """A ring of one worker gains most per worker, and then the one that needs four finds no room."""
    small = RingJob("small", RingModel(0.0, 0.1), 1, 0.0, 1e5, weight=0.3)
    wide = RingJob("wide", RingModel(0.0, 0.1), 4, 0.0, 1e5, weight=0.2, narrowest=4)
    assert fill_slot(one_server(), (small, wide), SLOT_S, LINEAR).keys() == {"wide"}
    unimportant = replace(wide, weight=0.05)
    assert fill_slot(one_server(), (small, unimportant), SLOT_S, LINEAR).keys() == {"small"}
