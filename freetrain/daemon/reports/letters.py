"""The texts that the site's commands are given: templates, which a site may replace by its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from freetrain.daemon.reports.news import Kind
from freetrain.showing.words import printable

FOR_ADMINS, FOR_OWNERS = "for_admins.j2", "for_owners.j2"

_LONGEST_VALUE = 500
_LONGEST_TEMPLATE = 65_536


@dataclass(frozen=True, slots=True)
class Letter:
    """What a template can name.

    Attributes:
        kind: what it is about.
        lines: sentences without their ends.
        left_out: how many more there would be.
        owner: whom it is for; empty: the site's admins.
        host: of the daemon.
        partition: in which fragments run.
    """

    kind: Kind
    lines: Sequence[str]
    left_out: int
    owner: str
    host: str
    partition: str


class TemplateProblem(Exception):  # noqa: N818 (it is told, and is no failure)
    """A template of the site's cannot be used; the sentence says why."""


def written(letter: Letter, directory: str = "") -> str:
    """The text of a letter.

    Whatever a template inserts is one line of printable characters: part of it is what users wrote, and none of it
    can begin another line of a mail's header.

    Args:
        letter: what it says.
        directory: with the site's own templates; empty, or without the one that is needed: freetrain's.

    Raises:
        TemplateProblem: the site's own cannot be used.
    """
    name = FOR_OWNERS if letter.kind.is_for_owners else FOR_ADMINS
    own = Path(directory) / name
    if not directory:
        return _filled(_shipped(name), letter)
    try:
        if not own.exists():
            return _filled(_shipped(name), letter)
        with own.open(encoding="utf-8") as file:
            return _filled(file.read(_LONGEST_TEMPLATE), letter)
    except Exception as error:  # a template may raise anything
        raise TemplateProblem(f"{own} cannot be used: {type(error).__name__}: {error}") from error


def _shipped(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _filled(template: str, letter: Letter) -> str:
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False, finalize=_one_line,
    )  # fmt: skip
    return environment.from_string(template).render({**asdict(letter), "kind": str(letter.kind)})


def _one_line(value: object) -> str:
    return printable(str(value))[:_LONGEST_VALUE]
