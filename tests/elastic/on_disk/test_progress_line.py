from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freetrain.elastic.on_disk.progress_line import Rate, Rescale, WrongLine, parse_line
from tests.hostile import PROGRESS_LINES, RATE

RESCALE = {
    "event": "rescale",
    "time_s": 1.0,
    "generation": 3,
    "world": 2,
    "nodes": 1,
    "cause": "leave",
    "step": 7,
    "pause_s": 0.04,
}


def why(text: str | bytes) -> str:
    """Why the line is not believed."""
    line = parse_line(text if isinstance(text, bytes) else text.encode())
    assert isinstance(line, WrongLine)
    return line.why


def with_value(name: str, text: str) -> str:
    """A line that is right but for the text of one value."""
    known = RATE if name in RATE else RESCALE
    return "{" + ", ".join(f'"{key}": {text if key == name else json.dumps(known[key])}' for key in known) + "}"


def test_the_runtimes_own_lines_are_believed() -> None:
    rate, rescale = parse_line(json.dumps(RATE).encode()), parse_line(json.dumps(RESCALE).encode())
    assert isinstance(rate, Rate)
    assert isinstance(rescale, Rescale)
    assert (rate.nodes, rate.samples_per_s, rescale.cause) == (2, 64.0, "leave")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("samples_per_s", "Infinity", "samples_per_s is not finite"),
        ("samples_per_s", "NaN", "samples_per_s is not finite"),
        ("samples_per_s", "1e999", "samples_per_s is not finite"),
        ("samples_per_s", "9" * 400, "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "1e-320", "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "1e308", "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "-1.0", "samples_per_s is not between 1e-09 and 1,000,000,000,000"),
        ("samples_per_s", "true", "samples_per_s is not a number"),
        ("samples_per_s", "null", "samples_per_s is not a number"),
        ("nodes", "9" * 400, "nodes is not between 1 and 100,000"),
        ("nodes", "0", "nodes is not between 1 and 100,000"),
        ("nodes", "2.0", "nodes is not a whole number"),
        ("nodes", "true", "nodes is not a whole number"),
        ("samples_done", "9" * 400, "samples_done is not between 0 and 1e+15"),
        ("samples_done", "-1", "samples_done is not between 0 and 1e+15"),
        ("samples_done", "9" * 5000, "it is not JSON"),
        ("cause", '"\\u001b[31m"', "cause is not a short word"),
        ("cause", '"' + "x" * 41 + '"', "cause is not a short word"),
        ("event", '"new"', "its event is neither rate nor rescale"),
        ("event", "[]", "its event is neither rate nor rescale"),
    ],
)
def test_a_value_is_of_its_type_finite_and_plausible_or_named(name: str, text: str, said: str) -> None:
    assert why(with_value(name, text)) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" * 10_000, "it is nested too deep"),
        (b'{"a":' * 1_000, "it is nested too deep"),
        (b"[" * 100_000, "it is longer than 16384 bytes"),
        (json.dumps({**RATE, "note": "x" * 20_000}).encode(), "it is longer than 16384 bytes"),
        (b"\xff\xfe", "it is not JSON"),
        (json.dumps(RATE).encode("utf-16"), "it is not JSON"),
        (b'{"event": "rate\x00"}', "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[1, 2]", "it is not a JSON object"),
        (b"7", "it is not a JSON object"),
        (b'{"event": "rate", "event": "rate"}', "one of its keys is given twice"),
        (b'{"event": "rate"}', "time_s is missing"),
    ],
)
def test_a_line_that_is_not_one_says_why(text: bytes, said: str) -> None:
    assert why(text) == said


def test_the_parts_of_a_pause_need_not_be_known() -> None:
    assert isinstance(line := parse_line(json.dumps({**RESCALE, "start_s": 3.5}).encode()), Rescale)
    assert (line.save_s, line.start_s) == (None, 3.5)
    assert why(json.dumps({**RESCALE, "save_s": None})) == "save_s is not a number"
    assert why(json.dumps({**RESCALE, "save_s": -1})) == "save_s is not between 0 and 1,000,000,000"


def test_nobody_has_more_nodes_than_there_are() -> None:
    line = json.dumps({**RATE, "nodes": 9}).encode()
    assert isinstance(parse_line(line, most_nodes=9), Rate)
    assert parse_line(line, most_nodes=8) == WrongLine("nodes is more than the 8 that there are")


@settings(max_examples=150, deadline=None)
@given(PROGRESS_LINES)
def test_whatever_stands_in_a_line_it_is_bounded_or_refused_in_a_short_sentence(text: bytes) -> None:
    line = parse_line(text, most_nodes=64)
    if isinstance(line, WrongLine):
        assert 0 < len(line.why) < 100
        assert line.why.isprintable()
        return
    numbers = [value for value in asdict(line).values() if not isinstance(value, str | None)]
    assert all(type(value) in (int, float) and math.isfinite(value) and 0 <= value <= 1e15 for value in numbers)
    assert 1 <= line.nodes <= 64


@given(st.integers(1, 100_000), st.floats(1e-9, 1e12), st.floats(1e-9, 1e9))
def test_any_rate_within_the_bounds_is_believed(nodes: int, samples_per_s: float, elapsed_s: float) -> None:
    given = {**RATE, "nodes": nodes, "samples_per_s": samples_per_s, "elapsed_s": elapsed_s}
    assert isinstance(parse_line(json.dumps(given).encode()), Rate)
