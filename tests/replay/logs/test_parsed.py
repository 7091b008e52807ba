"""The runs of a log's files, and rows that say the same."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from freetrain.replay.logs import parsed
from freetrain.replay.logs.parsed import (
    RUN_SCHEMA,
    ParsedFile,
    as_runs,
    distinct_texts,
    filtered,
    of_distinct,
    seen,
    take_runs,
    without_repeats,
)


def runs(*jobs: str, start_s: float = 1.0, end_s: float = 2.0) -> pl.DataFrame:
    given = {"job": list(jobs), "start_s": [start_s] * len(jobs), "end_s": [end_s] * len(jobs)}
    missing = [pl.lit(None, kind).alias(name) for name, kind in RUN_SCHEMA.items() if name not in given]
    return as_runs(
        pl.DataFrame(given).with_columns(missing).with_columns(pl.col("partition", "gpu_types").fill_null(""))
    )


def test_runs_are_taken_out_of_their_files() -> None:
    files = [ParsedFile([runs("1", "2"), runs("3")], seen(runs())), ParsedFile([runs("4")], seen(runs()))]
    assert take_runs(files)["job"].to_list() == ["1", "2", "3", "4"]
    assert [file.runs for file in files] == [[], []]


def test_columns_lie_in_one_chunk_each_so_that_nothing_copies_them_to_make_them_alike() -> None:
    assert set(as_runs(pl.concat([runs("1", "2"), runs("3")])).n_chunks("all")) == {1}


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_rows_are_filtered_some_at_a_time(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed, "_ROWS_AT_ONCE", at_once)
    alone = [pl.concat([runs("1", "2"), runs("3", "4", "5")])]
    kept = filtered(alone, np.array([True, False, True, True, False]))
    assert (kept["job"].to_list(), alone) == (["1", "3", "4"], [])
    assert filtered([kept], np.zeros(3, bool)).is_empty()


def test_a_row_that_repeats_another_is_left_out_and_a_job_that_ran_again_is_not() -> None:
    again = runs("1", start_s=5.0, end_s=7.0)
    assert len(without_repeats(pl.concat([runs("1", "2"), again]))) == 3
    ended = without_repeats(pl.concat([runs("1", end_s=float("inf")), runs("1", "2"), again]))
    assert ended["end_s"].to_list() == [2.0, 2.0, 7.0]


def test_what_texts_mean_stands_beside_each_of_them() -> None:
    texts = pl.Series("nodes", ["2", "", "2", "17", "x", ""], dtype=pl.Categorical)
    number = pl.col("nodes").cast(pl.Int64, strict=False)
    count, length = of_distinct(texts, number.alias("count"), pl.col("nodes").str.len_chars().alias("length"))
    assert (count.name, count.to_list()) == ("count", [2, None, 2, 17, None, None])
    assert (length.name, length.to_list()) == ("length", [1, 0, 1, 2, 1, 0])


def test_a_column_without_rows_has_no_meanings() -> None:
    (length,) = of_distinct(pl.Series("a", [], dtype=pl.Categorical), pl.col("a").str.len_chars())
    assert length.to_list() == []


@pytest.mark.parametrize("given", [[], ["a"], ["", "", ""], ["b", "", "a", "b"]])
def test_each_row_has_the_place_of_its_text_among_those_that_differ(given: list[str]) -> None:
    texts, place = distinct_texts(pl.Series(given, dtype=pl.Categorical))
    assert [texts[int(at)] for at in place] == given
    assert len(texts) == len(set(given) or {""})
