"""Ends: what follows for a trainer from how its fragments ended. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from freetrain.core.fragment import End, Fragment
from freetrain.core.known_trainer import PAUSE_NOTE, KnownTrainer, TrainerState
from freetrain.lending.causes import goes_well

_MORE_ON_ONE_NODE = 3
"""So many failures more may have one node for their cause, before the owner is asked to look."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How failures are answered.

    Attributes:
        back_off_s: rest after the first failure; doubles with each more.
        failures_to_pause: failures in a row after which the owner must look.
    """

    back_off_s: float
    failures_to_pause: int


def after_ends(
    trainer: KnownTrainer,
    ended: Iterable[Fragment],
    patience: Patience,
    now_s: float,
    fragments: Iterable[Fragment] = (),
    failed_on: Collection[str] = (),
) -> KnownTrainer:
    """The trainer after these fragments ended: only failures of its own program count against it.

    A program that fails on one node while it goes well on another is not at fault: the pair of both is
    (:mod:`freetrain.lending.causes`).

    Args:
        trainer: which.
        ended: those that ended since the last look.
        patience: how failures are answered.
        now_s: UTC epoch seconds.
        fragments: those that have not ended.
        failed_on: nodes on which it has failed.
    """
    ended = list(ended)
    failures = trainer.failures_in_a_row
    failed = {fragment.node for fragment in ended if fragment.end is End.FAILED}
    if failed and any(fragment.node not in failed and goes_well(fragment, now_s) for fragment in fragments):
        return trainer
    if failed:
        failures += 1  # however many fragments went down together: it is one program
    elif any(_ran_s(fragment, now_s) > patience.back_off_s for fragment in ended):
        failures = 0
    if failures == trainer.failures_in_a_row or trainer.state in (TrainerState.REFUSED, TrainerState.COMPLETE):
        return trainer
    if failures == 0:
        return replace(trainer, failures_in_a_row=0)
    is_everywhere = len({*failed_on, *failed}) > 1 or failures >= patience.failures_to_pause + _MORE_ON_ONE_NODE
    if failures >= patience.failures_to_pause and is_everywhere:
        note = f"{PAUSE_NOTE} {failures} failures in a row: see its output, then run freetrain resume {trainer.id}"
        return replace(trainer, failures_in_a_row=failures, state=TrainerState.PAUSED, note=note)
    rest_s = patience.back_off_s * 2 ** (failures - 1)
    return replace(
        trainer,
        failures_in_a_row=failures,
        state=TrainerState.RESTING,
        rests_until_s=now_s + rest_s,
        note=f"{failures} failures in a row; rests for {rest_s:.0f} s",
    )


def _ran_s(fragment: Fragment, now_s: float) -> float:
    return 0.0 if fragment.started_s is None else (fragment.ended_s or now_s) - fragment.started_s


def awake(trainer: KnownTrainer, now_s: float) -> KnownTrainer:
    """The trainer, active again if its rest is over."""
    if trainer.state is TrainerState.RESTING and now_s >= trainer.rests_until_s:
        return replace(trainer, state=TrainerState.ACTIVE, note="")
    return trainer


def resumed(trainer: KnownTrainer) -> KnownTrainer:
    """The trainer, its failures forgotten: its owner has seen to them."""
    if trainer.state not in (TrainerState.PAUSED, TrainerState.RESTING):
        return replace(trainer, failures_in_a_row=0)
    return replace(trainer, state=TrainerState.ACTIVE, note="", failures_in_a_row=0, rests_until_s=0.0)


def is_complete(
    trainer: KnownTrainer,
    fragments: Sequence[Fragment],
    last: Fragment | None,
    finished: bool | None,
    target: float,
    nothing_unrun: bool,
) -> bool:
    """Whether the training is done.

    That its fragments have ended says so only where the training cannot say it itself, and where nothing would
    be lost: the other tasks of an array that is not an elastic training have work of their own.

    Args:
        trainer: which.
        fragments: those that have not ended.
        last: the one that ended last.
        finished: what its directory says; None: it cannot be read.
        target: samples after which it is complete.
        nothing_unrun: whether nothing is left that could still run.
    """
    if finished is not None or trainer.samples_done >= target:
        return bool(finished) or trainer.samples_done >= target
    return nothing_unrun and not fragments and last is not None and last.end is End.COMPLETED


def is_finishing(fragments: Sequence[Fragment], last: Fragment | None) -> bool:
    """Whether one fragment ended well since the others started: they will follow, and nobody should join."""
    if not fragments or last is None or last.end is not End.COMPLETED or last.ended_s is None:
        return False
    return all(fragment.started_s is not None and fragment.started_s < last.ended_s for fragment in fragments)
