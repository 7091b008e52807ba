"""A sweep as its file tells it: which replays there are."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from freetrain import __version__
from freetrain.core.problem import first_error
from freetrain.errors import InputError

Value = bool | int | float | str | list[int | float | str]
_Options = dict[str, Value]
_HINT = "docs/sweeps.md shows a whole one."

FILES = frozenset({"machine", "node-states", "reservations", "prices"})
"""Options that name a file."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay of a sweep.

    Attributes:
        number: its place in the sweep, from 0.
        labels: what it has of everything that is varied, such as ``{"log": "june", "policy": "greedy"}``.
        arguments: those of ``freetrain replay``.
        key: a digest of all that its outcome depends on, the contents of files included.
    """

    number: int
    labels: Mapping[str, str]
    arguments: tuple[str, ...]
    key: str

    @property
    def name(self) -> str:
        """Its labels in one line."""
        return ", ".join(self.labels.values())


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep.

    Attributes:
        name: by which the store knows it.
        cells: its replays.
    """

    name: str
    cells: tuple[Cell, ...]


class _Log(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    files: str | Annotated[list[str], Field(min_length=1)]

    @property
    def names(self) -> tuple[str, ...]:
        """Its files."""
        return (self.files,) if isinstance(self.files, str) else tuple(self.files)


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["freetrain-sweep/1"]
    name: Annotated[str, Field(min_length=1)] | None = None
    options: _Options = {}
    logs: Annotated[dict[str, _Log], Field(min_length=1)]
    vary: dict[str, list[int | float | str] | dict[str, _Options]] = {}


@dataclass(frozen=True, slots=True)
class _Choice:
    """One value of something that is varied: its label, and the options and files that it means."""

    axis: str
    label: str
    options: Mapping[str, Any]
    files: tuple[str, ...] = field(default=())


class _Files:
    """The files that a sweep names.

    Args:
        folders: where they are looked for, in this order.
    """

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._digests: dict[Path, str] = {}

    def find(self, name: str) -> Path:
        """The file of this name."""
        for folder in self._folders:
            if (found := folder / name).is_file():
                return found.resolve()
        where = " nor in ".join(str(folder.resolve()) for folder in self._folders)
        missing = "not" if len(self._folders) == 1 else "neither"
        raise InputError(
            f"The sweep names {name}, which is {missing} in {where}.", "--data says where its files are."
        )

    def digest(self, path: Path) -> str:
        """A digest of its content."""
        if path not in self._digests:
            with path.open("rb") as file:
                self._digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._digests[path]


def read_sweep(path: Path, data: Path | None = None) -> Sweep:
    """Read a sweep's file.

    Args:
        path: a TOML file.
        data: where files are looked for that it names, before its own folder.

    Raises:
        InputError: it cannot be read, describes no sweep, or names a file that is not there.
    """
    spec = _parsed(path)
    files = _Files(tuple(folder for folder in (data, path.parent) if folder is not None))
    cells = tuple(
        _cell(number, spec.options, choices, files) for number, choices in enumerate(product(*_axes(spec)))
    )
    return Sweep(spec.name or path.stem, cells)


def _parsed(path: Path) -> _Spec:
    try:
        return _Spec.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"The sweep {path} cannot be read: {error.strerror}.", _HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The sweep {path} is not TOML: {error}.", _HINT) from None
    except ValidationError as error:
        raise InputError(f"{path} describes no sweep: {first_error(error)}.", _HINT) from None


def _axes(spec: _Spec) -> Iterator[list[_Choice]]:
    """Everything that is varied, each with its values; logs come first."""
    yield [_Choice("log", name, log.model_extra or {}, log.names) for name, log in spec.logs.items()]
    for axis, values in spec.vary.items():
        if isinstance(values, list):
            yield [_Choice(axis, _text(value), {axis: value}) for value in values]
        else:
            yield [_Choice(axis, label, options) for label, options in values.items()]


def _cell(number: int, common: _Options, choices: tuple[_Choice, ...], files: _Files) -> Cell:
    options = dict(common)
    for choice in choices:
        options.update(choice.options)
    labels = {choice.axis: choice.label for choice in choices}
    logs = [files.find(name) for choice in choices for name in choice.files]
    arguments, contents = [str(log) for log in logs], [files.digest(log) for log in logs]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            text = _text(each)
            file = files.find(named) if (named := _file_in(name, text)) else None
            arguments += _argument(name, each, text if file is None else f"{text.removesuffix(named)}{file}")
            contents += [name, text if file is None else files.digest(file)]
    what = json.dumps([__version__, labels, contents]).encode()
    return Cell(number, labels, tuple(arguments), hashlib.sha256(what).hexdigest()[:16])


def _argument(name: str, value: object, given: str) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    return [f"--{name}", given]


def _file_in(name: str, text: str) -> str:
    """The file that an option's value names; empty for none."""
    if name in FILES or (name == "trainers" and not text.startswith("preset:")):
        return text
    return text.partition("=")[2] if name == "as" else ""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)
