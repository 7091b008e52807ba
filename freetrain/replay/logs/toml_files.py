"""TOML files of the user's that say how to read a log: their content, and errors in it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from freetrain.errors import InputError, explained

Entry = TypeVar("Entry", bound=BaseModel)


def read_toml(path: Path, kind: str, hint: str) -> dict[str, Any]:
    """The content of a file.

    Raises:
        InputError: it cannot be read, or is not TOML.
    """
    with explained(f"The {kind} {path} cannot be read", hint):
        content = path.read_bytes()
    with explained(f"The {kind} {path} is not TOML", hint):
        return tomllib.loads(content.decode())


def read_entry(model: type[Entry], path: Path, kind: str, hint: str) -> Entry:
    """The content of a file as a model.

    Raises:
        InputError: it cannot be read, or is not what the model says; the sentence names the fields.
    """
    try:
        return model.model_validate(read_toml(path, kind, hint))
    except ValidationError as error:
        raise InputError(f"The {kind} {path} is wrong: {'; '.join(_wrong_fields(error))}.", hint) from None


def _wrong_fields(error: ValidationError) -> Iterator[str]:
    named: set[str] = set()
    for problem in error.errors():
        # pydantic names the branch of a union last (nodes.int, nodes.str); the field is what the user wrote.
        path = [part for part in problem["loc"] if not (isinstance(part, str) and ("[" in part or part == "str"))]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        if field not in named:
            named.add(field)
            yield f"{field}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
