from __future__ import annotations

import math

import polars as pl
import pytest

from freetrain.errors import InputError
from freetrain.replay.logs import parse_log_time
from freetrain.replay.logs.times import form_hint, parse_times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-06-03", 1717372800),
        ("2024-06-03T01:00:00", 1717376400),
        ("2024-06-03T01:00:00Z", 1717376400),
        ("2024-06-03T03:00:00+02:00", 1717376400),
        ("1717376400", 1717376400),
        ("0", 0),
    ],
)
def test_a_time_can_be_written_in_many_ways(text: str, seconds: float) -> None:
    assert parse_log_time(text) == seconds


def test_a_time_without_offset_is_in_the_given_zone() -> None:
    assert parse_log_time("2024-06-03T02:00:00", "Europe/Berlin") == parse_log_time("2024-06-03T00:00:00")


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2024-13-01", "2024-06-31T00:00:00", "nan", "1e9", "-5", "9" * 20, "9" * 11, "2101-01-01"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        parse_log_time(text)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "/"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InputError, match="no time zone"):
        parse_log_time("2024-06-03", zone)


def test_a_time_that_the_clocks_skip_counts_as_before_they_were_put_forward() -> None:
    skipped = parse_times(pl.Series(["2024-03-31T02:30:00"]), "Europe/Berlin")[0]
    assert skipped == parse_log_time("2024-03-31T02:30:00+01:00")


def test_of_a_time_shown_twice_either_can_be_meant() -> None:
    twice = pl.Series(["2024-10-27T02:30:00"])
    first, second = parse_times(twice, "Europe/Berlin")[0], parse_times(twice, "Europe/Berlin", later=True)[0]
    assert second - first == 3600


def test_many_times_are_read_as_one_by_one() -> None:
    texts = ["2024-06-03T01:00:00", "2024-06-03T03:00:00+0200", "2024-06-03 01:00:00", "1717376400"]
    assert parse_times(pl.Series(texts), "UTC").to_list() == [1717376400.0] * 4


def test_blanks_around_a_time_do_not_matter() -> None:
    texts = [
        " 2024-06-03T01:00:00",
        "2024-06-03T03:00:00+0200 ",
        " 2024-06-03 01:00:00",
        " 1717376400 ",
        " Unknown ",
    ]
    assert parse_times(pl.Series(texts), "UTC").to_list() == [1717376400.0] * 4 + [None]


def test_missing_is_told_from_unreadable() -> None:
    times = parse_times(
        pl.Series(["Unknown", "None", "", "0", "1970-01-01T00:00:00", "soon", "56"]), "UTC"
    ).to_list()
    assert times[:5] == [None] * 5
    assert all(math.isnan(time) for time in times[5:])


@pytest.mark.parametrize("text", ["1970-01-01T01:00:00", "1970-01-01T14:00:00", "1969-12-31T19:00:00"])
def test_a_time_that_was_never_set_is_missing_in_whatever_zone_it_was_printed(text: str) -> None:
    assert parse_times(pl.Series([text]), "UTC").to_list() == [None]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Ystday 09:00", "SLURM_TIME_FORMAT=relative"),
        ("10:45:01", "SLURM_TIME_FORMAT=relative"),
        ("Mon 08:15", "SLURM_TIME_FORMAT=relative"),
        ("13 Jan 11:20", "SLURM_TIME_FORMAT=relative"),
        ("06/03/24 10:00:00", "which number is the day"),
        ("06/03-10:00:00", "which number is the day"),
        ("2024-06-31T00:00:00", ""),
        ("soon", ""),
    ],
)
def test_a_form_that_depends_on_the_reader_has_a_hint_that_fits(text: str, hint: str) -> None:
    assert hint in form_hint(text)
    assert bool(hint) == bool(form_hint(text))
