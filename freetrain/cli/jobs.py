"""``freetrain jobs``: the trainings that were handed to freetrain, and how they are getting on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from freetrain.cli.choosing import Chosen, choosing_options, state_word
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option
from freetrain.config import Config, load_config
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End
from freetrain.core.job import JobState
from freetrain.core.known_trainer import UNKNOWN_END, TrainerState
from freetrain.daemon.reports.standing import Standing, find_standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.daemon.setup import launcher_of
from freetrain.daemon.trainers.needs import lacks, needs_of
from freetrain.policies.needs import Need
from freetrain.showing.words import NOTHING
from freetrain.slurm.comments import answer_in, asked_to_resume
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.parsing import expand_nodes, fold_nodes
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.slurm.tags import Tag, WrongTag

_COLUMNS = (
    "ID", "NAME", "USER", "NODES", "ASKED", "WANTS", "SAMPLES", "EVICTIONS", "COSTS", "STATE", "NODELIST",
)  # fmt: skip
_NUMBERS = ("NODES", "ASKED", "SAMPLES", "EVICTIONS", "COSTS")
_COSTS = ("scale_up_s", "scale_down_s", "start_s", "boot_s")
"""In this order in one cell: seconds for growing, shrinking, starting, and the boot of a new node."""


@click.command("jobs", context_settings=LISTING)
@config_option
@choosing_options
@listing_options
def jobs_command(config_path: Path | None, chosen: Chosen, shape: Shape) -> None:
    """List the trainings that freetrain lends nodes to, or that wait for some, with what is wrong with their tags.

    Slurm is asked which run where; what the daemon found at its last look says the rest. Anybody may ask. COSTS
    are seconds for growing, shrinking, starting and the boot of a new node, as the tag says and as was seen.
    """
    config = load_config(config_path).config
    standing = find_standing(config)
    shape.begin(standing)
    gateway = OpenedWhenAsked(config.slurm.backend, config.slurm.timeout)
    snapshot = gateway.snapshot()
    lent = _lent_nodes(snapshot, config, gateway)
    known = standing.trainers
    needs = needs_of(config)
    found = (
        (submission, _facts(submission, lent.get(submission.id, set()), known.get(submission.id), standing, needs))
        for submission in find_submissions(snapshot.jobs, config.slurm.queue).values()
    )
    rows = [facts for one, facts in found if _is_chosen(one, facts, known.get(one.id), chosen)]
    document = {"format": "freetrain-jobs/2", "daemon": standing.document(), "jobs": rows}
    otherwise = f"No {'' if chosen == Chosen() else 'such '}training waits or runs in {config.slurm.queue}."
    shape.print(document, _COLUMNS, map(_cells, rows), right=_NUMBERS, otherwise=otherwise)


def _is_chosen(
    submission: Submission, facts: Mapping[str, Any], known: TrainerStatus | None, chosen: Chosen
) -> bool:
    if isinstance(submission.tag, WrongTag):
        state = TrainerState.REFUSED
    elif submission.is_over:
        state = TrainerState.COMPLETE
    else:
        state = TrainerState(known.state) if known else TrainerState.ACTIVE
    lent, asked = facts["nodes"], facts["asked_nodes"]
    return chosen.has(submission.owner, submission.account, state_word(state, lent, asked), {*lent, *asked})


def _lent_nodes(snapshot: Snapshot, config: Config, gateway: Gateway) -> Mapping[str, set[str]]:
    """Trainer → the nodes on which its fragments run."""
    launcher = launcher_of(config, gateway)
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for job in snapshot.jobs:
        if config.slurm.queue.has(job) and job.state is JobState.RUNNING:
            trainer = launcher.of_trainer(job)
            if trainer is not None:
                nodes[trainer] |= job.nodes
    return nodes


def _facts(
    submission: Submission,
    lent: set[str],
    known: TrainerStatus | None,
    standing: Standing,
    needs: tuple[Need, ...],
) -> dict[str, Any]:
    tag, good = submission.tag, submission.good_tag
    asked = expand_nodes(known.asked) - lent if known and standing.is_at_work else frozenset()
    return {
        "id": submission.id,
        "name": good.name if good else "",
        "user": submission.owner,
        "nodes": sorted(lent),
        "asked_nodes": sorted(asked),
        "min_nodes": good.min_nodes if good else None,
        "max_nodes": _most_nodes(good, submission) if good else None,
        "task_nodes": good.task_nodes if good else None,
        "samples": known.samples_done if known else None,
        "ends": dict(known.ends) if known else None,
        "costs": dict(known.costs) if known else None,
        "speeds": dict(known.speeds) if known else None,
        "fault": known.fault if known else "",
        "lacks": lacks(needs, good) if good else "",
        "state": _state(submission, tag, known, standing, len(lent), len(asked)),
    }


def _most_nodes(tag: Tag, submission: Submission) -> int:
    _, each = tag.task_nodes or (1, 1)
    return tag.max_nodes or each * len(submission.tasks)


def _state(
    submission: Submission,
    tag: Tag | WrongTag,
    known: TrainerStatus | None,
    standing: Standing,
    lent: int,
    asked: int,
) -> str:
    """In a word or a sentence, the first that applies of: its tag, its end, what the daemon says, what it has."""
    if isinstance(tag, WrongTag):
        return f"refused: {tag.why}"
    if asked_to_resume(submission.comment):
        return "was asked to go on, which the daemon sees at its next look"
    if answer_in(submission.comment) or submission.is_over:
        return answer_in(submission.comment) or "over"
    trouble = standing.trouble_of(known) if known is not None and standing.is_at_work else ""
    if trouble and trouble != UNKNOWN_END:
        return trouble
    now = f"{_now(known, standing, lent, asked)}{_speeds(known)}"
    if tag.is_filler:
        return f"{now}{_done(known)}"
    return f"{now}; {UNKNOWN_END}" if _cannot_tell_end(submission, tag, known) else now


def _now(known: TrainerStatus | None, standing: Standing, lent: int, asked: int) -> str:
    if lent:
        return "running" if standing.is_at_work else "running; no daemon is at work"
    return f"waits for Slurm to start it on {asked} nodes" if asked else standing.waiting_text(known)


def _speeds(known: TrainerStatus | None) -> str:
    """How fast it is taken to be on which nodes, as its tag would say it; empty: its owner names none."""
    speeds = known.speeds if known else {}
    return f"; speed={'/'.join(f'{name}:{speed:g}' for name, speed in speeds.items())}" if speeds else ""


def _done(known: TrainerStatus | None) -> str:
    """How many of a filler's tasks have had their turn, and how; empty: none that is known of."""
    ends = known.ends if known else {}
    counts = ((ends.get(str(end), 0), str(end)) for end in (End.COMPLETED, End.FAILED))
    text = " and ".join(f"{count} {word}" for count, word in counts if count)
    return f"; of its tasks {text}" if text else ""


