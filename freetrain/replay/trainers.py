"""Where a replay's trainers come from: a file or a preset."""

from __future__ import annotations

import gzip
import json
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from freetrain.core.problem import first_error
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.errors import InputError
from freetrain.replay.presets import PRESETS
from freetrain.replay.task_shapes import read_task, with_own_tasks

PRESET_PREFIX = "preset:"

UNNAMED = ""
"""In a trainer's choices the kind of all nodes whose kinds it does not name."""


@dataclass(frozen=True, slots=True)
class _TrainersFile:
    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal["freetrain-trainers/1"]
    trainers: Annotated[tuple[Trainer, ...], Field(min_length=1)]


_FILE = TypeAdapter(_TrainersFile)


def find_trainers(source: str) -> Iterable[Trainer]:
    """Trainers in order of submission, from ``preset:NAME`` or a ``freetrain-trainers/1`` file (JSON or TOML).

    Raises:
        InputError: there is no such preset, or the file does not say what trainers there are.
    """
    if source.startswith(PRESET_PREFIX):
        name = source.removeprefix(PRESET_PREFIX)
        if name not in PRESETS:
            known = ", ".join(f"{PRESET_PREFIX}{known} ({PRESETS[known].means})" for known in PRESETS)
            raise InputError(f"There is no preset {name!r}.", f"Choose one of {known}, or name a file.")
        return PRESETS[name]
    return read_trainers(Path(source))


def with_other_kinds(trainer: Trainer, kinds: Iterable[str]) -> Trainer:
    """The trainer, its choice of nodes of no named kind one of each kind that it does not name, too.

    Args:
        trainer: which.
        kinds: that there are.
    """
    named = {kind for choice in trainer.choices or () for kind in choice.kinds}
    unnamed = [choice for choice in trainer.choices or () if UNNAMED in choice.kinds]
    others = sorted(set(kinds) - named)
    if not unnamed or not others:
        return trainer
    more = (KindChoice((kind,), unnamed[0].speed) for kind in others)
    return replace(trainer, choices=(*(trainer.choices or ()), *more))


def read_trainers(path: Path) -> tuple[Trainer, ...]:
    """Trainers of a file, in order of submission; those of one instant in the file's order."""
    try:
        file = _FILE.validate_python(_parse(path, _read(path)))
    except ValidationError as error:
        raise InputError(
            f"{path} does not describe trainers: {first_error(error)}.",
            "docs/formats.md shows the format freetrain-trainers/1.",
        ) from error
    _check_tasks(path, file.trainers)
    moldable = next((trainer.id for trainer in file.trainers if trainer.moldable), None)
    if moldable is not None:
        raise InputError(
            f"{path}: trainer {moldable} is moldable, and a replay does not know how such tasks end.",
            "Leave moldable out of it; 'freetrain solve' and the daemon know it.",
        )
    for trainer_id, times in Counter(trainer.id for trainer in file.trainers).items():
        if times > 1:
            raise InputError(f"{path} describes {times} trainers with the id {trainer_id!r}; ids must be unique.")
    return tuple(sorted(file.trainers, key=_submitted_s))


def _check_tasks(path: Path, trainers: Iterable[Trainer]) -> None:
    for trainer in with_own_tasks(tuple(trainers)):
        try:
            read_task(trainer.task)
        except ValueError as error:
            raise InputError(f"{path}: trainer {trainer.id}: task {trainer.task!r}: {error}.") from error


def _submitted_s(trainer: Trainer) -> float:
    return -inf if trainer.submitted_s is None else trainer.submitted_s


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        hint = f"Trainers come from a file or a preset: {', '.join(PRESET_PREFIX + name for name in PRESETS)}."
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"The trainers in {path} cannot be read: {said}.", hint) from error


def _parse(path: Path, content: bytes) -> Any:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(content.decode())
        return json.loads(content)
    except ValueError as error:
        raise InputError(f"{path} does not describe trainers: {error}.") from error
