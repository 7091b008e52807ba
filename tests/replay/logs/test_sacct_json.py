"""`sacct --json`, as releases from 21.08 to 25.11 print it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from freetrain.errors import InputError
from tests.replay.logs.build import HEADER, Write, holes_of, hour, read, row, sacct


def job(id_: int = 7, start: float = 1, end: float = 2, **fields: Any) -> dict[str, Any]:
    """A job as 21.08 prints it; times are hours of 2024-06-03, an end of 0 stands for none."""
    times = {"submission": int(hour(0)), "start": int(hour(start)) if start else 0}
    times |= {
        "end": int(hour(end)) if end else 0,
        "elapsed": int(3600 * (end - start)) if end else 99,
        "limit": 240,
    }
    return {
        "job_id": id_, "cluster": "c", "account": "a", "partition": "batch", "state": {"current": "COMPLETED"},
        "time": times, "allocation_nodes": 2, "required": {"CPUs": 16}, "nodes": "c[1-2]",
        "array": {"job_id": 3, "task_id": None}, "het": {"job_id": 0}, "steps": [{"nodes": {}}],
        "tres": {"allocated": [{"type": "cpu", "name": None, "id": 1, "count": 16}]}, "name": "a|b\nc",
    } | fields  # fmt: skip


def newer(record: dict[str, Any]) -> dict[str, Any]:
    """The same job as 23.02 to 25.11 print it: numbers say whether they are set, states are lists."""
    record = json.loads(json.dumps(record))
    limit = record["time"]["limit"]
    record["time"]["limit"] = {"set": True, "infinite": False, "number": limit}
    record["state"]["current"] = [record["state"]["current"]]
    record["array"]["task_id"] = {"set": False, "infinite": False, "number": 0}
    return record


def document(*jobs: Any) -> str:
    return json.dumps(
        {"meta": {"slurm": {"release": "x"}}, "jobs": list(jobs), "errors": [], "warnings": []}, indent=1
    )


@pytest.mark.parametrize("release", [lambda record: record, newer])
def test_jobs_of_any_release_are_read(write: Write, release: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    log = read(write(document(release(job()), release(job(8, start=5, end=6)))))
    assert (log.format, log.rows.used, holes_of(log, "c2")) == ("sacct", 2, [(0, 1), (2, 5), (6, 24)])
    assert log.logged is not None
    assert log.logged.limit_s.tolist() == [4 * 3600] * 2


def test_a_running_job_has_no_end_and_a_pending_one_no_start(write: Write) -> None:
    running = job(1, end=0, state={"current": ["RUNNING"]})
    pending = job(2, start=0, end=0, state={"current": ["PENDING"]}, nodes="None assigned", allocation_nodes=0)
    log = read(write(document(running, pending)))
    assert (holes_of(log, "c1"), log.rows.ignored) == ([(0, 1)], {"never started": 1})


def test_what_is_unlimited_or_not_set_has_no_number(write: Write) -> None:
    limits = [{"set": True, "infinite": True, "number": 0}, {"set": False, "number": 5}, None, 0]
    jobs = [job(number, start=1 + number, end=2 + number) for number in range(4)]
    for record, limit in zip(jobs, limits, strict=True):
        record["time"]["limit"] = limit
    log = read(write(document(*jobs)))
    assert log.logged is not None
    assert log.logged.limit_s.tolist()[:3] == [float("inf")] * 3


def test_jobs_may_come_one_a_line_alone_or_in_several_documents(write: Write) -> None:
    alone = "\n".join(json.dumps(job(number, start=number, end=number + 1)) for number in (1, 3, 5)) + "\n"
    assert read(write(alone)).rows.used == 3
    assert read(write(document(job(1)) + "\n" + document(job(2, start=5, end=6)))).rows.used == 2
    assert read(write(json.dumps([job(1)]))).rows.used == 1


def test_a_message_may_stand_before(write: Write) -> None:
    assert read(write("sacct: warning: slow\n" + document(job()))).rows.used == 1


def test_a_log_whose_jobs_were_submitted_with_json_is_none(write: Write) -> None:
    text = sacct(f'{row("1")}|run <<EOF\n{{"jobs": []}}\nEOF', header=f"{HEADER}|SubmitLine")
    assert read(write(text)).rows.used == 1


def test_a_bad_job_is_named_by_its_place(write: Write) -> None:
    log = read(write(document(job(1), job(2, nodes="c[1-"), job(3), "what?")))
    assert [(reject.line, log.rows.rejected) for reject in log.rows.first_rejects] == [(3, 2), (5, 2)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "no list of jobs"),
        ('{"jobs": []}', "list of jobs is empty"),
        ('{"jobs": [', "damaged or cut off at line 1"),
        ('{"jobs": [\n\n{"job_id": 1,', "damaged or cut off at line 3"),
        ("[" * 100_000, "damaged or cut off"),
        ('{"jobs": [{"job_id": 1, "job_state": "RUNNING", "start_time": 1}]}', "have no times"),
    ],
)
def test_other_json_is_named_for_what_it_is(write: Write, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(write(text))


def test_numbers_of_thousands_of_digits_are_a_bad_row(write: Write) -> None:
    text = document(job(1), job(2, allocation_nodes=12345)).replace("12345", "9" * 4000)
    assert read(write(text)).rows.rejected == 1


def test_what_is_said_of_columns_and_separators_is_not_meant_for_json(write: Write) -> None:
    assert read(write(document(job())), columns=("JobID", "Start"), delimiter=";").rows.used == 1


def test_many_blank_lines_take_no_time(write: Write) -> None:
    begin_s = time.process_time()
    with pytest.raises(InputError):
        read(write("a message\n" + "\n" * 60_000 + 'no "jobs"\n'))
    assert time.process_time() - begin_s < 2
