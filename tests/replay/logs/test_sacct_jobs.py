"""Whose jobs the rows of sacct are, when they ran, and on how many nodes."""

from __future__ import annotations

import time

import polars as pl
import pytest

from freetrain.errors import InputError
from freetrain.replay.logs import ReadOptions, read_site_log, sacct_jobs, source
from tests.replay.logs.build import HEADER, Write, holes_of, hour, read, row, sacct

CLUSTERS = sacct(
    row("1", name="big", start="01", end="02"),
    row("2", name="small", start="05", end="06"),
    row("3.batch", name="small"),
    header=HEADER.replace("JobName", "Cluster"),
)
ACCOUNTS = sacct(
    row("1", name="physics", start="01", end="02"),
    row("2", name="scavenger", start="05", end="06", list="c[1-3]"),
    row("3", name="physics", partition="idle", start="08", end="09", list="c4"),
    header=HEADER.replace("JobName", "Account"),
)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ACCOUNTS, {}),
        (ACCOUNTS, {"ignore_accounts": ("scavenger",), "ignore_partitions": ("idle", "misspelt")}),
        (CLUSTERS, {"cluster": "small"}),
        (CLUSTERS.replace("|2024", "|a|2024", 1), {"cluster": "small"}),
    ],
)
def test_it_does_not_matter_how_many_rows_are_understood_at_a_time(
    write: Write, monkeypatch: pytest.MonkeyPatch, text: str, options: dict[str, object]
) -> None:
    path = write(text)
    at_once = read(path, **options)
    monkeypatch.setattr(source, "_CHUNK_BYTES", len(HEADER))
    monkeypatch.setattr(source, "_PIECE_BYTES", 1)
    monkeypatch.setattr(sacct_jobs, "_MIN_BATCH_ROWS", 1)
    one_by_one = read(path, **options)
    assert (one_by_one.rows, one_by_one.notes) == (at_once.rows, at_once.notes)
    for name in at_once.holes.node_names:
        assert holes_of(one_by_one, name) == holes_of(at_once, name)