def _cannot_tell_end(submission: Submission, tag: Tag | WrongTag | None, known: TrainerStatus | None) -> bool:
    """Whether tasks have completed of what shows no sign of the runtime, as far as is known."""
    if known is not None:
        return known.note == UNKNOWN_END
    some_completed = any(task.state is JobState.COMPLETED for task in submission.tasks)
    return some_completed and isinstance(tag, Tag) and tag.directory is None


def _costs(costs: Mapping[str, float] | None) -> str:
    return "/".join(f"{costs.get(name, 0.0):.3g}" for name in _COSTS) if costs else NOTHING


def _cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    wants = NOTHING if facts["min_nodes"] is None else f"{facts['min_nodes']}-{facts['max_nodes']}"
    if facts["task_nodes"]:
        wants = "{}-{} each".format(*facts["task_nodes"])
    samples = NOTHING if facts["samples"] is None else f"{facts['samples']:,.0f}"
    evictions = NOTHING if facts["ends"] is None else str(facts["ends"].get(str(End.PREEMPTED), 0))
    nodes, asked = facts["nodes"], facts["asked_nodes"]
    state = "; ".join(filter(None, (facts["state"], facts["lacks"])))
    return (
        facts["id"], facts["name"] or NOTHING, facts["user"], str(len(nodes)), str(len(asked)), wants, samples,
        evictions, _costs(facts["costs"]), state, fold_nodes(nodes) if nodes else NOTHING,
    )  # fmt: skip
