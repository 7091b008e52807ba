"""What the commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from freetrain.errors import StateError
from freetrain.showing.words import printable


def command_line() -> str:
    """The command as the user could type it again."""
    return shlex.join(["freetrain", *sys.argv[1:]])


def require_place(path: Path, hint: str) -> None:
    """Refuse a place for a page that cannot be one, before the work of hours is done for it."""
    if path.is_dir():
        raise StateError(f"No report can be written to {path}: it is a directory.", hint)
    if not os.access(path.parent, os.W_OK):
        raise StateError(
            f"No report can be written to {path}: {path.parent.resolve()} is no directory that you may write to.",
            hint,
        )


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document; numbers that JSON does not know (inf, nan) become null."""
    click.echo(json.dumps(_finite(document), indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), header: bool = True
) -> None:
    """Print a table; ``right`` names the columns that are aligned to the right.

    It is fitted to a terminal's width, but never cut where it goes into a file or a pipe.
    """
    if not sys.stdout.isatty():
        lines = [columns, *rows] if header else list(rows)
        click.echo("\n".join(_plain_lines(lines, [column in right for column in columns])))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=header)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    _console().print(table)


def print_figures(rows: Iterable[Sequence[str]]) -> None:
    """Print figures: of each its name, its value and what it means."""
    print_table(("figure", "value", "meaning"), rows, right=("value",), header=False)


def print_heading(text: str) -> None:
    """Print a line that leads a section."""
    console = _console()
    console.print()
    console.print(text, style="bold")


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The values of nested mappings with dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _plain_lines(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """The rows in aligned columns; rich would take seconds for ten thousand of them."""
    clean = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*clean, strict=True)]
    for row in clean:
        cells = zip(row, widths, right, strict=True)
        yield "  ".join(cell.rjust(width) if flush else cell.ljust(width) for cell, width, flush in cells).rstrip()


def _console() -> Console:
    context = click.get_current_context(silent=True)
    unwanted = os.environ.get("NO_COLOR") or (context is not None and context.color is False)
    styled = sys.stdout.isatty() and not unwanted
    return Console(
        file=sys.stdout,
        color_system="auto" if styled else None,
        force_terminal=None if styled else False,
        # Names and commands are no markup, whatever brackets and colons they contain.
        markup=False,
        emoji=False,
        highlight=False,
    )


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
