"""The API, read-only: documents of the types that ``--json`` prints, and their description by OpenAPI. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
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
from freetrain.client.trainings import ListedTraining, state_word
from freetrain.core.known_trainer import KnownTrainer
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.daemon.trainers.needs import lacks
from freetrain.lending.training_verdicts import what_helps
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.tags import tag_in
from freetrain.web.page import PageFacts
from freetrain.web.trainings import curve_points, ranked, state_text

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
    return jobs_document(facts.standing, list_jobs(facts, user if facts.is_private else ""))


def own_jobs(facts: PageFacts, user: str) -> OwnJobsDocument:
    """The trainings and fillers of one user, largest first, with what would give each of them more nodes."""
    known, look = facts.past.trainers, facts.standing.look
    status = {trainer.id: trainer for trainer in look.trainers} if look else {}
    jobs = [_own_job(job, status[job.id], known.get(job.id)) for job in list_jobs(facts, user)]
    return OwnJobsDocument(user, facts.standing.state(), jobs)


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


def list_jobs(facts: PageFacts, user: str = "") -> list[ListedTraining]:
    """The trainings and fillers that the last look showed, of a user or (empty) everybody, the largest first."""
    look, known = facts.standing.look, facts.past.trainers
    trainers = ranked(look.trainers) if look else []
    return [_listed(trainer, known.get(trainer.id), facts) for trainer in trainers if user in ("", trainer.owner)]


def _listed(trainer: TrainerStatus, known: KnownTrainer | None, facts: PageFacts) -> ListedTraining:
    """A training as ``freetrain jobs`` lists it, from what is published; without Slurm its tasks are not known."""
    tag = tag_in(known.tag) if known else None
    nodes, asked = expand_nodes(trainer.lent), expand_nodes(trainer.asked)
    return ListedTraining(
        id=trainer.id,
        name=tag.name if tag else "",
        user=trainer.owner,
        account=trainer.account,
        word=state_word(trainer.state, nodes, asked),
        nodes=sorted(nodes),
        asked_nodes=sorted(asked),
        min_nodes=tag.min_nodes if tag else None,
        max_nodes=tag.max_nodes if tag else None,
        task_nodes=tag.task_nodes if tag else None,
        samples=trainer.samples_done,
        ends=dict(trainer.ends),
        costs=dict(trainer.costs),
        speeds=dict(trainer.speeds),
        fault=trainer.fault,
        lacks=lacks(facts.needs, tag) if tag else "",
        state=state_text(trainer, len(nodes), facts.standing),
    )


def _own_job(job: ListedTraining, trainer: TrainerStatus, known: KnownTrainer | None) -> OwnJob:
    tag = tag_in(known.tag) if known else None
    points, is_claim = curve_points(known, tag)
    return OwnJob(
        job=job_entry(job),
        why=trainer.why,
        what_helps=what_helps(trainer.verdict, trainer.id),
        target_samples=tag.target_samples if tag else None,
        curve=points,
        curve_is_claim=is_claim,
    )


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
