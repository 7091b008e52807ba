"""Readers of the values of tags, from the text behind each key.

Each raises a ValueError where the text is not such a value, with the end of a sentence that begins with key and
text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from freetrain.core import bounds
from freetrain.core.bounds import Bound
from freetrain.core.throughput import Curve, check_curve

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TIME = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")
_SPAN = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_SPAN_S = {"m": 60.0, "h": 3600.0, "d": 86400.0}
_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]{0,400}")


class ArrayKind(StrEnum):
    """Kind of an array: one training, or programs of their own."""

    TRAINING = "training"
    """Together one training, which grows and shrinks."""
    TASKS = "tasks"
    """Programs of their own, each of which runs once: a filler."""


def read_nodes(text: str) -> int:
    """A number of nodes."""
    return _read_whole(text, 6, bounds.NODES, f"is not a number of nodes {bounds.NODES}")


def _read_whole(text: str, most_digits: int, bound: Bound, wrong: str) -> int:
    # Digits are counted first, since int() of a long text takes quadratic time.
    if not re.fullmatch(rf"[0-9]{{1,{most_digits}}}", text) or int(text) not in bound:
        raise ValueError(wrong)
    return int(text)


def read_range_of_nodes(text: str) -> tuple[int, int]:
    """The minimum and the maximum, which is the minimum where only one is given."""
    least, dash, most = text.partition("-")
    smallest = read_nodes(least)
    largest = read_nodes(most) if dash else smallest
    if smallest > largest:
        raise ValueError("has a minimum above its maximum")
    return smallest, largest


def read_number(text: str, bound: Bound) -> float:
    """A number within these bounds."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?(e[0-9]{1,2})?", text):
        raise ValueError("is not a number")
    value = float(text)
    if value not in bound:
        raise ValueError(f"must be {bound}")
    return value


def read_seconds(text: str) -> float:
    """Seconds, 0 or more."""
    return read_number(text, bounds.SECONDS)


def read_period(text: str) -> float:
    """Seconds, more than 0."""
    return read_number(text, replace(bounds.SECONDS, is_open=True))


def read_samples(text: str) -> float:
    """Samples, more than 0."""
    return read_number(text, replace(bounds.SAMPLES, is_open=True))


def read_weight(text: str) -> float:
    """A weight among the trainers of one owner."""
    return read_number(text, bounds.OWNERS_WEIGHT)


def read_name(text: str) -> str:
    """A name for people."""
    if not _NAME.fullmatch(text):
        raise ValueError("may have letters, digits and . _ - only, 64 at most")
    return text


def read_path(text: str) -> str:
    """A directory."""
    if not _PATH.fullmatch(text) or ".." in text.split("/"):
        raise ValueError("must be an absolute path of letters, digits and . _ / + @ : -")
    return text


def read_curve(text: str) -> Curve:
    """Throughput by nodes."""
    points = [point.partition(":") for point in text.split("/")]
    curve = tuple(
        (read_nodes(nodes), read_number(rate, replace(bounds.RATE, is_open=True))) for nodes, _, rate in points
    )
    check_curve(curve)
    return curve


def read_speeds(text: str) -> tuple[tuple[str, float], ...]:
    """Features or types of GPU, each with the speed there."""
    pairs = [pair.partition(":") for pair in text.split("/")]
    speeds = {read_name(name): read_weight(speed) for name, _, speed in pairs}
    if len(speeds) < len(pairs):
        raise ValueError("names something twice")
    return tuple(speeds.items())


def read_servers(text: str) -> int:
    """A number of servers."""
    return _read_whole(text, 3, bounds.SERVERS, f"is not a number of servers {bounds.SERVERS}")


def read_megabytes(text: str) -> int:
    """Megabytes."""
    return _read_whole(text, 8, bounds.MEGABYTES, "is not a number of megabytes")


def read_gradients(text: str) -> float:
    """Bytes for each sample, from megabytes and samples of a step."""
    megabytes, slash, samples = text.partition("/")
    if not slash:
        raise ValueError("must be megabytes and samples, as 98/192")
    size = 1e6 * read_samples(megabytes) / read_samples(samples)
    if size not in bounds.BYTES_PER_SAMPLE:
        raise ValueError(f"is more than {bounds.BYTES_PER_SAMPLE.most:g} bytes for each sample")
    return size


def read_step(text: str) -> tuple[float, float, float, float, float]:
    """Coefficients of the length of a step, in seconds, as for key ``step`` in :mod:`freetrain.slurm.tags`."""
    parts = text.split("/")
    if len(parts) != 5:
        raise ValueError("must be five numbers, as 'freetrain curve' prints them")
    a, b, c, d, e = (read_number(part, bounds.STEP_COEFFICIENT_S) for part in parts)
    return a, b, c, d, e


def read_kind(text: str) -> ArrayKind:
    """Kind of an array."""
    if text not in list(ArrayKind):
        raise ValueError("is neither training nor tasks")
    return ArrayKind(text)


def read_time(text: str) -> str:
    """Text of a time, or of a duration after the submission."""
    if not _SPAN.fullmatch(text) and not _is_time(text):
        raise ValueError(
            "is neither a time, as 2026-12-01T08:00, nor how long after its submission, as 90m, 12h, 3d"
        )
    return text


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return _TIME.fullmatch(text) is not None


def read_yes(text: str) -> bool:
    """Yes or no."""
    if text not in ("yes", "no"):
        raise ValueError("is neither yes nor no")
    return text == "yes"


def time_s(text: str, submitted_s: float) -> float:
    """UTC epoch seconds of a text of :func:`read_time`; a time is this machine's, as in Slurm's commands."""
    span = _SPAN.fullmatch(text)
    return (
        datetime.fromisoformat(text).timestamp() if span is None else submitted_s + int(span[1]) * _SPAN_S[span[2]]
    )
