"""``freetrain jobs``: the trainings that were handed to freetrain, and how they are getting on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from freetrain.cli.choosing import Chosen, choosing_options
from freetrain.cli.helping import command
from freetrain.cli.listing import LISTING, Shape, listing_options
from freetrain.cli.options import config_option
from freetrain.client import Client, ListedTraining
from freetrain.client.documents import jobs_document
from freetrain.core.fragment import End
from freetrain.showing.words import NOTHING
from freetrain.slurm.parsing import fold_nodes

_COLUMNS = (
    "ID", "NAME", "USER", "NODES", "ASKED", "WANTS", "SAMPLES", "EVICTIONS", "COSTS", "STATE", "NODELIST",
)  # fmt: skip
_NUMBERS = ("NODES", "ASKED", "SAMPLES", "EVICTIONS", "COSTS")
_COSTS = ("scale_up_s", "scale_down_s", "start_s", "boot_s")
"""In this order in one cell: seconds for growing, shrinking, starting, and the boot of a new node."""


@command("jobs", context_settings=LISTING, first=("--user", "--states", "--nodelist", "--json", "--format"))
@choosing_options
@listing_options
@config_option
def jobs_command(config_path: Path | None, chosen: Chosen, shape: Shape) -> None:
    """List the trainings that freetrain lends nodes to, or that wait for some, with what is wrong with their tags.

    Slurm is asked which run where; what the daemon found at its last look says the rest. Anybody may ask. COSTS
    are seconds for growing, shrinking, starting and the boot of a new node, as the tag says and as was seen.
    """
    client = Client(config_path)
    standing = client.standing()
    shape.begin(standing)
    rows = [training for training in client.jobs(standing) if _is_chosen(training, chosen)]
    document = asdict(jobs_document(standing, rows))
    queue = client.config.slurm.queue
    otherwise = f"No {'' if chosen == Chosen() else 'such '}training waits or runs in {queue}."
    shape.print(document, _COLUMNS, map(_cells, rows), right=_NUMBERS, otherwise=otherwise)


def _is_chosen(training: ListedTraining, chosen: Chosen) -> bool:
    nodes = {*training.nodes, *training.asked_nodes}
    return chosen.has(training.user, training.account, training.word, nodes)


def _costs(costs: Mapping[str, float] | None) -> str:
    return "/".join(f"{costs.get(name, 0.0):.3g}" for name in _COSTS) if costs else NOTHING


def _wants(training: ListedTraining) -> str:
    if training.task_nodes:
        return "{}-{} each".format(*training.task_nodes)
    return NOTHING if training.min_nodes is None else f"{training.min_nodes}-{training.max_nodes}"


def _cells(training: ListedTraining) -> tuple[str, ...]:
    nodes, asked = training.nodes, training.asked_nodes
    samples = NOTHING if training.samples is None else f"{training.samples:,.0f}"
    evictions = NOTHING if training.ends is None else str(training.ends.get(str(End.PREEMPTED), 0))
    state = "; ".join(filter(None, (training.state, training.lacks)))
    return (
        training.id, training.name or NOTHING, training.user, str(len(nodes)), str(len(asked)), _wants(training),
        samples, evictions, _costs(training.costs), state, fold_nodes(nodes) if nodes else NOTHING,
    )  # fmt: skip
