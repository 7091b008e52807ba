"""What all listings have in common: a table for people, fields for scripts, JSON for programs."""

from __future__ import annotations

import csv
import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from freetrain.cli.options import option, takes_options
from freetrain.cli.output import print_json, print_table
from freetrain.daemon.reports.standing import Standing
from freetrain.errors import InputError
from freetrain.showing.words import printable

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
    """How a listing is to be printed, by its options; no columns: all."""

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


listing_options = takes_options(Shape, "shape")
"""The options of a listing, which the command gets as one argument, ``shape``."""
