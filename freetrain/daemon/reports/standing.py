"""Standing of the daemon, as every listing begins: whether it runs here, what it does, and when it looked."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from freetrain.config import Config
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.controls.site_orders import stop_file_there
from freetrain.daemon.reports.status import (
    DaemonStatus,
    Identity,
    LookStatus,
    StatusUnknownError,
    TrainerStatus,
    read_status,
)
from freetrain.lending.pace import LONGEST_RETRY_S
from freetrain.showing.words import printable, show_time

# A look may take long on a busy Slurm; a daemon that was silent for longer than these hangs.
_POLLS, _LONGEST_LOOK_S = 3, 60.0


@dataclass(frozen=True, slots=True)
class DaemonState:
    """State of the daemon, for programs; times are UTC epoch seconds.

    Attributes:
        is_at_work: whether one runs here and has looked lately, or tried to.
        why_not: why none is at work, as the end of a sentence; empty: one is.
        stopped_by: why nothing is lent at all; empty: nodes are lent.
        paused_by: why nothing more is lent; empty: nodes are lent.
        last_look_s: when it looked last; null: never, as far as is known.
        slurm_answers: whether Slurm answers it; null: none is at work.
        slurm_silent_since_s: since when Slurm has not answered; null: it does.
        slurm_lines_not_understood: lines of Slurm's answers that were not understood.
        slurm_calls_last_hour: how often Slurm was asked or ordered something.
        woken_s: when it was last woken between two polls; null: never.
        cannot_wake: why slurmctld cannot wake it although it is to; empty: all is well.
        refused_settings: why the settings of the last reload were refused; empty: they were not.
        jobs_planned: waiting jobs of the site's for which Slurm and freetrain both have a plan.
        jobs_planned_differently: those of them for which the plans differ.
    """

    is_at_work: bool
    why_not: str
    stopped_by: str
    paused_by: str
    identity: Identity | None
    last_look_s: float | None
    last_look_took_s: float | None
    slurm_answers: bool | None
    slurm_silent_since_s: float | None
    slurm_lines_not_understood: int | None
    slurm_calls_last_hour: int | None
    woken_s: float | None
    cannot_wake: str
    refused_settings: str
    jobs_planned: int | None
    jobs_planned_differently: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Standing of the daemon, as far as it is known.

    Attributes:
        status: what it published last; None: nothing is known.
        why_not: why it is not at work, as the end of a sentence; empty: it is.
        stop_file: the stop file that is there now, even if the daemon has not seen it yet; empty: none.
        now_s: when this was found out, UTC epoch seconds.
    """

    status: DaemonStatus | None
    why_not: str
    stop_file: str
    now_s: float

    @property
    def is_at_work(self) -> bool:
        """Whether a daemon runs here and has looked lately, or tried to."""
        return not self.why_not

    @property
    def answers(self) -> bool:
        """Whether it is at work and Slurm answers it."""
        return self.is_at_work and self.status is not None and self.status.silent_since_s is None

    @property
    def last_look(self) -> LookStatus | None:
        """Status of the last look, even where the daemon is not at work any more; None: none is known."""
        return self.status.look if self.status else None

    @property
    def look(self) -> LookStatus | None:
        """Status of the last look of a daemon that is at work; None: none is, or it has not looked yet."""
        return self.last_look if self.is_at_work else None

    @property
    def trainers(self) -> Mapping[str, TrainerStatus]:
        """Trainer → its status by the last look."""
        return {trainer.id: trainer for trainer in self.last_look.trainers} if self.last_look else {}

    @property
    def stopped_by(self) -> str:
        """Reason why nothing is lent at all, although it may be in this mode; empty: nodes are lent."""
        if self.last_look is not None and self.last_look.stopped_by:
            return self.last_look.stopped_by
        return f"stopped by {self.stop_file}, as of the next look" if self.stop_file else ""

    @property
    def nothing_is_lent(self) -> str:
        """Reason why nothing is lent to anybody, as a clause; empty: nodes are lent."""
        if not self.is_at_work or self.status is None:
            return "waits for a daemon"
        if self.stopped_by:
            return self.stopped_by
        if self.look and self.look.paused_by:
            return f"nothing more is lent: {printable(self.look.paused_by)}"
        mode = self.status.daemon.mode
        return "" if mode == "act" else f"the daemon lends nothing in mode {mode}"

    def trouble_of(self, known: TrainerStatus) -> str:
        """Problem of a training, or the fact that it is over; empty: it has none, and runs or waits."""
        if known.note or known.fault:
            return known.note or known.fault
        return known.state if known.state != TrainerState.ACTIVE else ""

    def waiting_text(self, known: TrainerStatus | None) -> str:
        """Reason why a training has no nodes; ``known`` is None where the daemon has not met it."""
        if self.nothing_is_lent:
            return self.nothing_is_lent
        if known is None:
            return "waits for the daemon's next look"
        return known.why or "waits for idle nodes"

    def lines(self) -> Iterator[str]:
        """Sentences on the daemon's standing, for people."""
        status = self.status
        if self.why_not or status is None:
            yield f"No daemon is at work here: {self.why_not}."
            if self.stop_file:
                yield f"{self.stop_file} is there: a daemon would lend nothing."
            return
        daemon = status.daemon
        yield (
            f"The daemon (process {daemon.pid}) has run since {show_time(daemon.started_s)}: mode {daemon.mode}, "
            f"launcher {daemon.launcher}, partition {daemon.partition}."
        )
        yield " ".join(self._how_it_looks(status))

    def document(self) -> dict[str, Any]:
        """State of the daemon, for programs, as JSON has it."""
        return asdict(self.state())

    def state(self) -> DaemonState:
        """State of the daemon, for programs, as a type."""
        status, look = self.status, self.last_look
        return DaemonState(
            is_at_work=self.is_at_work,
            why_not=self.why_not,
            stopped_by=self.stopped_by,
            paused_by=look.paused_by if look else "",
            identity=status.daemon if status else None,
            last_look_s=look.time_s if look else None,
            last_look_took_s=look.took_s if look else None,
            slurm_answers=self.answers if self.is_at_work else None,
            slurm_silent_since_s=status.silent_since_s if status else None,
            slurm_lines_not_understood=look.rejected if look else None,
            slurm_calls_last_hour=look.calls if look else None,
            woken_s=look.woken_s if look else None,
            cannot_wake=look.cannot_wake if look else "",
            refused_settings=status.refused_settings if status else "",
            jobs_planned=look.planned if look else None,
            jobs_planned_differently=look.planned_differently if look else None,
        )

    def _how_it_looks(self, status: DaemonStatus) -> Iterator[str]:
        look = status.look
        if look is None:
            yield "It has not looked yet."
        else:
            yield f"Last look {_ago(self.now_s - look.time_s)}, in {look.took_s:.1f} s."
        if status.silent_since_s is not None:
            why = printable(status.silent_why)
            yield f"No look has succeeded since {show_time(status.silent_since_s)}: {why}"
        elif look is not None:
            yield "Slurm answers."
        if self.stopped_by:
            yield f"Nothing is lent: {self.stopped_by}."
        elif look is not None and look.paused_by:
            yield f"Nothing more is lent: {printable(look.paused_by)}."
        if status.refused_settings:
            yield f"The last reload was refused: {printable(status.refused_settings)}"
        if look is not None and look.rejected:
            first = printable(look.rejected_examples[0])
            yield f"{look.rejected} lines of Slurm's were not understood, as {first}"
        if look is not None and look.planned_differently:
            yield (
                f"Of {look.planned} waiting jobs that Slurm has planned, it plans {look.planned_differently} for "
                "another time than freetrain, which takes the earlier one."
            )


