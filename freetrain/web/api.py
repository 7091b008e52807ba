"""What programs and users get: the API's documents, their description by OpenAPI, and each user's own page. Pure.

The documents are of the types that ``--json`` prints. The page says what a user's trainings are, why these have no
more nodes, what helps, and how far they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from freetrain import __version__
from freetrain.client.documents import (
    JobsDocument,
    NodesDocument,
    OwnJob,
    OwnJobsDocument,
    StatusDocument,
    jobs_document,
    nodes_document,
    status_document,
)
from freetrain.core.fragment import End
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.showing.words import brief_duration, count
from freetrain.slurm.tags import tag_in
from freetrain.web.over_time import HEIGHT, WIDTH, NodeLease, PageWindow
from freetrain.web.page import PageFacts, fill, window_of
from freetrain.web.trainings import CurvePicture, draw_curve, listed, own_job, ranked

PREFIX = "/api/v1/"
DESCRIPTION = "openapi.json"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path of the API.

    Attributes:
        document: what is answered to a user; to nobody in particular: an empty name.
        names_jobs: whether it says whose jobs do what, which a site may hide.
        is_own: whether it is about the user who asks.
    """

    type: type[Any]
    document: Callable[[PageFacts, str], Any]
    summary: str
    names_jobs: bool = False
    is_own: bool = False

    def needs_user(self, facts: PageFacts) -> bool:
        """Whether nobody in particular gets no answer."""
        return self.is_own or (self.names_jobs and facts.is_private)


def _status(facts: PageFacts, _user: str) -> StatusDocument:
    return status_document(facts.standing)


def _nodes(facts: PageFacts, _user: str) -> NodesDocument:
    look = facts.shown.standing.look
    return nodes_document(facts.standing, look.nodes if look else ())


def _jobs(facts: PageFacts, user: str) -> JobsDocument:
    tags = {id_: tag_in(known.tag) for id_, known in facts.past.trainers.items()}
    trainers = _trainers(facts, user if facts.is_private else "")
    jobs = (listed(trainer, tags.get(trainer.id), facts.standing, facts.needs) for trainer in trainers)
    return jobs_document(facts.standing, jobs)


def own_jobs(facts: PageFacts, user: str) -> OwnJobsDocument:
    """The trainings and fillers of one user, largest first, with what would give each of them more nodes."""
    known, standing = facts.past.trainers, facts.standing
    jobs = [own_job(trainer, known.get(trainer.id), standing, facts.needs) for trainer in _trainers(facts, user)]
    return OwnJobsDocument(user, standing.state(), jobs)


ENDPOINTS: Mapping[str, Endpoint] = {
    "status": Endpoint(StatusDocument, _status, "How the daemon stands, as 'freetrain status --json' prints it."),
    "nodes": Endpoint(NodesDocument, _nodes, "The nodes at the last look, as of 'freetrain nodes --json'."),
    "jobs": Endpoint(
        JobsDocument,
        _jobs,
        "The trainings at the last look, as of 'freetrain jobs --json'; where the site hides jobs your own.",
        names_jobs=True,
    ),
    "own-jobs": Endpoint(
        OwnJobsDocument, own_jobs, "Your trainings, why they have no more nodes, and what helps.", is_own=True
    ),
}
"""By what follows the prefix."""


def _trainers(facts: PageFacts, user: str) -> list[TrainerStatus]:
    """The trainings and fillers that the last look showed, of a user or (empty) everybody, the largest first."""
    look = facts.standing.look
    return [trainer for trainer in ranked(look.trainers if look else ()) if user in ("", trainer.owner)]


def as_json(document: Any) -> bytes:
    """A document as it is sent."""
    return json.dumps(asdict(document)).encode()


@cache
def description() -> bytes:
    """The API's description, by OpenAPI 3.1."""
    schemas: dict[str, Any] = {}
    paths = {}
    for name, endpoint in ENDPOINTS.items():
        schema = TypeAdapter(endpoint.type).json_schema(
            ref_template="#/components/schemas/{model}", mode="serialization"
        )
        schemas |= schema.pop("$defs", {})
        schemas[endpoint.type.__name__] = schema
        paths[f"{PREFIX}{name}"] = {"get": _operation(name, endpoint)}
    return json.dumps({
        "openapi": "3.1.0",
        "info": {"title": "freetrain", "version": __version__, "description": "Read-only."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
    }).encode()  # fmt: skip


def _operation(name: str, endpoint: Endpoint) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{endpoint.type.__name__}"}
    needs_user: list[dict[str, list[str]]] = [{"token": []}, {"password": []}]
    return {
        "operationId": name,
        "summary": endpoint.summary,
        "security": needs_user if endpoint.is_own else [{}, *needs_user],
        "responses": {
            "200": {"description": endpoint.summary, "content": {"application/json": {"schema": schema}}},
            "401": {"description": "Who asks is not known, or not believed."},
            "503": {"description": "Nothing could be found out for a while."},
        },
    }


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
