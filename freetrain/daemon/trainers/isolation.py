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
    """Problem of one trainer, as a sentence for its owner."""

    what: str


def isolated(work: Callable[[], Result]) -> Result | Fault:
    """Result of work that concerns one trainer only, or the fault that it ended with.

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
    """Text for the owner, bounded and on one line: it may quote what a user wrote."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_LETTERS])
