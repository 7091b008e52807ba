from __future__ import annotations

import pytest

from freetrain.errors import InputError
from tests.replay.logs.build import Write, holes_of, hour, read

BEGIN = int(hour(0))


def swf_row(job: int, submit: int = 0, wait: int = 0, run: int = 3600, cores: int = 8, status: int = 1) -> str:
    return f"  {job}  {submit}\t{wait} {run} {cores} -1 -1 {cores} 7200 -1 {status} 1 1 -1 1 1 -1 -1 "


def swf(*rows: str, nodes: int | None = 4, cores: int | None = 32) -> str:
    header = ["; Version: 2.2", f"; UnixStartTime: {BEGIN}"]
    header += [f";MaxNodes: {nodes} (8 cores)"] * (nodes is not None) + [f"; MaxProcs: {cores}"] * (
        cores is not None
    )
    return "\n".join((*header, *rows)) + "\n"


def test_processors_fill_whole_nodes_of_the_header_s_machine(write: Write) -> None:
    log = read(write(swf(swf_row(1, wait=3600), swf_row(2, submit=7200, cores=9))))
    assert (log.format, log.packed, len(log.holes.node_names)) == ("SWF", True, 4)
    assert holes_of(log, "node1") == [(0, 1), (3, 24)]
    assert holes_of(log, "node2") == [(0, 2), (3, 24)]
    assert any("packed first-fit" in note for note in log.notes)


def test_rows_that_ran_nowhere_are_ignored_and_bad_ones_named(write: Write) -> None:
    rows = [
        swf_row(1), swf_row(2, wait=-1), swf_row(3, run=0), swf_row(4, run=-1), swf_row(5, status=3),
        swf_row(6, cores=-1), swf_row(7).replace("3600", "?"), "8 0 0 5", swf_row(9, cores=33),
        *(swf_row(job, submit=7200) for job in (10, 11, 12)),
    ]  # fmt: skip
    log = read(write(swf(*rows)))
    assert (log.rows.read, log.rows.used, log.rows.rejected) == (12, 4, 4)
    assert set(log.rows.ignored) == {
        "never started", "ended when it started", "run time unknown", "part of a job that another row sums up",
    }  # fmt: skip
    assert [reject.line for reject in log.rows.first_rejects] == [10, 11, 12, 13]


def test_without_any_machine_the_hint_names_the_peak(write: Write) -> None:
    path = write(swf(swf_row(1), swf_row(2, submit=60), swf_row(3, submit=3660), nodes=None, cores=None))
    with pytest.raises(InputError, match="size of the machine") as caught:
        read(path)
    assert "--nodes N" in caught.value.hint
    assert "16 processors" in caught.value.hint


def test_a_plain_row_of_eighteen_numbers_is_swf_without_header(write: Write) -> None:
    log = read(write(swf_row(1, submit=BEGIN) + "\n"), nodes=10)
    assert log.format == "SWF"
    assert any("UnixStartTime" in note for note in log.notes)


@pytest.mark.parametrize("header", ["MaxProcs: 99999999999", "MaxNodes: 99999999999", "MaxProcs: " + "9" * 5000])
def test_a_header_with_an_impossible_machine_is_not_believed(write: Write, header: str) -> None:
    path = write(swf(swf_row(1), nodes=None, cores=None).replace("; Version: 2.2", f"; {header}"))
    with pytest.raises(InputError, match="size of the machine is not known"):
        read(path)
    assert len(read(path, nodes=8).holes.node_names) == 8


def test_cores_that_fit_no_number_of_the_machine_are_bad_rows(write: Write) -> None:
    rows = [swf_row(1), swf_row(2, cores=10**12), swf_row(3, submit=60, cores=2 * 10**9), swf_row(4, submit=9000)]
    log = read(write(swf(*rows)), nodes=1)
    assert (log.rows.used, log.rows.rejected) == (2, 2)


def test_a_header_with_an_impossible_time_is_not_believed(write: Write) -> None:
    text = swf(swf_row(1, submit=BEGIN)).replace(f"UnixStartTime: {BEGIN}", "UnixStartTime: 99999999999999")
    log = read(write(text))
    assert log.rows.used == 1
    assert any("no UnixStartTime that is a time" in note for note in log.notes)


def test_a_time_after_2100_is_a_bad_row(write: Write) -> None:
    log = read(write(swf(swf_row(1), swf_row(2, submit=10**15), swf_row(3, submit=7200))))
    assert [(reject.line, reject.reason) for reject in log.rows.first_rejects] == [
        (6, "has a time after the year 2100")
    ]
