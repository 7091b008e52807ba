"""Tags: what a user writes into a job's comment to make it a trainer, ``freetrain:min=2,max=16``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from freetrain.core import bounds
from freetrain.core.bounds import Bound
from freetrain.core.throughput import Curve, check_curve
from freetrain.slurm.comments import ANSWER

TAG_PREFIX = "freetrain:"
_BLANKS = " \t\r\n"

# Readers of values, from the text behind each key: each raises a ValueError where the text is not such a value,
# with the end of a sentence that begins with key and text.
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
    """Coefficients of the length of a step, in seconds, as for key ``step`` in :data:`KEYS`."""
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


@dataclass(frozen=True, slots=True)
class Tag:
    """Wishes of a trainer's owner; :data:`KEYS` has the meaning of each field, and its value if it is not given.

    Attributes:
        directory: the trainer's directory; None: its progress is not known.
        curve: (nodes, samples/s) as measured by the owner.
        task_nodes: minimum and maximum for each task; None: one node.
        save_s: 0: a task makes no checkpoint, a training loses only what it is doing.
        boot_s: seconds until a new node's program begins, or has joined the others.
        speeds: feature or type of GPU, and the speed there; on other nodes its speed is 1.
        step_s_by_size: seconds of a step by nodes and servers (``freetrain.core.trainer``).
    """

    min_nodes: int = 1
    max_nodes: int | None = None
    name: str = ""
    directory: str | None = None
    weight: float = 1.0
    target_samples: float | None = None
    scale_up_s: float = 0.5
    scale_down_s: float = 0.5
    start_s: float = 10.0
    curve: Curve = ()
    kind: ArrayKind = ArrayKind.TRAINING
    task_nodes: tuple[int, int] | None = None
    shortest_s: float | None = None
    save_s: float = 0.0
    boot_s: float = 0.0
    notice: bool = False
    freeze: str = ""
    speeds: tuple[tuple[str, float], ...] = ()
    mixed: bool = False
    servers: int = 0
    step_s_by_size: tuple[float, float, float, float, float] | None = None
    cache_mb: int = 0
    bytes_per_sample: float = 0.0
    deadline: str | None = None

    @property
    def is_filler(self) -> bool:
        """Whether its tasks are programs of their own."""
        return self.kind is ArrayKind.TASKS

    @property
    def saves_at_the_end(self) -> bool:
        """Whether it loses nothing when its node is taken back: SIGTERM lets it save, or a freezer does."""
        return self.notice or bool(self.freeze)

    @property
    def is_moldable(self) -> bool:
        """Whether each of its tasks has nodes of its own, as many as are chosen when it starts."""
        return self.task_nodes is not None

    def deadline_s(self, submitted_s: float) -> float | None:
        """Time by which it shall be complete, UTC epoch seconds; None: any time."""
        return None if self.deadline is None else time_s(self.deadline, submitted_s)


@dataclass(frozen=True, slots=True)
class WrongTag:
    """A tag that cannot be used, with the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class TagKey:
    """A key of the tag.

    Attributes:
        field: of :class:`Tag`.
        read: its value from text; raises ValueError with the end of a sentence.
        meaning: for the docs.
        only: the one kind that has it; None: both have.
        metavar: its value in the help of ``freetrain submit``.
    """

    field: str
    read: Callable[[str], Any]
    meaning: str
    only: ArrayKind | None = None
    metavar: str = "NUMBER"

    @property
    def is_duration(self) -> bool:
        """Whether its value is in seconds."""
        return self.field.endswith("_s")


