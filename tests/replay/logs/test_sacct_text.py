"""Headers of sacct's output, wherever they stand, and the rows below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.errors import InputError
from freetrain.replay.logs import ReadOptions, read_site_log
from freetrain.replay.logs.sacct_text import separator_of
from tests.replay.logs.build import HEADER, Write, holes_of, hour, read, row, sacct

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


def test_a_node_is_idle_around_its_jobs(write: Write) -> None:
    log = read(write(sacct(row("1", start="01", end="02"), row("2", start="05", end="09"))))
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (9, 24)]
    assert (log.format, log.packed, log.jobs) == ("sacct", False, 2)


def test_columns_are_found_by_name_in_any_order_and_case(write: Write) -> None:
    text = (
        "nodelist|EXITCODE|End|AllocNodes|start|JobIDRaw\nc[1-2]|0:0|2024-06-03T02:00:00|2|2024-06-03T01:00:00|7\n"
    )
    assert holes_of(read(write(text)), "c2") == [(0, 1), (2, 24)]


def test_a_headerless_file_is_read_with_columns(write: Write) -> None:
    columns = tuple(HEADER.replace("JobName", "JobName%30").split("|"))
    assert read(write(row() + "\n"), columns=columns).jobs == 1
    assert read(write(row() + "|\n"), columns=columns).jobs == 1


def test_p_leaves_a_pipe_at_each_end_of_line(write: Write) -> None:
    log = read(write(sacct(row("1") + "|", row("2", name="a|b") + "|", header=HEADER + "|")))
    assert log.rows.used == 2


def test_windows_line_ends_a_byte_order_mark_and_bad_utf8_do_no_harm(write: Write) -> None:
    text = b"\xef\xbb\xbf" + sacct(row(name="caf\xe9")).encode("latin-1").replace(b"\n", b"\r\n")
    assert read(write(text)).rows.used == 1


def test_steps_and_jobs_that_never_ran_are_ignored_with_a_reason(write: Write) -> None:
    log = read(
        write(
            sacct(
                row("1"),
                row("1.batch"),
                row("1+0.0"),
                row("2", state="PENDING", start="Unknown", end="Unknown", list="None assigned"),
                row("3", state="CANCELLED by 1000", start="None", end="03", list="None assigned"),
                row("4", state="CANCELLED by 1000", start="03", end="03", list="None assigned", nodes="0"),
                row("5", start="03", end="03"),
            )
        )
    )
    assert log.rows.ignored == {"job step": 2, "never started": 3, "ended when it started": 1}
    assert (log.rows.read, log.rows.used, log.rows.rejected) == (7, 1, 0)


def test_arrays_het_jobs_and_unknown_states_count_like_others(write: Write) -> None:
    log = read(write(sacct(row("7_3"), row("8+1", state="FOO"), row("9_[1-3]", state="CANCELLED by 5"))))
    assert log.rows.used == 3


def test_limits_of_any_kind_are_never_looked_at(write: Write) -> None:
    header = HEADER.replace("JobName", "Timelimit")
    limits = ("UNLIMITED", "Partition_Limit", "1-00:00:00", "")
    log = read(write(sacct(*(row(str(n), name=limit) for n, limit in enumerate(limits)), header=header)))
    assert log.rows.used == 4


@pytest.mark.parametrize(("state", "end"), [("RUNNING", "Unknown"), ("RUNNING", "03"), ("COMPLETED", "Unknown")])
def test_a_job_without_end_is_busy_to_the_end_of_the_window(write: Write, state: str, end: str) -> None:
    log = read(write(sacct(row(state=state, end=end))))
    assert holes_of(log, "c1") == [(0, 1)]
    assert any("without an end" in note for note in log.notes)


@pytest.mark.parametrize("elapsed", ["02:30:00", "9000", "150:00", "0-02:30:00.123"])
def test_elapsed_serves_where_there_is_no_end(write: Write, elapsed: str) -> None:
    log = read(write(sacct(row(end=elapsed), header=HEADER.replace("End", "Elapsed"))))
    assert holes_of(log, "c1") == [(0, 1), (3.5, 24)]


def test_a_running_job_has_no_end_whatever_its_elapsed_time(write: Write) -> None:
    header = HEADER.replace("JobName", "Elapsed")
    log = read(write(sacct(row(name="00:30:00", state="RUNNING", end="Unknown"), header=header)))
    assert holes_of(log, "c1") == [(0, 1)]


def test_each_run_of_a_requeued_job_counts_but_a_repeated_row_does_not(write: Write) -> None:
    log = read(write(sacct(row(start="01", end="02"), row(start="05", end="06"), row(start="05", end="06"))))
    assert holes_of(log, "c1") == [(0, 1), (2, 5), (6, 24)]
    assert log.rows.ignored == {"repeated row": 1}


def test_of_two_dumps_the_one_that_knows_the_end_counts(write: Write) -> None:
    paths = [write(sacct(row(state="RUNNING", end="Unknown"))), write(sacct(row(end="03")))]
    log = read_site_log(paths, ReadOptions(from_s=hour(0), until_s=hour(24)))
    assert holes_of(log, "c1") == [(0, 1), (3, 24)]


def test_a_header_may_come_again(write: Write) -> None:
    assert read(write(sacct(row("1"), HEADER, row("2")))).rows.ignored == {"repeated header": 1}


def test_several_jobs_may_share_a_node(write: Write) -> None:
    log = read(write(sacct(row("1", start="01", end="05"), row("2", start="02", end="03"))))
    assert holes_of(log, "c1") == [(0, 1), (5, 24)]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"start": "2024-06-31T00:00:00"}, "Start '2024-06-31T00:00:00' is not a time"),
        ({"start": "soon", "end": "later"}, "Start 'soon' is not a time"),
        ({"end": "00", "start": "01"}, "is before Start"),
        ({"nodes": "many"}, "node count 'many' is not a number"),
        ({"list": "c[1-"}, "node list 'c[1-' cannot be read"),
        ({"list": "c[1-99999999]"}, "names more than 200,000 nodes"),
        ({"list": ""}, "names no nodes"),
        ({"list": "c1,@all"}, "cannot be read"),
    ],
)
def test_a_bad_row_is_named(write: Write, wrong: dict[str, str], reason: str) -> None:
    path = write(sacct(row("1"), row("2", **wrong)))
    log = read(path)
    reject = log.rows.first_rejects[0]
    assert (log.rows.rejected, reject.file, reject.line) == (1, str(path), 3)
    assert reason in reject.reason
    with pytest.raises(InputError, match="line 3"):
        read(path, strict=True)


def test_only_the_first_twenty_bad_rows_are_kept_but_all_are_written(write: Write, tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.tsv"
    bad, good = ([row(str(n), nodes=nodes) for n in range(2, 102)] for nodes in ("x\ty", "1"))
    log = read(write(sacct(row("1"), *bad, *good)), rejects=rejects)
    assert (log.rows.rejected, len(log.rows.first_rejects)) == (100, 20)
    lines = rejects.read_text().splitlines()
    assert len(lines) == 101
    assert lines[0].split("\t") == ["file", "line", "reason", "text"]
    assert lines[1].split("\t")[1] == "3"
    assert r"x\ty" in lines[1].split("\t")[3]


def test_rejects_are_written_even_where_reading_stops(write: Write, tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.tsv"
    with pytest.raises(InputError):
        read(write(sacct(row(list="?"))), rejects=rejects)
    assert "cannot be read" in rejects.read_text()


def test_an_end_in_the_hour_that_clocks_show_twice_is_after_its_start(write: Write) -> None:
    rows = row(submit="2024-10-27T02:40:00", start="2024-10-27T02:50:00", end="2024-10-27T02:10:00")
    log = read(write(sacct(rows)), timezone="Europe/Berlin", from_s=1729987200.0, until_s=1730073600.0)
    assert log.holes.idle_node_hours == pytest.approx(24 - 20 / 60)
