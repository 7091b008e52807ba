"""`sacct --json`, as releases from 21.08 to 25.11 print it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.errors import InputError
from freetrain.replay.logs.traces import jobs_of_json
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


JOBS = [
    {"job_id": 1, "name": 'a "quoted", [odd] {name}', "time": {"start": 12.5, "limit": None}, "steps": []},
    {"job_id": 2, "name": "Ä\n\\u00e9 ☃", "nodes": ["a", "b"], "jobs": 3, "runs": True, "far": float("inf")},
    "what?",
    12345,
    0.0,
    -1.5e-7,
    {},
]
DOCUMENT = {"meta": {"jobs": [{"job_id": 9}], "slurm": "x"}, "jobs": JOBS, "errors": [], "warnings": {}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def cut(text: str, length: int) -> Iterator[bytes]:
    data = text.encode()
    return (data[begin : begin + length] for begin in range(0, len(data), length))


def jobs(text: str, length: int = 10**9) -> list[Any] | str:
    try:
        return list(jobs_of_json(cut(text, length), "log"))
    except InputError as error:
        return error.what


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 50])
def test_jobs_are_the_same_wherever_the_text_is_cut(indent: int | None, length: int) -> None:
    text = json.dumps(DOCUMENT, indent=indent, ensure_ascii=False)
    texts = (text, f"{text}\n\x1e{json.dumps(JOBS)}, {json.dumps(JOBS[0])}\n\n", json.dumps(JOBS))
    expected = (JOBS, [*JOBS, *JOBS, JOBS[0]], JOBS)
    assert tuple(jobs(text, max(length, 1)) for text in texts) == expected


@given(st.lists(JSON, max_size=4), st.integers(1, 20), st.sampled_from([None, 2]))
def test_any_values_are_the_same_wherever_the_text_is_cut(
    values: list[Any], length: int, indent: int | None
) -> None:
    assert jobs(json.dumps({"jobs": values}, indent=indent), length) == values


@given(st.integers(1, 400), st.sampled_from(["", "?", '"', "]", "}", ",", "1", "\n"]), st.integers(1, 60))
def test_damaged_text_is_damaged_at_the_same_line_wherever_it_is_cut(at: int, instead: str, length: int) -> None:
    text = json.dumps(DOCUMENT, indent=1)
    damaged = text[:at] + instead + text[at + 1 :]
    assert jobs(damaged, length) == jobs(damaged)


@given(st.integers(1, 400), st.integers(1, 60))
def test_text_that_breaks_off_is_never_taken_for_whole(at: int, length: int) -> None:
    text = json.dumps(DOCUMENT, indent=1)[:at]
    assert f"cut off at line {text.count(chr(10)) + 1}" in str(jobs(text, length))


def test_jobs_are_given_before_the_text_is_read_to_its_end() -> None:
    read = []

    def pieces() -> Iterator[bytes]:
        for number, piece in enumerate(cut(json.dumps({"jobs": JOBS * 1000}), 1000)):
            read.append(number)
            yield piece

    found = jobs_of_json(pieces(), "log")
    assert next(found) == JOBS[0]
    assert len(read) <= 2


def test_text_that_is_damaged_early_is_not_read_to_its_end() -> None:
    read = []

    def pieces() -> Iterator[bytes]:
        for number, piece in enumerate(cut('{"jobs": [{"job_id": 1 "x": ' + json.dumps(JOBS * 1000), 1000)):
            read.append(number)
            yield piece

    with pytest.raises(InputError, match="damaged"):
        list(jobs_of_json(pieces(), "log"))
    assert len(read) <= 2
