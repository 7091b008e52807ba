"""The window that a log is read for."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.errors import InputError
from freetrain.replay.logs.proof import Proof
from freetrain.replay.logs.times import iso


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when holes are looked for, with notes on how that was chosen."""

    from_s: float
    until_s: float
    notes: tuple[str, ...] = ()


def choose_window(proof: Proof, from_s: float | None, until_s: float | None) -> Window:
    """The window asked for, or the tightest that the log itself proves.

    A dump of the time from X to Y holds every job that overlaps it. So each row ends after X and was submitted
    before Y: the first end and the last submission lie within, and a machine that seems to fill up before or to
    drain after them does so only in the log.

    Raises:
        InputError: if the window is empty or has nothing to do with the log.
    """
    proven, notes = _proven(proof)
    chosen = Window(proven.from_s if from_s is None else from_s, proven.until_s if until_s is None else until_s)
    if chosen.until_s <= chosen.from_s:
        raise InputError(
            f"The window from {iso(chosen.from_s)} to {iso(chosen.until_s)} is empty.",
            f"The log covers {iso(proof.earliest_start_s)} to {iso(proof.latest_end_s)}: "
            "choose --from and --until within.",
        )
    if chosen.from_s >= proof.latest_end_s or chosen.until_s <= proof.earliest_start_s:
        raise InputError(
            f"The window from {iso(chosen.from_s)} to {iso(chosen.until_s)} lies outside the log, which covers "
            f"{iso(proof.earliest_start_s)} to {iso(proof.latest_end_s)}.",
            "Choose --from and --until within the log, or leave them out.",
        )
    if from_s is None and until_s is None:
        return Window(chosen.from_s, chosen.until_s, (*notes, *proof.notes))
    odd = proof.notes if from_s is None or until_s is None else ()
    return Window(chosen.from_s, chosen.until_s, (*_beyond(chosen, proven), *odd))


def _proven(proof: Proof) -> tuple[Window, tuple[str, ...]]:
    if proof.earliest_end_s < proof.latest_submit_s:
        window = Window(proof.earliest_end_s, proof.latest_submit_s)
        note = (
            f"The window is {_span(window)}: from the first end of a job to the last submission, "
            "the time that the log is sure to cover."
        )
        return window, (note,)
    window = Window(proof.earliest_start_s, proof.latest_end_s)
    note = (
        f"The window is {_span(window)}, from the first start of a job to the last end: no job was submitted "
        "after another ended, so the log does not show what time it covers, and nodes at its edges may only "
        "look idle."
    )
    return window, (note,)


def _beyond(chosen: Window, proven: Window) -> tuple[str, ...]:
    if chosen.from_s >= proven.from_s and chosen.until_s <= proven.until_s:
        return ()
    return (
        f"The window {_span(chosen)} reaches beyond the time that the log is sure to cover ({_span(proven)}): "
        "nodes near its edges may only look idle.",
    )


def _span(window: Window) -> str:
    return f"{iso(window.from_s)} to {iso(window.until_s)}"
