"""Tags: what a user writes into a job's comment to make it a trainer, ``freetrain:min=2,max=16``."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from freetrain.core.known_trainer import PAUSE_NOTE
from freetrain.core.throughput import Curve, check_curve

TAG_PREFIX = "freetrain:"
ANSWER = " | "
"""Separates the user's tag from what freetrain answers, where it had to."""

_RESUME = re.compile(r"resume ([0-9]{1,12})")
_BLANKS = " \t\r\n"
_MOST_NODES = 100_000
_LEAST_WEIGHT, _MOST_WEIGHT = 0.01, 100
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]{0,400}")


class Kind(StrEnum):
    """What the tasks of an array are."""

    TRAINING = "training"
    """Together one training, which grows and shrinks."""
    TASKS = "tasks"
    """Programs of their own, each of which runs once: a filler."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What a trainer's owner wants.

    Attributes:
        min_nodes: fewest nodes it can train on.
        max_nodes: most nodes it can use; None: as many as its array has tasks.
        name: for people; empty: the job's id.
        directory: the trainer's directory, where its progress is read; None: the progress is not known.
        weight: how much it counts against its owner's other trainers.
        target_samples: after which it is complete; None: when its program says so.
        grow_s: seconds of training lost when it grows.
        shrink_s: when it shrinks.
        start_s: when it starts from nothing.
        curve: (nodes, samples/s) as measured by the owner; empty: freetrain finds out.
        kind: what its tasks are.
        shortest_s: how long a task of a filler must run to be of use; None: until it saves.
        save_s: from one checkpoint to the next; 0: a task makes none, a training loses only what it is doing.
        boot_s: until a new node's program begins, or has joined the others.
        notice: whether SIGTERM lets it save what it has done.
        speeds: feature or type of GPU → how fast it is on nodes with it; on others its speed is 1.
        mixed: whether its nodes may be of different kinds at once.
    """

    min_nodes: int = 1
    max_nodes: int | None = None
    name: str = ""
    directory: str | None = None
    weight: float = 1.0
    target_samples: float | None = None
    grow_s: float = 0.5
    shrink_s: float = 0.5
    start_s: float = 10.0
    curve: Curve = ()
    kind: Kind = Kind.TRAINING
    shortest_s: float | None = None
    save_s: float = 0.0
    boot_s: float = 0.0
    notice: bool = False
    speeds: tuple[tuple[str, float], ...] = ()
    mixed: bool = False

    @property
    def is_filler(self) -> bool:
        """Whether its tasks are programs of their own."""
        return self.kind is Kind.TASKS


@dataclass(frozen=True, slots=True)
class WrongTag:
    """A tag that says something that cannot be.

    Attributes:
        why: a sentence for its owner.
    """

    why: str