def test_rows_of_files_put_together_are_understood_together(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    typed = sacct_jobs._typed

    def counted(rows: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
        batches.append(len(rows))
        return typed(rows, options)

    monkeypatch.setattr(sacct_jobs, "_typed", counted)
    log = read(
        write(ACCOUNTS + sacct(row("4"), row("5")) + sacct(row("6"), header=HEADER.replace("JobName", "QOS")))
    )
    assert batches == [6]
    assert log.rows.used == 6


def test_a_cluster_that_is_not_there_is_told_from_those_of_all_rows(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_CHUNK_BYTES", len(HEADER))
    monkeypatch.setattr(source, "_PIECE_BYTES", 1)
    monkeypatch.setattr(sacct_jobs, "_MIN_BATCH_ROWS", 1)
    with pytest.raises(InputError) as caught:
        read(write(CLUSTERS), cluster="none")
    assert caught.value.hint == "Give --cluster one of big, small."


def test_several_clusters_are_not_one_machine(write: Write) -> None:
    with pytest.raises(InputError, match=r"jobs of 2 clusters \(big, small\)") as caught:
        read(write(CLUSTERS))
    assert "--cluster big" in caught.value.hint


def test_several_clusters_in_several_files_are_not_either(write: Write) -> None:
    header = HEADER.replace("JobName", "Cluster")
    paths = [write(sacct(row(name=name), header=header)) for name in ("big", "small")]
    with pytest.raises(InputError, match="jobs of 2 clusters"):
        read_site_log(paths, ReadOptions(from_s=hour(0), until_s=hour(24)))


def test_one_of_several_clusters_can_be_chosen(write: Write) -> None:
    log = read(write(CLUSTERS), cluster="small")
    assert holes_of(log, "c1") == [(0, 5), (6, 24)]
    assert log.rows.ignored == {"job step": 1, "of another cluster": 1}


@pytest.mark.parametrize("text", [CLUSTERS, sacct(row())])
def test_a_cluster_that_is_not_there_is_refused(write: Write, text: str) -> None:
    with pytest.raises(InputError, match="holds no job of the cluster 'none'"):
        read(write(text), cluster="none")


def test_jobs_of_ignored_partitions_and_accounts_leave_their_nodes_idle(write: Write) -> None:
    log = read(write(ACCOUNTS), ignore_partitions=("idle",), ignore_accounts=("scavenger",))
    assert log.holes.node_names == ("c1", "c2", "c3", "c4")
    assert holes_of(log, "c1") == [(0, 1), (2, 24)]
    assert holes_of(log, "c4") == [(0, 24)]
    assert log.rows.ignored == {"of an ignored partition or account": 2}


def test_a_name_to_ignore_that_no_job_has_is_told(write: Write) -> None:
    log = read(write(ACCOUNTS), ignore_partitions=("idel",))
    assert "No job names the partition 'idel' (--ignore-partition)." in log.notes


@pytest.mark.parametrize(
    ("nodes", "list_", "reason"),
    [
        ("1", "n[1-999999]", "names more than 1 node"),
        ("1", "c1,c2", "names more than 1 node"),
        ("4", "c[1-3]", "had 4 nodes, but its list names 3"),
        ("", "n[1-999999]", "names more than 200,000 nodes"),
    ],
)
def test_a_list_that_names_other_than_as_many_nodes_as_the_job_had_is_a_bad_row(
    write: Write, nodes: str, list_: str, reason: str
) -> None:
    begin_s = time.process_time()
    log = read(write(sacct(row("1"), row("2", nodes=nodes, list=list_))))
    assert reason in log.rows.first_rejects[0].reason
    assert log.holes.node_names == ("c1",)
    assert time.process_time() - begin_s < 2  # a million names take ten times as long


def test_counts_that_slurm_has_shortened_need_not_be_exact(write: Write) -> None:
    log = read(write(sacct(row("1", nodes="1.46K", list="c[1-1500]"), row("2", nodes="0", list="c1"))))
    assert log.rows.used == 2


def test_the_nodes_a_job_asked_for_need_not_be_those_it_had(write: Write) -> None:
    header = HEADER.replace("NNodes", "ReqNodes")
    assert read(write(sacct(row("1", nodes="1", list="c[1-4]"), header=header))).rows.used == 1


def test_the_node_count_may_stand_in_the_list_of_resources_alone(write: Write) -> None:
    text = (
        "JobID|Start|End|AllocTRES\n"
        "1|2024-06-03T01:00:00|2024-06-03T02:00:00|billing=64,cpu=64,mem=1000G,node=3\n"
        "2|2024-06-03T05:00:00|2024-06-03T06:00:00|cpu=8,mem=1G,gres/gpu:a100=4,node=1\n"
    )
    log = read(write(text), nodes=4)
    assert [holes_of(log, f"node{n}") for n in (1, 3)] == [[(0, 1), (2, 5), (6, 24)], [(0, 1), (2, 24)]]


@pytest.mark.parametrize("missing", ["NA", "N/A", "nan", "NaN", "Unknown"])
def test_what_is_not_available_is_missing(write: Write, missing: str) -> None:
    waiting = row("2", start=missing, end=missing, nodes=missing, list=missing, state="PENDING")
    log = read(write(sacct(row("1", submit=missing, nodes=missing), waiting)))
    assert (log.rows.used, log.rows.ignored) == (1, {"never started": 1})


@pytest.mark.parametrize(("list_", "noted"), [("c1.hpc.org", True), ("C1", True), ("c01", True), ("c2", False)])
def test_a_node_that_may_be_there_under_two_names_is_told(write: Write, list_: str, noted: bool) -> None:
    log = read(write(sacct(row("1"), row("2", list=list_))))
    assert len(log.holes.node_names) == 2
    told = [note for note in log.notes if "in a domain alone: " in note and list_ in note]
    assert bool(told) == noted


@pytest.mark.parametrize("count", ["9" * 25, "1e300", "99999999999"])
def test_a_count_beyond_all_machines_is_a_bad_row(write: Write, count: str) -> None:
    assert read(write(sacct(row("1"), row("2", nodes=count)))).rows.rejected == 1


WITH_ELAPSED = HEADER.replace("JobName", "ElapsedRaw")
OCTOBER = {"timezone": "Europe/Berlin", "from_s": 1729980000.0, "until_s": 1730066400.0}
"""24 hours from 2024-10-27T00:00 in Berlin, where clocks went back from 03:00 to 02:00."""


def test_time_for_which_a_job_was_suspended_is_not_in_elapsed(write: Write) -> None:
    header = HEADER.replace("End", "Elapsed").replace("JobName", "Suspended")
    log = read(write(sacct(row(name="02:00:00", end="01:00:00"), header=header)))
    assert holes_of(log, "c1") == [(0, 1), (4, 24)]


def test_without_end_and_suspended_the_log_cannot_say_and_the_note_does(write: Write) -> None:
    log = read(write(sacct(row(end="01:00:00"), header=HEADER.replace("End", "Elapsed"))))
    assert any("too early for jobs that were suspended" in note for note in log.notes)


def test_a_suspended_job_is_still_on_its_nodes(write: Write) -> None:
    log = read(write(sacct(row(name="3600", end="Unknown", state="SUSPENDED"), header=WITH_ELAPSED)))
    assert holes_of(log, "c1") == [(0, 1)]


@pytest.mark.parametrize(
    ("start", "end", "elapsed_s", "busy_h"),
    [
        ("02:30", "04:00", 3600 * 1.5, 1.5),  # began in the second 02:30
        ("02:30", "04:00", 3600 * 2.5, 2.5),  # in the first
        ("01:00", "02:30", 3600 * 2.5, 2.5),  # ended in the second
        ("02:10", "02:20", 600, 1 / 6),
        ("02:10", "02:20", 4200, 7 / 6),
    ],
)
def test_elapsed_tells_which_of_two_equal_hours_is_meant(
    write: Write, start: str, end: str, elapsed_s: float, busy_h: float
) -> None:
    start, end = f"2024-10-27T{start}:00", f"2024-10-27T{end}:00"
    rows = row(name=f"{elapsed_s:.0f}", submit=start, start=start, end=end)
    log = read(write(sacct(rows, header=WITH_ELAPSED)), **OCTOBER)
    assert log.holes.idle_node_hours == pytest.approx(24 - busy_h)


def test_an_hour_too_much_or_too_few_is_told_with_what_to_do(write: Write) -> None:
    rows = [row("7", name="3600", start="01", end="03"), row("8", name="3600", start="05", end="06")]
    log = read(write(sacct(*rows, header=WITH_ELAPSED)))
    assert any("for an hour more or less" in note and "--timezone" in note and "7" in note for note in log.notes)


def test_an_elapsed_time_that_does_not_fit_is_told(write: Write) -> None:
    log = read(write(sacct(row("7", name="60", start="01", end="03"), header=WITH_ELAPSED)))
    assert any("does not fit their Start and End (the first: 7)" in note for note in log.notes)
    assert holes_of(log, "c1") == [(0, 1), (3, 24)]


@pytest.mark.parametrize("elapsed", ["9" * 30, "1e300", "soon", "-1"])
def test_without_an_end_an_elapsed_time_that_is_none_is_a_bad_row(write: Write, elapsed: str) -> None:
    header = HEADER.replace("End", "Elapsed")
    log = read(write(sacct(row("1", end="01:00:00"), row("2", end=elapsed), header=header)))
    assert (log.rows.used, log.rows.rejected) == (1, 1)
    assert hour(0) == log.holes.from_s
