"""What a hostile user might write: drawn at random from an alphabet of what has done harm somewhere."""

from __future__ import annotations

import json

from hypothesis import strategies as st

RATE: dict[str, object] = {
    "event": "rate",
    "time_s": 1.0,
    "generation": 1,
    "world": 2,
    "nodes": 2,
    "step": 9,
    "epoch": 0,
    "samples_done": 640,
    "samples": 320,
    "elapsed_s": 5.0,
    "samples_per_s": 64.0,
    "step_s": 0.1,
    "compute_s": 0.1,
    "communication_s": 0.0,
    "data_wait_share": 0.0,
}

VALUES = st.one_of(
    st.sampled_from(
        [
            "0", "-1", "-0.0", "1e308", "1e-320", "1e-9", "1e12", "1e15", "1e18", "1e999", "Infinity", "-Infinity",
            "NaN", "true", "false", "null", '""', '"\\ud800"', '"\\u0000"', "2.5", "2.0", "100000",
            "100001", "9" * 400, "9" * 5000, "1." + "0" * 400, "[" * 100, "[]", "{}", '{"a":{"a":{}}}', "\x00",
            "nan", "1_0", "٣",
        ]
    ),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.text(max_size=8).map(json.dumps),
)  # fmt: skip


@st.composite
def mutated_lines(draw: st.DrawFn) -> bytes:
    """A rate with some of its values, keys or bytes replaced."""
    items = [(json.dumps(name), json.dumps(value)) for name, value in RATE.items()]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(items) - 1))
        name, _ = items[place]
        match draw(st.sampled_from(["value", "key", "twice", "less"])):
            case "value":
                items[place] = (name, draw(VALUES))
            case "key":
                items[place] = (draw(VALUES), draw(VALUES))
            case "twice":
                items.append((name, draw(VALUES)))
            case "less" if len(items) > 1:
                del items[place]
    line = ("{" + ", ".join(f"{name}: {value}" for name, value in items) + "}").encode("utf-8", "surrogatepass")
    junk = draw(st.one_of(st.just(b""), st.binary(max_size=6)))
    place = draw(st.integers(0, len(line)))
    return line[:place] + junk + line[place:] if draw(st.booleans()) else line + junk


PROGRESS_LINES = st.one_of(
    mutated_lines(),
    st.binary(max_size=40),
    st.sampled_from(
        [b"[" * 100_000, b'{"a":' * 5_000, b"x" * 70_000, b"\xff\xfe{}", b"\n" * 50, b"\r\n", b"{}", b""]
    ),
)
