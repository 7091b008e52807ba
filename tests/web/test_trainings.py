from __future__ import annotations

import time
from dataclasses import replace

from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.throughput import Observation
from freetrain.daemon.reports.standing import find_standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.web.page import MAX_TRAININGS, list_trainings
from tests.web.site import LOOK, Site


def known(tag: str, *seen: Observation) -> dict[str, KnownTrainer]:
    return {"1": KnownTrainer("1", "news", tag, TrainerState.ACTIVE, 0.0, observations=seen)}


def test_who_has_most_nodes_comes_first_and_what_is_left_out_is_counted(site: Site) -> None:
    many = tuple(TrainerStatus(str(number), "u", "active") for number in range(MAX_TRAININGS + 5))
    large = TrainerStatus("large", "u", "active", lent="n[1-9]")
    paused = TrainerStatus("z", "u", "paused", note="paused after 5 failures")
    site.publishes(replace(LOOK, trainers=(*many, paused, large), trainers_left_out=7))
    rows, more = list_trainings(find_standing(site.config), {})
    assert ([row.own.job.id for row in rows[:3]], len(rows), more) == (["large", "z", "0"], MAX_TRAININGS, 7 + 7)


def test_curves_are_what_was_seen_and_else_what_the_owner_says(site: Site) -> None:
    site.publishes(replace(LOOK, trainers=(TrainerStatus("1", "news", "active"),)))
    standing = find_standing(site.config)
    tag = "freetrain:min=2,curve=1:50/4:150"
    (row,), _ = list_trainings(standing, known(tag))
    assert row.curve is not None
    assert row.curve.is_claim
    assert row.curve.words == "samples, as its owner says: 50/s on 1, 150/s on 4 nodes"
    assert row.wants == "2 or more"
    (row,), _ = list_trainings(
        standing, known(tag, Observation(1, 40.0), Observation(1, 60.0), Observation(3, 90.0))
    )
    assert row.curve is not None
    assert not row.curve.is_claim
    assert row.curve.words == "samples seen: 50/s on 1, 90/s on 3 nodes"
    assert row.curve.line == "M2 24L30.0 11.8L86.0 2.0"
    (row,), _ = list_trainings(standing, known("freetrain:min=nonsense"))
    assert (row.curve, row.wants, row.own.target_samples) == (None, "", None)


def test_a_long_curve_is_drawn_by_a_few_of_its_points(site: Site) -> None:
    site.publishes(replace(LOOK, trainers=(TrainerStatus("1", "news", "active"),)))
    seen = [Observation(size, 10.0 * size) for size in range(1, 200)]
    (row,), _ = list_trainings(find_standing(site.config), known("freetrain:min=1", *seen))
    assert row.curve is not None
    assert row.curve.dots.count("M") <= 13
    assert "1,990/s on 199" in row.curve.words


def test_why_it_waits_is_the_first_that_applies(site: Site) -> None:
    waiting = TrainerStatus("1", "news", "active", why="nodes with GPUs")
    for change, said in {
        "note": "paused after 5 failures", "fault": "its curve makes no sense", "": "nodes with GPUs",
    }.items():  # fmt: skip
        one = replace(waiting, **{change: said}) if change else waiting
        site.publishes(replace(LOOK, trainers=(one,)))
        (row,), _ = list_trainings(find_standing(site.config), {})
        assert row.own.job.state == said
    site.publishes(replace(LOOK, time_s=time.time(), trainers=(replace(waiting, state="complete"),)))
    assert list_trainings(find_standing(site.config), {})[0][0].own.job.state == "complete"
