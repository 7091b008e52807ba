"""Checking rows: which are used, which are ignored and which are bad, all at once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from freetrain.replay.logs.tally import RowTally

Reasons = Sequence[tuple[pl.Expr, str | pl.Expr]]


def check_rows(rows: pl.DataFrame, ignored: Reasons, bad: Reasons) -> pl.DataFrame:
    """Add the columns ``ignored`` and ``bad``: the first reason whose condition holds for a row, or null.

    A row that is ignored is not looked at further: its ``bad`` is null.
    """
    rows = rows.with_columns(_first_reason(ignored).alias("ignored"))
    is_bad = pl.any_horizontal(when.fill_null(False) for when, _ in bad)
    suspects = rows.select(pl.col("ignored").is_null() & is_bad).to_series().arg_true()
    # Sentences are made for the few rows that need them: for all of them they would cost more than all else.
    said = rows[suspects].select(_first_reason(bad)).to_series()
    none = pl.Series("bad", [None], pl.String).new_from_index(0, len(rows))
    return rows.with_columns(none.scatter(suspects, said) if len(suspects) else none)


def sound_rows(rows: pl.DataFrame, tally: RowTally) -> pl.DataFrame:
    """Count the ignored and the bad rows and give back the others."""
    for reason, count in rows["ignored"].drop_nulls().value_counts().iter_rows():
        tally.ignore(reason, count)
    tally.reject(rows.filter(pl.col("bad").is_not_null()).select("file", "line", "bad").iter_rows())
    return rows.filter(pl.col("ignored").is_null() & pl.col("bad").is_null()).drop("ignored", "bad")


def _first_reason(reasons: Reasons) -> pl.Expr:
    said = [(when, pl.lit(why) if isinstance(why, str) else why) for when, why in reasons]
    return pl.coalesce(*(pl.when(when.fill_null(False)).then(why) for when, why in said), pl.lit(None, pl.String))
