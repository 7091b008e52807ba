from __future__ import annotations

import polars as pl

from freetrain.replay.logs.parsed import numbered, of_distinct, places_among, texts_and_numbers


def test_what_texts_mean_stands_beside_each_of_them() -> None:
    texts = pl.Series("nodes", ["2", "", "2", "17", "x", ""])
    number = pl.col("nodes").cast(pl.Int64, strict=False)
    count, length = of_distinct(texts, number.alias("count"), pl.col("nodes").str.len_chars().alias("length"))
    assert (count.name, count.to_list()) == ("count", [2, None, 2, 17, None, None])
    assert (length.name, length.to_list()) == ("length", [1, 0, 1, 2, 1, 0])


def test_a_column_without_rows_has_no_meanings() -> None:
    (length,) = of_distinct(pl.Series("a", [], dtype=pl.String), pl.col("a").str.len_chars())
    assert length.to_list() == []


def test_places_are_those_among_the_texts_that_differ() -> None:
    distinct = pl.Series(["", "a", "b"])
    assert places_among(distinct, pl.Series(["b", "", "a", "b"])).to_list() == [2, 0, 1, 2]


def test_a_numbered_column_has_its_texts_in_order() -> None:
    texts, numbers = texts_and_numbers(numbered(pl.Series(["gpu", "", "batch", "gpu"])))
    assert (texts, numbers.tolist()) == (["", "batch", "gpu"], [2, 0, 1, 2])
