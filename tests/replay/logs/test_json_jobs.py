"""JSON in pieces, wherever they are cut, says the same as when it is read as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.errors import InputError
from freetrain.replay.logs.sacct_json import jobs_of_json

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
    assert tuple(jobs(one, max(length, 1)) for one in texts) == expected


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
