"""Output of commands: tables for people, fields for scripts, JSON for programs."""

from __future__ import annotations

import csv
import difflib
import json
import math
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from freetrain.cli.options import option
from freetrain.errors import InputError, StateError
from freetrain.showing.words import printable

if TYPE_CHECKING:
    from freetrain.daemon.reports.standing import Standing


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
        # Rich would take seconds for ten thousand rows
        clean = [list(map(printable, row)) for row in ([columns, *rows] if header else rows)]
        widths = [max(map(len, cells)) for cells in zip(*clean, strict=True)]
        pads = [str.rjust if column in right else str.ljust for column in columns]
        lines = (
            "  ".join(pad(cell, width) for cell, width, pad in zip(row, widths, pads, strict=True)).rstrip()
            for row in clean
        )
        click.echo("\n".join(lines))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=header)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    _console().print(table)


def print_figures(rows: Iterable[Sequence[str]]) -> None:
    """Print figures: of each its name, its value and its meaning."""
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


LISTING = {"help_option_names": ["--help"]}
"""Settings of a listing's command: its ``-h`` leaves out the header, as those of Slurm's commands do."""


def _read_no_color(context: click.Context, _option: click.Parameter, given: bool) -> bool:
    if given:
        context.color = False
    return given


def _read_columns(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip().upper() for name in (text or "").split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class Shape:
    """Format of a listing, by its options; no columns: all."""

    as_json: bool = option("--json", "Print JSON.")
    parsable: bool = option("-P --parsable", "Separate fields by |, for scripts.")
    as_csv: bool = option("--csv", "Separate fields by commas.")
    columns: tuple[str, ...] = option(
        "-o --format", "Only these fields.", metavar="COLUMN,…", multiple=False, callback=_read_columns
    )
    noheader: bool = option("-h --noheader", "Leave out the header.")
    no_color: bool = option(
        "--no-color", "No colors and no bold text, as with the variable NO_COLOR.", callback=_read_no_color
    )

    @property
    def is_for_scripts(self) -> bool:
        """Whether somebody reads the fields by their places."""
        return self.parsable or self.as_csv or self.noheader

    def begin(self, standing: Standing) -> None:
        """Print the state of the daemon, before anything is asked that may fail; beside what scripts read."""
        for line in [] if self.as_json else standing.lines():
            click.echo(line, err=self.is_for_scripts)

    def print(
        self,
        document: Mapping[str, Any],
        columns: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: Sequence[str] = (),
        otherwise: str = "",
    ) -> None:
        """Print the document for programs, or the rows; ``otherwise`` is for people where there are none.

        Raises:
            InputError: there is no such column.
        """
        chosen = self._chosen(columns)
        if self.as_json:
            print_json(document)
            return
        cells = [[row[number] for number in chosen] for row in rows]
        names = [columns[number] for number in chosen]
        if self.as_csv:
            lines = ([] if self.noheader else [names]) + cells
            csv.writer(sys.stdout, lineterminator="\n").writerows(map(printable, fields) for fields in lines)
        elif self.parsable:
            for fields in ([] if self.noheader else [names]) + cells:
                click.echo("|".join(printable(field).replace("|", "/") for field in fields))
        elif cells:
            print_table(names, cells, right, not self.noheader)
        elif otherwise and not self.is_for_scripts:
            click.echo(otherwise)

    def _chosen(self, columns: Sequence[str]) -> list[int]:
        wanted = self.columns or tuple(columns)
        for name in wanted:
            if name not in columns:
                near = difflib.get_close_matches(name, columns, 1)
                hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(columns)}."
                raise InputError(f"--format: there is no column {name}.", hint)
        return [columns.index(name) for name in wanted]
