"""Rows of a replay: what each look concluded, ordered and decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from freetrain.lending.training_verdicts import TrainingContext
from freetrain.loop.cycle import Goal
from freetrain.loop.lending_loop import LendingLoop, Look

Row = str
"""One line of JSON: time of the look, what is recorded, its name, its value."""


class LookRecorder:
    """Turns looks into rows.

    Args:
        keep: is given each row.
    """

    def __init__(self, keep: Callable[[Row], None]) -> None:
        self._keep = keep
        self._before: dict[str, Mapping[str, Any]] = {}

    def record(self, look: Look) -> None:
        """Add the rows of a look; of verdicts those that differ from the look before."""
        judgement = look.judgement
        now_s = judgement.now_s
        verdicts = {
            "offered": {
                place.name: [place.until_s, place.holder, place.traits.kind] for place in judgement.offers.offered
            },
            "due": judgement.offers.due,
            "withheld": judgement.offers.withheld,
            "planned": {plan.job: [plan.start_s, sorted(plan.nodes)] for plan in judgement.shadow.plans},
            "expected": judgement.memory.meter.expected,
            "waits": waits_of(look),
        }
        for kind, now in verdicts.items():
            before = self._before.get(kind, {})
            for name in sorted(now.keys() | before.keys()):
                if now.get(name) != before.get(name):
                    self._row(now_s, kind, name, now.get(name))
            self._before[kind] = dict(now)
        self._row(now_s, "horizon", "", judgement.horizon_s)
        for order in judgement.orders:
            self._row(now_s, "order", type(order).__name__, str(order))
        for number, decision in enumerate(look.decisions):
            placement = {trainer: list(names) for trainer, names in decision.placement.items()}
            self._row(now_s, "decision", str(number), [decision.objective, decision.solver, placement])

    def _row(self, now_s: float, kind: str, name: str, value: Any) -> None:
        self._keep(json.dumps([now_s, kind, name, value], default=str))


def waits_of(look: Look) -> Mapping[str, str]:
    """What was submitted and has no nodes → why; with that of everybody where nothing is lent at all."""
    verdicts, sizes = look.verdicts(), TrainingContext(look.judgement, look.decisions).served_submissions
    return {
        id_: reason.why
        for id_, reason in verdicts.items()
        if id_ not in sizes or reason.verdict == "nothing is lent"
    }


@contextmanager
def recorded(keep: Callable[[Row], None]) -> Iterator[None]:
    """Record every look of every lending loop meanwhile."""
    recorder = LookRecorder(keep)
    with each_look(recorder.record):
        yield


@contextmanager
def each_look(tell: Callable[[Look], None]) -> Iterator[None]:
    """Show every look of every lending loop meanwhile."""
    look = LendingLoop.look

    def look_and_tell(self: LendingLoop, goal: Goal) -> Look:
        done = look(self, goal)
        tell(done)
        return done

    LendingLoop.look = look_and_tell  # type: ignore[method-assign]
    try:
        yield
    finally:
        LendingLoop.look = look  # type: ignore[method-assign]
