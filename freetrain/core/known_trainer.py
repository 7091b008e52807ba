"""The daemon's record of a trainer: what its owner wants, and how it has been getting on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from freetrain.core.observed import NOTHING_SEEN, SeenCosts
from freetrain.core.throughput import Observation

PAUSE_NOTE = "paused after"
"""Begin of the note of a paused trainer."""

UNKNOWN_END = "its end cannot be told: freetrain reads no progress of it, so its other tasks go on"
"""The note of a trainer of which tasks have completed, and that shows no sign of the runtime."""


class TrainerState(StrEnum):
    """State of a trainer in the daemon."""

    ACTIVE = "active"
    """It competes for nodes."""
    RESTING = "resting"
    """Its fragments failed; it competes again after a while."""
    PAUSED = "paused"
    """Its fragments failed too often; its owner must look."""
    REFUSED = "refused"
    """Its tag is invalid."""
    COMPLETE = "complete"
    """It is done; what is left of it is cancelled."""


@dataclass(frozen=True, slots=True)
class Misread:
    """Lines of a trainer's progress that were not believed.

    Attributes:
        lines: how many.
        at_byte: where the first of them begins.
        why: the end of a sentence that begins with *because*.
    """

    lines: int = 0
    at_byte: int = 0
    why: str = ""

    def and_then(self, later: Misread) -> Misread:
        """These, and those that were read after them."""
        return replace(self, lines=self.lines + later.lines) if self.lines else later

    def __str__(self) -> str:
        """A sentence for the trainer's owner; empty: all was understood."""
        if self.lines <= 1:
            message = f"a line of its progress was not understood: at byte {self.at_byte}, because {self.why}"
            return message if self.lines else ""
        return (
            f"{self.lines} lines of its progress were not understood: "
            f"the first, at byte {self.at_byte}, because {self.why}"
        )


NOTHING_MISREAD = Misread()


@dataclass(frozen=True, slots=True)
class KnownTrainer:
    """An array job with a tag.

    Attributes:
        id: of the array job.
        owner: who submitted it.
        tag: its comment.
        state: what is done with it.
        note: a sentence for its owner.
        first_seen_s: when freetrain met it.
        failures_in_a_row: fragments that failed since one last did not.
        rests_until_s: not before then it competes again.
        samples_done: as its progress says.
        progress_bytes: how far its progress has been read.
        observations: what it was seen to do.
        costs: what changes of its size were seen to cost it.
        misread: lines of its progress that were not believed since the daemon began.
        fault: what is wrong with its files, its curve or its submission, for its owner; empty: nothing.
        account: what it is charged to; empty: Slurm did not say.
    """

    id: str
    owner: str
    tag: str
    state: TrainerState
    first_seen_s: float
    note: str = ""
    failures_in_a_row: int = 0
    rests_until_s: float = 0.0
    samples_done: float = 0.0
    progress_bytes: int = 0
    observations: tuple[Observation, ...] = ()
    costs: SeenCosts = NOTHING_SEEN
    misread: Misread = NOTHING_MISREAD
    fault: str = ""
    account: str = ""
