"""Jobs of which the log says that they still run, though they ended long ago."""

from __future__ import annotations

from tests.replay.logs.build import HEADER, Write, holes_of, read, row, sacct

LOST = {"state": "RUNNING", "start": "2022-02-02T00:00:00", "submit": "2022-02-02T00:00:00", "end": "Unknown"}


def test_a_node_that_others_had_since_is_free_between_them(write: Write) -> None:
    log = read(write(sacct(row("9", **LOST), row("1", start="01", end="02"), row("2", start="05", end="06"))))
    assert holes_of(log, "c1") == [(2, 5), (6, 24)]
    assert any("others ran since" in note and "runawayjobs" in note for note in log.notes)


def test_a_job_whose_limit_passed_long_ago_ended_then(write: Write) -> None:
    header = HEADER.replace("JobName", "Timelimit")
    log = read(write(sacct(row("9", name="1-00:00:00", **LOST), row("1", list="c2"), header=header)), nodes=2)
    assert log.rows.ignored == {"outside the window": 1}
    assert any("past their time limits" in note for note in log.notes)


def test_a_job_within_its_limit_runs_on(write: Write) -> None:
    header = HEADER.replace("JobName", "Timelimit")
    log = read(write(sacct(row("9", name="20:00:00", state="RUNNING", end="Unknown"), header=header)))
    assert holes_of(log, "c1") == [(0, 1)]


def test_where_jobs_share_nodes_it_is_only_named(write: Write) -> None:
    shared = [row("1", start="01", end="04"), row("2", start="02", end="05")]
    log = read(write(sacct(row("9", **LOST), *shared)))
    assert holes_of(log, "c1") == []
    assert any("others have run on their nodes for a week" in note for note in log.notes)


def test_two_jobs_that_run_at_the_end_say_nothing_about_each_other(write: Write) -> None:
    running = [row(str(n), start=f"0{n}", state="RUNNING", end="Unknown") for n in (1, 2)]
    log = read(write(sacct(*running)))
    assert holes_of(log, "c1") == [(0, 1)]
    assert not any("runawayjobs" in note for note in log.notes)


def test_a_job_that_runs_for_less_than_a_week_is_believed(write: Write) -> None:
    recent = {"state": "RUNNING", "submit": "2024-05-30", "start": "2024-05-30T00:00:00", "end": "Unknown"}
    log = read(write(sacct(row("9", **recent), row("1", start="01", end="02"))))
    assert holes_of(log, "c1") == []


def test_a_job_with_a_limit_is_believed_until_then(write: Write) -> None:
    header = HEADER.replace("JobName", "TimelimitRaw")
    log = read(write(sacct(row("9", name="9999999", **LOST), row("1", name="60", list="c1"), header=header)))
    assert holes_of(log, "c1") == []


def test_a_job_beside_which_another_began_ended_when_the_next_did(write: Write) -> None:
    lost = {**LOST, "start": "2024-05-20T00:00:00", "submit": "2024-05-20T00:00:00"}
    other = {"submit": "2024-05-20", "start": "2024-05-20T00:00:00", "end": "2024-05-20T00:00:30"}
    log = read(write(sacct(row("9", **lost), row("8", **other), row("1", start="05", end="06"))))
    assert holes_of(log, "c1") == [(6, 24)]
