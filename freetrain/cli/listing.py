"""What all listings have in common: a table for people, fields for scripts, JSON for programs."""

from __future__ import annotations

import csv
import difflib
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from freetrain.cli.options import options
from freetrain.cli.output import print_json, print_table
from freetrain.daemon.reports.standing import Standing
from freetrain.errors import InputError
from freetrain.showing.words import printable

LISTING = {"help_option_names": ["--help"]}
"""Settings of a listing's command: its ``-h`` leaves out the header, as those of Slurm's commands do."""

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a listing is to be printed.

    Attributes:
        as_json: as a document, with everything.
        parsable: fields separated by ``|``, never padded.
        as_csv: fields separated by commas, those with a comma in quotes.
        columns: which, in this order; none: all.
        header: whether their names come first.
    """

    as_json: bool
    parsable: bool
    as_csv: bool
    columns: tuple[str, ...]
    header: bool

    @property
    def is_for_scripts(self) -> bool:
        """Whether somebody reads the fields by their places."""
        return self.parsable or self.as_csv or not self.header

    def begin(self, standing: Standing) -> None:
        """Say how the daemon stands, before anything is asked that may fail; beside what scripts read."""
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
        """Print it.

        Args:
            document: for programs; ``format`` says its name and version.
            columns: names of the fields.
            rows: the fields of each.
            right: columns that are aligned to the right.
            otherwise: a sentence where there are no rows, for people.

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
            lines = ([names] if self.header else []) + cells
            csv.writer(sys.stdout, lineterminator="\n").writerows(map(printable, fields) for fields in lines)
        elif self.parsable:
            for fields in ([names] if self.header else []) + cells:
                click.echo("|".join(printable(field).replace("|", "/") for field in fields))
        elif cells:
            print_table(names, cells, right, self.header)
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


def _shape_options(command: Command) -> Command:
    return options(
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("-P", "--parsable", is_flag=True, help="Separate fields by |, for scripts."),
        click.option("--csv", "as_csv", is_flag=True, help="Separate fields by commas."),
        click.option("-o", "--format", "columns", metavar="COLUMN,…", help="Only these fields."),
        click.option("-h", "--noheader", is_flag=True, help="Leave out the header."),
        click.option(
            "--no-color",
            is_flag=True,
            expose_value=False,
            callback=_read_no_color,
            help="No colors and no bold text, as with the variable NO_COLOR.",
        ),
    )(command)


def _read_no_color(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        context.color = False


def listing_options(command: Command) -> Command:
    """The options of a listing, which the command gets as one argument, ``shape``."""

    @functools.wraps(command)
    def shaped(
        *, as_json: bool, parsable: bool, as_csv: bool, columns: str | None, noheader: bool, **given: Any
    ) -> Any:
        names = tuple(name.strip().upper() for name in (columns or "").split(",") if name.strip())
        return command(shape=Shape(as_json, parsable, as_csv, names, not noheader), **given)

    return _shape_options(shaped)
