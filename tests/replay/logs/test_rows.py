"""Delimited text as rows, and the mending of rows that free text broke."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.errors import InputError
from freetrain.replay.logs import rows
from freetrain.replay.logs.rows import split_lines
from tests.replay.logs.build import HEADER, Write, holes_of, read, row, sacct


@given(st.text("a|\n", max_size=60), st.integers(1, 9))
def test_lines_are_those_of_the_text_wherever_it_is_cut_to_be_looked_through(text: str, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_BYTES_AT_ONCE", at_once)
        lines = split_lines(text.encode(), "|")
    expected = text.removesuffix("\n").split("\n") if text else []
    assert [lines.text(number) for number in range(len(lines))] == expected
    assert lines.separators.tolist() == [line.count("|") for line in expected]


WITH_COMMENT = f"{HEADER}|Comment"


@pytest.mark.parametrize("name", ["a|b", "a|b|c", "|", "x | y | z"])
def test_pipes_in_a_name_belong_to_the_name(write: Write, name: str) -> None:
    log = read(write(sacct(row("1", start="03", end="04"), row("2", name=name, start="05", end="06"))))
    assert holes_of(log, "c1") == [(0, 3), (4, 5), (6, 24)]


def test_pipes_in_two_columns_are_shared_out(write: Write) -> None:
    log = read(write(sacct(row(name="a|b", start="05", end="06") + "|say c|d", header=WITH_COMMENT)))
    assert holes_of(log, "c1") == [(0, 5), (6, 24)]


def test_pipes_in_three_columns_are_shared_out(write: Write) -> None:
    fields = row(name="a|b", start="05", end="06").split("|")
    header = "|".join(("AdminComment", WITH_COMMENT.replace("NNodes", "SubmitLine|NNodes")))
    text = "|".join(("x|y", *fields[:8], "env | grep A | sed s/a/b/", *fields[8:], "say|c"))
    assert holes_of(read(write(sacct(text, header=header))), "c1") == [(0, 5), (6, 24)]


def test_a_newline_in_a_name_goes_on_in_the_next_line(write: Write) -> None:
    log = read(write(sacct(row("1", name="one\ntwo\n\nthree"), row("2", start="05", end="06"))))
    assert (log.rows.read, log.rows.used) == (2, 2)


def test_a_newline_and_a_pipe_in_one_name_are_mended_together(write: Write) -> None:
    log = read(write(sacct(row("1", name="one | two\nthree"), row("2"))))
    assert (log.rows.read, log.rows.used) == (2, 2)


def test_text_below_a_last_free_column_is_no_row(write: Write) -> None:
    log = read(write(sacct(row("1") + "|begins\ngoes on\nends", row("2") + "|", header=WITH_COMMENT)))
    assert (log.rows.read, log.rows.used) == (2, 2)


def test_a_sound_line_is_never_swallowed(write: Write) -> None:
    log = read(write(sacct("1|cut", row("2"), "3|cut", row("4"))))
    assert (log.rows.used, log.rows.rejected) == (2, 2)
    assert [reject.line for reject in log.rows.first_rejects] == [2, 4]
    assert log.rows.first_rejects[0].reason == "has 2 fields where the header has 10"


def test_two_cut_rows_make_no_sound_one(write: Write) -> None:
    whole = row("2").split("|")
    log = read(write(sacct(row("1"), "|".join(whole[:4]), "|".join(whole[3:]), row("3"))))
    assert (log.rows.used, log.rows.rejected) == (2, 2)


def test_surplus_that_fits_nowhere_is_rejected(write: Write) -> None:
    log = read(write(sacct(row("1"), row("2", state="COM|PLETED|3"))))
    assert log.rows.first_rejects[0].reason == "has 12 fields where the header has 10"


def test_line_numbers_are_those_of_the_file(write: Write) -> None:
    log = read(write("\n\n" + sacct(row("1", name="a\nb"), "", row("2", nodes="x"))))
    assert [reject.line for reject in log.rows.first_rejects] == [7]


def test_a_long_run_of_broken_lines_takes_no_time(write: Write) -> None:
    with pytest.raises(InputError, match="50,000 rows cannot be used, 100 %"):
        read(write(sacct(row("1"), *["x"] * 50_000)))


def test_a_broken_row_with_thousands_of_digits_takes_no_time(write: Write) -> None:
    begin_s = time.process_time()
    rows = [row(str(number), name="a|b", nodes="9" * 5000 + "x", list="c1") for number in range(20)]
    log = read(write(sacct(*[row(str(number)) for number in range(20)], *rows)))
    assert log.rows.rejected == 20
    assert time.process_time() - begin_s < 2
