"""Isolation: what concerns one trainer alone may go wrong for that trainer alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from freetrain.errors import FreetrainError
from freetrain.slurm.errors import SlurmError

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_MOST_LETTERS = 300


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with a trainer, a sentence for its owner."""

    what: str


def isolated(work: Callable[[], Result]) -> Result | Fault:
    """What comes of something that concerns one trainer only, or what went wrong.

    What users may write is judged where it is read. This is for what nobody thought of: a site's own objective,
    and defects of freetrain.

    Raises:
        SlurmError: Slurm was asked, and did not answer: that concerns all.
    """
    try:
        return work()
    except SlurmError:
        raise
    except FreetrainError as error:
        return Fault(_shown(error.what))
    except Exception as error:
        log.debug("a trainer was left out", exc_info=True)
        return Fault(f"freetrain cannot deal with it, which is a defect ({_shown(repr(error))})")


def _shown(text: str) -> str:
    """Bounded, on one line: it may quote what a user wrote."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_LETTERS])


class Faults:
    """Says what is wrong with trainers, each thing once."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def say(self, trainer: str, owner: str, kind: str, what: str) -> None:
        """Log it, unless something of this kind was logged of the trainer."""
        if what and (trainer, kind) not in self._logged:
            self._logged.add((trainer, kind))
            log.warning("trainer %s of %s: %s", trainer, owner, what)
