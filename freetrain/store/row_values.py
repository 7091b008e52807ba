"""Rows of the daemon's tables, and the fragments and trainers that they hold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.seen_costs import SeenCosts
from freetrain.core.throughput_fit import Observation, usable
from freetrain.store.tables import FragmentRow, LiveTrainerRow

_COSTS = TypeAdapter(SeenCosts)


def fragment_of(row: FragmentRow | Row[Any]) -> Fragment:
    """The fragment of this row."""
    return Fragment(
        job=row.job,
        trainer=row.trainer,
        node=row.node,
        state=FragmentState(row.state),
        asked_s=row.asked_s,
        limit_s=row.limit_s,
        started_s=row.started_s,
        ended_s=row.ended_s,
        end=End(row.end) if row.end else None,
        decision=row.decision,
        id=row.id,
        share=row.share,
        parts=tuple(row.parts or ()),
    )


def row_of_fragment(fragment: Fragment) -> FragmentRow:
    """The row of this fragment; a new one has no number yet."""
    values = asdict(fragment)
    values["state"] = str(fragment.state)
    values["end"] = str(fragment.end) if fragment.end else None
    values["parts"] = list(fragment.parts) or None
    if not fragment.id:
        del values["id"]
    return FragmentRow(**values)


def trainer_of(row: LiveTrainerRow) -> KnownTrainer:
    """The trainer of this row."""
    return KnownTrainer(
        id=row.id,
        owner=row.owner,
        account=row.account,
        tag=row.tag,
        state=TrainerState(row.state),
        first_seen_s=row.first_seen_s,
        note=row.note,
        failures_in_a_row=row.failures_in_a_row,
        rests_until_s=row.rests_until_s,
        samples_done=row.samples_done,
        progress_bytes=row.progress_bytes,
        # Earlier versions kept whatever a trainer's progress said.
        observations=usable(Observation(*values) for values in row.observations),
        costs=_COSTS.validate_python(row.costs),
    )


def row_of_trainer(trainer: KnownTrainer) -> LiveTrainerRow:
    """The row of this trainer."""
    return LiveTrainerRow(
        id=trainer.id,
        owner=trainer.owner,
        account=trainer.account,
        tag=trainer.tag,
        state=str(trainer.state),
        first_seen_s=trainer.first_seen_s,
        note=trainer.note,
        failures_in_a_row=trainer.failures_in_a_row,
        rests_until_s=trainer.rests_until_s,
        samples_done=trainer.samples_done,
        progress_bytes=trainer.progress_bytes,
        observations=[
            [one.nodes, one.samples_per_s, one.weight, *([one.kind] if one.kind else ())]
            for one in trainer.observations
        ],
        costs=asdict(trainer.costs),
    )
