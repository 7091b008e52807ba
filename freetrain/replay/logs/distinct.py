"""What columns of text mean, worked out once for each text that differs: states, limits and node lists repeat."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray


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
    if len(distinct) == 1:  # as of a column that the log lacks
        return [column.new_from_index(0, len(text)) for column in table.get_columns()]
    place = places_among(distinct, text)
    return [column.gather(place) for column in table.get_columns()]


def places_among(distinct: pl.Series, text: pl.Series) -> pl.Series:
    """The place of each text among those that differ: a tenth of the time of ``replace_strict`` or of a rank."""
    return text.cast(pl.Enum(distinct)).to_physical()


def numbered(text: pl.Series) -> pl.Series:
    """The same texts, of which each row has only the number; few differ."""
    return text.cast(pl.Enum(text.unique().sort()))


def texts_and_numbers(column: pl.Series) -> tuple[list[str], NDArray[np.unsignedinteger[Any]]]:
    """The texts of a numbered column, and the number of each row's."""
    return cast(pl.Enum, column.dtype).categories.to_list(), column.to_physical().to_numpy()