def _nodes(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= _MOST_NODES:
        raise ValueError(f"is not a number of nodes from 1 to {_MOST_NODES}")
    return int(text)


def _positive(text: str) -> float:
    value = _seconds(text)
    if value == 0:
        raise ValueError("must be more than 0")
    return value


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?(e[0-9]{1,2})?", text):
        raise ValueError("is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("is too large")
    return value


def _weight(text: str) -> float:
    value = _seconds(text)
    if not _LEAST_WEIGHT <= value <= _MOST_WEIGHT:
        raise ValueError(f"must be from {_LEAST_WEIGHT} to {_MOST_WEIGHT}")
    return value


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("may have letters, digits and . _ - only, 64 at most")
    return text


def _path(text: str) -> str:
    if not _PATH.fullmatch(text) or ".." in text.split("/"):
        raise ValueError("must be an absolute path of letters, digits and . _ / + @ : -")
    return text


def _curve(text: str) -> Curve:
    points = [point.partition(":") for point in text.split("/")]
    curve = tuple((_nodes(nodes), _positive(rate)) for nodes, _, rate in points)
    check_curve(curve)
    return curve


def _speeds(text: str) -> tuple[tuple[str, float], ...]:
    pairs = [pair.partition(":") for pair in text.split("/")]
    speeds = {_name(name): _weight(speed) for name, _, speed in pairs}
    if len(speeds) < len(pairs):
        raise ValueError("names something twice")
    return tuple(speeds.items())


def _kind(text: str) -> Kind:
    if text not in list(Kind):
        raise ValueError("is neither training nor tasks")
    return Kind(text)


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("is neither yes nor no")
    return text == "yes"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the tag.

    Attributes:
        field: of :class:`Tag`.
        read: its value from text; raises ValueError with the end of a sentence.
        meaning: for the docs.
        only: the one kind that has it; None: both have.
    """

    field: str
    read: Callable[[str], Any]
    meaning: str
    only: Kind | None = None

    @property
    def is_duration(self) -> bool:
        """Whether its value is in seconds."""
        return self.field.endswith("_s")


KEYS = {
    "min": Key("min_nodes", _nodes, "fewest nodes it can train on (1)", Kind.TRAINING),
    "max": Key("max_nodes", _nodes, "most nodes it can use (the array's number of tasks)"),
    "name": Key("name", _name, "a name for people (the job's id)"),
    "dir": Key("directory", _path, "the trainer's directory, where freetrain reads its progress", Kind.TRAINING),
    "weight": Key("weight", _weight, "how much it counts against your other trainers, 0.01 to 100 (1)"),
    "target": Key(
        "target_samples", _positive, "samples after which it is complete (when its program says so)", Kind.TRAINING
    ),
    "grow": Key("grow_s", _seconds, "seconds of training lost when it grows (0.5)", Kind.TRAINING),
    "shrink": Key("shrink_s", _seconds, "seconds of training lost when it shrinks (0.5)", Kind.TRAINING),
    "start": Key("start_s", _seconds, "seconds lost when it starts from nothing (10)"),
    "curve": Key(
        "curve", _curve, "measured throughput, nodes:samples/s, as 1:100/2:190/4:350 (found out)", Kind.TRAINING
    ),
    "kind": Key(
        "kind", _kind, "what it is: a training, or tasks, programs of their own that each run once (training)"
    ),
    "shortest": Key("shortest_s", _seconds, "seconds that a task must run to be of use (as save)", Kind.TASKS),
    "save": Key("save_s", _positive, "seconds from one checkpoint to the next (none)"),
    "boot": Key("boot_s", _seconds, "seconds that a new node needs before it is of use, as for a container (0)"),
    "notice": Key("notice", _yes, "whether SIGTERM lets it save what it has done: yes or no (no)"),
    "speed": Key(
        "speeds",
        _speeds,
        "how fast it is on nodes with a feature or type of GPU, as a100:1/v100:0.4 (1 everywhere)",
        Kind.TRAINING,
    ),
    "mixed": Key(
        "mixed", _yes, "whether its nodes may be of different kinds at once: yes or no (no)", Kind.TRAINING
    ),
}


def parse_tag(comment: str) -> Tag | WrongTag | None:
    """The tag in a job's comment; None where there is none."""
    if not comment.startswith(TAG_PREFIX):
        return None
    text = comment.removeprefix(TAG_PREFIX).partition(ANSWER)[0].strip(_BLANKS)
    return _read(item.partition("=") for item in text.split(",") if item)


def check_values(values: Mapping[str, str]) -> Tag | WrongTag:
    """The tag of these keys and values; unlike in a comment, a comma belongs to its value, and is wrong there."""
    return _read((name, "=", value) for name, value in values.items())


def format_tag(values: Mapping[str, str]) -> str:
    """A comment that says this; the values are taken as they are."""
    return TAG_PREFIX + ",".join(f"{name}={value}" for name, value in values.items())


def with_answer(comment: str, sentence: str) -> str:
    """The comment with an answer to its owner behind it, an older answer replaced; 1,000 characters at most."""
    return f"{comment.partition(ANSWER)[0]}{ANSWER}{sentence}"[:1000]


def answer_in(comment: str) -> str:
    """What stands behind the tag; empty: nothing."""
    return comment.partition(ANSWER)[2]


def without_answer(comment: str) -> str:
    """The tag alone."""
    return comment.partition(ANSWER)[0]


def says_paused(comment: str) -> bool:
    """Whether freetrain has answered that the trainer is paused."""
    return answer_in(comment).startswith(PAUSE_NOTE)


def ask_to_resume(comment: str, time_s: float) -> str:
    """The comment by which an owner asks that his trainer go on; no two of them are equal."""
    return with_answer(comment, f"resume {max(int(time_s), asked_to_resume(comment) + 1)}")


def asked_to_resume(comment: str) -> int:
    """When the owner asked that his trainer go on, by his own clock; 0: he does not ask."""
    found = _RESUME.fullmatch(answer_in(comment))
    return int(found[1]) if found else 0


def _read(items: Iterable[tuple[str, str, str]]) -> Tag | WrongTag:
    values: dict[str, Any] = {}
    for name, equals, value in items:
        key = KEYS.get(name)
        if key is None:
            return WrongTag(_unknown(name))
        if not equals or not value:
            return WrongTag(f"{name} has no value: write {name}=…")
        if key.field in values:
            return WrongTag(f"{name} is given twice")
        try:
            values[key.field] = key.read(value)
        except ValueError as error:
            return WrongTag(f"{name}={_shown(value)} {error}")
    tag = Tag(**values)
    for name, key in KEYS.items():
        if key.field in values and key.only not in (None, tag.kind):
            return WrongTag(f"{name} is for kind={key.only} only")
    if tag.max_nodes is not None and tag.min_nodes > tag.max_nodes:
        return WrongTag(f"min={tag.min_nodes} is more than max={tag.max_nodes}")
    return tag


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name[:40], list(KEYS), 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
    return f"there is no key {_shown(name)}; {hint}"


def _shown(text: str) -> str:
    """Hostile text made harmless for a terminal and for a comment."""
    clean = "".join(letter if letter.isprintable() and letter not in "'\"`$\\|" else "?" for letter in text[:40])
    return f"{clean}…" if len(text) > 40 else clean