_TRAINING, _TASKS = ArrayKind.TRAINING, ArrayKind.TASKS
KEYS = {
    "min": TagKey("min_nodes", read_nodes, "smallest number of nodes it can train on (1)", _TRAINING),
    "max": TagKey("max_nodes", read_nodes, "most nodes it can use (the array's number of tasks)"),
    "name": TagKey("name", read_name, "a name for people (the job's id)", metavar="NAME"),
    "dir": TagKey(
        "directory", read_path, "the trainer's directory, where freetrain reads its progress; of a filler that is "
        "frozen: where its tasks are saved", metavar="DIR"),
    "weight": TagKey("weight", read_weight, "how much it counts against your other trainers, 0.01 to 100 (1)"),
    "target": TagKey(
        "target_samples", read_samples, "samples after which it is complete (when its program says so)",
        _TRAINING),
    "grow": TagKey("scale_up_s", read_seconds, "seconds of training lost when it grows (0.5)", _TRAINING),
    "shrink": TagKey("scale_down_s", read_seconds, "seconds of training lost when it shrinks (0.5)", _TRAINING),
    "start": TagKey("start_s", read_seconds, "seconds lost when it starts from nothing (10)"),
    "curve": TagKey(
        "curve", read_curve, "measured throughput, nodes:samples/s, as 1:100/2:190/4:350 (found out; of tasks: "
        "linear)", metavar="CURVE"),
    "kind": TagKey(
        "kind", read_kind, "what it is: a training, or tasks, programs of their own that each run once (training)",
        metavar="KIND"),
    "nodes": TagKey(
        "task_nodes", read_range_of_nodes, "nodes of each task, chosen when it starts, as 2-8 or 4 (1)", _TASKS),
    "shortest": TagKey("shortest_s", read_seconds, "seconds that a task must run to be of use (as save)", _TASKS),
    "save": TagKey("save_s", read_period, "seconds from one checkpoint to the next (none)"),
    "boot": TagKey(
        "boot_s", read_seconds, "seconds that a new node needs before it is of use, as for a container (0)"),
    "notice": TagKey(
        "notice", read_yes, "whether SIGTERM lets it save what it has done: yes or no (no)", metavar="YES|NO"),
    "freeze": TagKey(
        "freeze", read_name, "the site's freezer that saves tasks which cannot save themselves and run under "
        "'freetrain freeze' (none)", _TASKS, metavar="NAME"),
    "speed": TagKey(
        "speeds", read_speeds, "how fast it is on nodes with a feature or type of GPU, as a100:1/v100:0.4 (1 "
        "everywhere)", _TRAINING, metavar="NAME:NUMBER/…"),
    "servers": TagKey(
        "servers", read_servers, f"most parameter servers it can use, 1 to {bounds.SERVERS.most}; it runs with "
        "--servers auto (none)", _TRAINING),
    "step": TagKey(
        "step_s_by_size", read_step, "seconds of a step on n nodes with p servers, A/B/C/D/E of A/n + B + C n/p + "
        "D n + E p, as 'freetrain curve' prints them (one server)", _TRAINING, metavar="A/B/C/D/E"),
    "cache": TagKey(
        "cache_mb", read_megabytes, "megabytes beyond what a task asks for in which it caches its data itself, "
        "all on each node (none)", _TRAINING),
    "gradients": TagKey(
        "bytes_per_sample", read_gradients, "megabytes of gradients that its nodes exchange in a step, and "
        "samples of a node in a step, as 98/192 (no bandwidth is reserved for it)", _TRAINING,
        metavar="MB/SAMPLES"),
    "mixed": TagKey(
        "mixed", read_yes, "whether its nodes may be of different kinds at once: yes or no (no)", _TRAINING,
        metavar="YES|NO"),
    "deadline": TagKey(
        "deadline", read_time, "when it shall have done its target, as 2026-12-01T08:00, or how long after "
        "its submission, as 90m, 12h, 3d (whenever)", _TRAINING, metavar="TIME"),
}  # fmt: skip


# Each look shows the same comments again.
@lru_cache(maxsize=4096)
def parse_tag(comment: str) -> Tag | WrongTag | None:
    """The tag in a job's comment; None where there is none."""
    if not comment.startswith(TAG_PREFIX):
        return None
    text = comment.removeprefix(TAG_PREFIX).partition(ANSWER)[0].strip(_BLANKS)
    return _read(item.partition("=") for item in text.split(",") if item)


def tag_in(comment: str) -> Tag | None:
    """The tag of a job that is no submission any more; None: there is none that can be understood."""
    tag = parse_tag(comment)
    return tag if isinstance(tag, Tag) else None


def check_values(values: Mapping[str, str]) -> Tag | WrongTag:
    """The tag of these keys and values; unlike in a comment, a comma belongs to its value, and is wrong there."""
    return _read((name, "=", value) for name, value in values.items())


def format_tag(values: Mapping[str, str]) -> str:
    """A comment with the tag of these keys and values, which are taken as they are."""
    return TAG_PREFIX + ",".join(f"{name}={value}" for name, value in values.items())


def _read(items: Iterable[tuple[str, str, str]]) -> Tag | WrongTag:
    values: dict[str, Any] = {}
    for name, equals, value in items:
        key = KEYS.get(name)
        if key is None:
            near = difflib.get_close_matches(name[:40], list(KEYS), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
            return WrongTag(f"there is no key {_shown(name)}; {hint}")
        if not equals or not value:
            return WrongTag(f"{name} has no value: write {name}=…")
        if key.field in values:
            return WrongTag(f"{name} is given twice")
        try:
            values[key.field] = key.read(value)
        except ValueError as error:
            return WrongTag(f"{name}={_shown(value)} {error}")
    tag = Tag(**values)
    wrong = _wrong_together(tag, values)
    return WrongTag(wrong) if wrong else tag


def _wrong_together(tag: Tag, given: Collection[str]) -> str:
    for name, key in KEYS.items():
        if key.field in given and key.only not in (None, tag.kind):
            return f"{name} is for kind={key.only} only"
    if tag.curve and tag.is_filler and not tag.is_moldable:
        return "curve is for kind=training, and for tasks with nodes=2-8"
    if tag.max_nodes is not None and tag.task_nodes is not None and tag.task_nodes[0] > tag.max_nodes:
        return f"nodes={tag.task_nodes[0]} of each task is more than max={tag.max_nodes}"
    if tag.max_nodes is not None and tag.min_nodes > tag.max_nodes:
        return f"min={tag.min_nodes} is more than max={tag.max_nodes}"
    if tag.deadline is not None and tag.target_samples is None:
        return "deadline needs target=…: without it nobody knows how much is left to do"
    return ""


def _shown(text: str) -> str:
    """Hostile text made harmless for a terminal and for a comment."""
    clean = "".join(letter if letter.isprintable() and letter not in "'\"`$\\|" else "?" for letter in text[:40])
    return f"{clean}…" if len(text) > 40 else clean
