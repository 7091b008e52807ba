"""The page of a user: their trainings, why these have no more nodes, what helps, and how far they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from freetrain.client.documents import OwnJob
from freetrain.core.fragment import End
from freetrain.showing.words import brief_duration, count
from freetrain.web.api import own_jobs
from freetrain.web.over_time import HEIGHT, WIDTH, NodeLease, PageWindow
from freetrain.web.page import PageFacts, fill, window_of
from freetrain.web.trainings import CurvePicture, draw_curve

_LOST = (End.PREEMPTED, End.RELEASED, End.TIMED_OUT, End.NODE_FAILED, End.FAILED)


@dataclass(frozen=True, slots=True)
class OwnTraining:
    """A training as its owner's page shows it: what the API says, progress from 0 to 1, and SVG paths."""

    own: OwnJob
    size_text: str
    progress: float | None
    left_text: str
    ends_text: str
    nodes_path: str
    top_nodes: int
    curve: CurvePicture | None


def render_own(facts: PageFacts, user: str) -> str:
    """The page of this user."""
    window = window_of(facts)
    return fill(
        "own.html.j2",
        facts,
        user=user,
        trainings=[_training(own, facts.past.stays, window) for own in own_jobs(facts, user).jobs],
        past_text=brief_duration(window.past_s),
        sizes=(WIDTH, HEIGHT),
    )


def _training(own: OwnJob, stays: Iterable[NodeLease], window: PageWindow) -> OwnTraining:
    path, top = _nodes_over_time([stay for stay in stays if stay.trainer == own.job.id], window)
    return OwnTraining(
        own=own,
        size_text=_size_text(own),
        progress=min((own.job.samples or 0.0) / own.target_samples, 1.0) if own.target_samples else None,
        left_text=_left_text(own),
        ends_text=_ends_text(own),
        nodes_path=path,
        top_nodes=top,
        curve=draw_curve(own.curve, own.curve_is_claim),
    )


def _size_text(own: OwnJob) -> str:
    job = own.job
    size = f"{len(job.nodes)} of {job.max_nodes} nodes" if job.max_nodes else count(len(job.nodes), "node")
    return f"{size}, {len(job.asked_nodes)} more starting" if job.asked_nodes else size


def _left_text(own: OwnJob) -> str:
    """How long what is left takes at the speed that was seen on as many nodes as it has."""
    if not (own.target_samples and own.curve and own.job.nodes) or own.curve_is_claim:
        return ""
    sizes, rates = zip(*own.curve, strict=True)
    rate = float(np.interp(len(own.job.nodes), sizes, rates))
    left_s = max(own.target_samples - (own.job.samples or 0.0), 0.0) / rate
    return f"about {brief_duration(left_s)} more on {count(len(own.job.nodes), 'node')}"


def _ends_text(own: OwnJob) -> str:
    ends = own.job.ends or {}
    return ", ".join(f"{ends[end]} {end}" for end in map(str, _LOST) if ends.get(end))


def _nodes_over_time(stays: Sequence[NodeLease], window: PageWindow) -> tuple[str, int]:
    ends_s = [window.known_until_s if stay.until_s is None else stay.until_s for stay in stays]
    changes = [(max(stay.from_s, window.from_s), 1) for stay in stays]
    changes += [(max(end_s, window.from_s), -1) for end_s in ends_s]
    # At one time, nodes that leave come first: a node that changes hands within is counted once.
    changes.sort()
    sizes = np.cumsum([change for _, change in changes])
    top = int(max(sizes, default=0))
    if not top:
        return "", 0
    steps = (
        f"H{WIDTH * window.share(time_s):.1f}V{HEIGHT - HEIGHT * size / top:.1f}"
        for (time_s, _), size in zip(changes, sizes, strict=True)
    )
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}z", top
