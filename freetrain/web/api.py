"""Documents of the API for programs, as ``--json`` prints them, and their OpenAPI description. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from typing import Any

from pydantic import TypeAdapter

from freetrain import __version__
from freetrain.client.documents import (
    JobsDocument,
    NodesDocument,
    OwnJob,
    OwnJobsDocument,
    StatusDocument,
    job_entry,
    jobs_document,
    nodes_document,
    status_document,
)
from freetrain.client.trainings import ListedTraining, facts_of, state_word
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.throughput import mean_rates
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.lending.training_verdicts import what_helps
from freetrain.policies.needs import Need
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.tags import Tag, tag_in
from freetrain.web.facts import PageFacts

PREFIX = "/api/v1/"
DESCRIPTION = "openapi.json"
_MAX_POINTS = 12


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path of the API.

    Attributes:
        document: function that makes the document for a user; with an empty name, for nobody in particular.
        names_jobs: whether it says whose jobs do what, which a site may hide.
        is_own: whether it is about the user who asks.
    """

    type: type[Any]
    document: Callable[[PageFacts, str], Any]
    summary: str
    names_jobs: bool = False
    is_own: bool = False

    def needs_user(self, facts: PageFacts) -> bool:
        """Whether only users get an answer, and nobody else."""
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
"""Endpoints by the rest of the path after the prefix."""


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


def ranked(trainers: Iterable[TrainerStatus]) -> list[TrainerStatus]:
    """Trainings, the largest first, then those that get none for a reason of their own, then those that wait."""

    def rank(trainer: TrainerStatus) -> tuple[int, int, bool, str]:
        is_odd = bool(trainer.note or trainer.fault)
        return -len(expand_nodes(trainer.lent)), -len(expand_nodes(trainer.asked)), not is_odd, trainer.id

    return sorted(trainers, key=rank)


def own_job(
    trainer: TrainerStatus, known: KnownTrainer | None, standing: Standing, needs: Sequence[Need] = ()
) -> OwnJob:
    """A training with what would give it more nodes."""
    tag = tag_in(known.tag) if known else None
    seen = tuple(mean_rates(known.observations).items()) if known else ()
    claimed = tag.curve if tag else ()
    points = [(nodes, rate) for nodes, rate in seen or claimed if nodes > 0 and rate > 0]
    # A few of many points, evenly, and the last
    step = max(1, -(-len(points) // _MAX_POINTS))
    return OwnJob(
        job=job_entry(listed(trainer, tag, standing, needs)),
        why=trainer.why,
        what_helps=what_helps(trainer.verdict, trainer.id),
        target_samples=tag.target_samples if tag else None,
        curve=(*islice(points, 0, max(len(points) - 1, 0), step), *points[-1:]),
        curve_is_claim=not seen,
    )


def listed(trainer: TrainerStatus, tag: Tag | None, standing: Standing, needs: Sequence[Need]) -> ListedTraining:
    """A training as ``freetrain jobs`` lists it, from what is published; without Slurm its tasks are not known."""
    nodes, asked = expand_nodes(trainer.lent), expand_nodes(trainer.asked)
    # An old look is reported in the past tense
    running = "runs" if standing.answers else "ran then"
    return ListedTraining(
        id=trainer.id,
        user=trainer.owner,
        account=trainer.account,
        word=state_word(trainer.state, nodes, asked),
        nodes=sorted(nodes),
        asked_nodes=sorted(asked),
        max_nodes=tag.max_nodes if tag else None,
        state=standing.trouble_of(trainer) or (running if nodes else standing.waiting_text(trainer)),
        **facts_of(tag, trainer, needs),
    )
