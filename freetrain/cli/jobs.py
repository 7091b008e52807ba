"""``freetrain jobs``: the trainings that were handed to freetrain, and how they are getting on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from freetrain.cli.daemons_ledger import readable_ledger
from freetrain.cli.options import config_option
from freetrain.cli.output import NOTHING, print_json, print_table
from freetrain.config import load_config
from freetrain.core.cluster import JobState
from freetrain.core.fragment import End
from freetrain.core.lent_trainer import LentTrainer
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.slurm.tags import ANSWER, Tag, WrongTag, parse_tag

_COLUMNS = ("ID", "NAME", "USER", "NODES", "WANTS", "SAMPLES", "EVICTIONS", "STATE", "NODELIST")


@dataclass(frozen=True, slots=True)
class Known:
    """What only the daemon's database tells; nothing where it cannot be read.

    Attributes:
        trainer: what is remembered.
        ends: how often its fragments ended in which way.
    """

    trainer: LentTrainer | None
    ends: Mapping[End, int]


@click.command("jobs")
@config_option
@click.option("--user", help="Only this user's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def jobs_command(config_path: Path | None, user: str | None, as_json: bool) -> None:
    """List the trainings that freetrain lends nodes to, or that wait for some, with what is wrong with their tags.

    Anybody may ask; who can read the daemon's database also sees samples and evictions.
    """
    config = load_config(config_path).config
    snapshot = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout).snapshot()
    submissions = find_submissions(snapshot.jobs, config.slurm.partition)
    ledger = readable_ledger(config)
    trainers = ledger.trainers() if ledger else {}
    rows = [
        _facts(one, Known(trainers.get(one.id), ledger.count_ends(one.id) if ledger else {}))
        for one in submissions.values()
        if user in (None, one.owner)
    ]
    if as_json:
        print_json({"format": "freetrain-jobs/1", "jobs": rows})
    elif rows:
        print_table(_COLUMNS, map(_cells, rows), right=("NODES", "SAMPLES", "EVICTIONS"))
    else:
        click.echo(f"No training waits or runs in partition {config.slurm.partition}.")


def _facts(submission: Submission, known: Known) -> dict[str, Any]:
    tag = parse_tag(submission.comment)
    nodes = frozenset().union(*(task.nodes for task in submission.tasks if task.state is JobState.RUNNING))
    _, _, answer = submission.comment.partition(ANSWER)
    good = tag if isinstance(tag, Tag) else None
    return {
        "id": submission.id,
        "name": good.name if good else "",
        "user": submission.owner,
        "nodes": sorted(nodes),
        "min_nodes": good.min_nodes if good else None,
        "max_nodes": (good.max_nodes or len(submission.tasks)) if good else None,
        "samples": known.trainer.samples_done if known.trainer else None,
        "ends": {str(end): count for end, count in known.ends.items()},
        "state": _state(submission, tag, answer, known, bool(nodes)),
    }


def _state(submission: Submission, tag: Tag | WrongTag | None, answer: str, known: Known, has_nodes: bool) -> str:
    if isinstance(tag, WrongTag):
        return f"refused: {tag.why}"
    note = answer or (known.trainer.note if known.trainer else "")
    if note:
        return note
    if submission.is_over:
        return "over"
    return "running" if has_nodes else "waiting for idle nodes"


def _cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    wants = NOTHING if facts["min_nodes"] is None else f"{facts['min_nodes']}-{facts['max_nodes']}"
    samples = NOTHING if facts["samples"] is None else f"{facts['samples']:,.0f}"
    evictions = str(facts["ends"].get(str(End.PREEMPTED), 0)) if facts["samples"] is not None else NOTHING
    nodes = facts["nodes"]
    return (
        facts["id"], facts["name"] or NOTHING, facts["user"], str(len(nodes)), wants, samples, evictions,
        facts["state"], fold_nodes(nodes) if nodes else NOTHING,
    )  # fmt: skip