def find_standing(config: Config) -> Standing:
    """Standing of the daemon with this configuration."""
    now_s = time.time()
    stop_file = stop_file_there(config.state)
    try:
        status = read_status(Path(config.state.directory))
    except StatusUnknownError as error:
        return Standing(None, str(error), stop_file, now_s)
    return Standing(status, _why_not(status, now_s), stop_file, now_s)


def _why_not(status: DaemonStatus, now_s: float) -> str:
    """Reason why the daemon that wrote this is not at work, as the end of a sentence; empty: it is."""
    daemon, ago = status.daemon, _ago(now_s - status.written_s)
    if status.phase == "stopped":
        return f"it was stopped {ago}"
    if daemon.host != socket.gethostname():
        return f"what is published is of {daemon.host}, not of this machine"
    try:
        os.kill(daemon.pid, 0)
    except ProcessLookupError:
        return f"process {daemon.pid} is gone, and was heard of {ago}"
    except PermissionError:
        # The process is there, and belongs to another account, as the daemon's does.
        pass
    retry_s = LONGEST_RETRY_S if status.silent_since_s is not None else 0.0
    if now_s - status.written_s > _POLLS * daemon.poll_s + _LONGEST_LOOK_S + retry_s:
        return f"process {daemon.pid} should look every {daemon.poll_s:.0f} s, and was heard of {ago}"
    return ""


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s ago"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 2 * 86400 else f"{seconds / 86400:.0f} days ago"
