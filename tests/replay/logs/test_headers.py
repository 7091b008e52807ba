"""Headers of sacct's output, wherever they stand and whatever separates their columns."""

from __future__ import annotations

import pytest

from freetrain.replay.logs.sacct_text import separator_of
from tests.replay.logs.build import HEADER, Write, holes_of, read, row, sacct

BANNER = "Welcome to the cluster.\nMaintenance on Monday | see the wiki\n\n"


@pytest.mark.parametrize("separator", [";", "\t", "^|^", "||", "~", "§"])
def test_the_header_shows_what_separates_the_columns(write: Write, separator: str) -> None:
    log = read(write(sacct(row("1", list="c[1-2]"), row("2", start="05", end="06")).replace("|", separator)))
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (6, 24)]


def test_commas_may_stand_within_node_lists(write: Write) -> None:
    rows = [row("1", list="c[1-2,5]", nodes="3"), row("2", list="c7,d1", start="03", end="04", nodes="2")]
    log = read(write(sacct(*rows).replace("|", ",")))
    assert (log.rows.used, log.holes.node_names) == (2, ("c1", "c2", "c5", "c7", "d1"))


@pytest.mark.parametrize("separator", ["\t", "^|^"])
def test_a_separator_may_stand_at_each_end_of_line(write: Write, separator: str) -> None:
    text = sacct(row("1") + "|", row("2", name="a|b") + "|", header=HEADER + "|")
    assert read(write(text.replace("|", separator))).rows.used == 2


def test_commas_in_node_lists_may_stand_beside_quotes(write: Write) -> None:
    rows = [
        row("1", name='"x, y"', list="c[1-2,5]", nodes="3"),
        row("2", name="z", list="c7", start="03", end="04"),
    ]
    log = read(write(sacct(*rows).replace("|", ",")))
    assert (log.rows.used, log.holes.node_names) == (2, ("c1", "c2", "c5", "c7"))


def test_a_spreadsheet_puts_fields_into_quotes(write: Write) -> None:
    lines = sacct(row("1", name='say ""hi"", now', list="c[1,5]")).splitlines()
    text = "\n".join(",".join(f'"{cell}"' for cell in line.split("|")) for line in lines) + "\n"
    log = read(write(text))
    assert (log.rows.used, log.holes.node_names) == (1, ("c1", "c5"))


def test_the_separator_can_be_said_where_no_header_shows_it(write: Write) -> None:
    columns = tuple(HEADER.split("|"))
    log = read(write(row("1").replace("|", "XX") + "\n"), columns=columns, delimiter="XX")
    assert holes_of(log, "c1") == [(0, 1), (2, 24)]


def test_messages_before_the_header_are_ignored_and_counted(write: Write) -> None:
    log = read(write(BANNER + sacct(row("1"), row("2", start="05", end="x"), row("3"))))
    assert log.rows.ignored == {"before the header": 2}
    assert (log.rows.read, log.rows.used, log.rows.first_rejects[0].line) == (5, 2, 6)


def test_messages_may_stand_before_the_header_of_node_events_too(write: Write) -> None:
    log = read(write("a message\nt,node,idle\n0,a,1\n5,a,0\n9,a,1\n"), from_s=None, until_s=None)
    assert (log.rows.read, log.rows.ignored) == (4, {"before the header": 1})


def test_files_that_were_joined_may_have_other_columns_each(write: Write) -> None:
    other = "NodeList|End|Start|JobIDRaw\nc1|2024-06-03T06:00:00|2024-06-03T05:00:00|7\nc1|never|x|8\n"
    log = read(write(sacct(row("1")) + other + sacct(row("3", start="08", end="09"))))
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (6, 8), (9, 24)]
    assert (log.rows.read, log.rows.used, log.rows.ignored) == (6, 3, {"repeated header": 2})
    assert log.rows.first_rejects[0].line == 5


def test_a_header_that_comes_again_is_known_whatever_separates_its_columns(write: Write) -> None:
    text = sacct(row("1"), HEADER, row("2"), HEADER, row("3"))
    log = read(write(text.replace("|", "^|^")))
    assert (log.rows.used, log.rows.ignored) == (3, {"repeated header": 2})


def test_a_job_named_like_a_column_is_no_header(write: Write) -> None:
    assert read(write(sacct(row("1", name="JobID"), row("2", name="JobID")))).rows.used == 2


@pytest.mark.parametrize("line", ["", "JobID", "1|job|c1", "JobID State Start", "what, ever", "||||"])
def test_other_lines_are_no_headers(line: str) -> None:
    assert separator_of(line) is None


@pytest.mark.parametrize("mark", ["\ufeff", "#", "# "])
def test_a_mark_may_stand_before_a_header_in_the_middle_too(write: Write, mark: str) -> None:
    other = HEADER.replace("Submit|Start", "Start|Submit")
    second = sacct(row("2", submit="05", start="03", end="06"), header=mark + other)
    log = read(write(sacct(row("1")) + second))
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (6, 24)]
    assert log.rows.ignored == {"repeated header": 1}
    assert read(write(mark + sacct(row("1")))).rows.used == 1
