"""What columns of text mean, worked out once for each text that differs: states, limits and node lists repeat."""

from __future__ import annotations

import polars as pl


def of_distinct(text: pl.Series, *meanings: pl.Expr) -> list[pl.Series]:
    """Columns that follow from one column of text without gaps.

    Args:
        text: the column.
        meanings: what follows, as expressions of a column of that name.
    """
    distinct = text.unique()
    return gathered_by(text, distinct, distinct.to_frame().select(meanings))


def gathered_by(text: pl.Series, distinct: pl.Series, table: pl.DataFrame) -> list[pl.Series]:
    """The columns of a table that has a row for each text that differs, as columns beside all texts."""
    place = places_among(distinct, text)
    return [column.gather(place) for column in table.get_columns()]


def places_among(distinct: pl.Series, text: pl.Series) -> pl.Series:
    """The place of each text among those that differ: a tenth of the time of ``replace_strict`` or of a rank."""
    return text.cast(pl.Enum(distinct)).to_physical()
