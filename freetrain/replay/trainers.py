"""The trainers of a replay: where they come from, what their tasks ask of a node, and which of them are let in.

They come from a file or from a preset: an endless queue made of the seven networks that were measured on Summit
for the FreeTrain paper. They are let in by order of submission, and compete by the daemon's own rule.
"""

from __future__ import annotations

import gzip
import json
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle
from math import inf
from pathlib import Path
from random import Random
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from freetrain.core.amounts import GPU, Amount
from freetrain.core.problem import first_error
from freetrain.core.throughput import Curve
from freetrain.core.trainer import KindChoice, Trainer
from freetrain.errors import InputError, explained
from freetrain.lending.facts import Request
from freetrain.lending.rules import FairShare, SharingRules
from freetrain.lending.sharing.claimants import select
from freetrain.slurm.parsing import parse_amount

_NODES = (1, 2, 4, 8, 16, 32, 64)
PARAMETERS = {
    "AlexNet": 61_100_840,
    "VGG-16": 138_357_544,
    "ResNet18": 11_689_512,
    "DenseNet": 7_978_856,
    "MnasNet": 4_383_312,
    "ShuffleNet": 2_278_604,
    "MobileNet": 3_504_872,
}
"""Parameters of networks as torchvision has them (DenseNet-121, MnasNet 1.0, ShuffleNet v2 1.0, MobileNet v2)."""
NODE_BATCH = 6 * 32
"""Samples of a node in a step: Summit's nodes have six GPUs. 32 on each is assumed; the data do not say."""
_PARAMETER_BYTES = 4
HUNDRED_EPOCHS_SAMPLES = 1.3e8
"""A hundred times ImageNet's 1.3 million images."""
PRESET_PREFIX = "preset:"
_MAX_SEED_DIGITS = 18
UNNAMED = ""
"""Kind, in a trainer's choices, of all nodes whose kinds it does not name."""
_MAX_UNABLE = 1000
"""Most trainers here that need more nodes than there are; those behind them wait outside."""


def _curve(*samples_per_s: float) -> Curve:
    return tuple(zip(_NODES, samples_per_s, strict=True))


CURVES: dict[str, Curve] = {
    "AlexNet": _curve(7115.3, 13071.7, 21066.1, 40484.9, 74002.9, 130762.0, 202135.4),
    "VGG-16": _curve(1193.3, 2389.2, 4691.7, 9257.9, 18348.9, 36208.5, 70151.7),
    "ResNet18": _curve(5218.8, 10582.5, 20436.0, 39584.0, 78023.8, 144762.5, 262723.0),
    "DenseNet": _curve(989.9, 1952.5, 3849.8, 7608.1, 14993.2, 28812.2, 57773.9),
    "MnasNet": _curve(3245.7, 6001.9, 11489.3, 23075.6, 43899.7, 83474.2, 160493.6),
    "ShuffleNet": _curve(2831.0, 5259.0, 9988.0, 20379.2, 38895.3, 74125.1, 145081.5),
    "MobileNet": _curve(3039.9, 5893.0, 11386.0, 22024.8, 42488.4, 82268.3, 155213.8),
}
"""Samples/s of whole jobs on 1 … 64 Summit nodes, ImageNet."""


@dataclass(frozen=True, slots=True)
class Preset:
    """An endless queue of trainers that takes the networks in turn; iterating starts it afresh.

    Attributes:
        seed: draws the order of each turn; None: the networks' own order.
    """

    name: str
    networks: tuple[str, ...]
    means: str
    seed: int | None = None

    def _in_turn(self) -> Iterator[str]:
        if self.seed is None:
            return cycle(self.networks)
        draw = Random(self.seed)
        return (network for _ in count() for network in draw.sample(self.networks, len(self.networks)))

    def __iter__(self) -> Iterator[Trainer]:
        for number, network in zip(count(1), self._in_turn(), strict=False):
            yield Trainer(
                f"{network}-{number:05d}",
                CURVES[network],
                max_nodes=64,
                target_samples=HUNDRED_EPOCHS_SAMPLES,
                bytes_per_sample=_PARAMETER_BYTES * PARAMETERS[network] / NODE_BATCH,
            )


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("hpo", ("ShuffleNet",), "hyper-parameter search: identical ShuffleNet trainings without end"),
        Preset("mix", tuple(CURVES), "seven image networks in turn, without end"),
    )
}


def read_task(text: str) -> Amount:
    """Amount that a task asks for, as ``gres/gpu=1,cpu=4,mem=16G``; one CPU at least.

    Raises:
        ValueError: it asks for nothing that a log tells of.
    """
    each = parse_amount(text)
    if {name for name, _ in each.gres} - {GPU}:
        raise ValueError("a log tells of GPUs alone, of any type: write gres/gpu=1")
    return Amount(max(each.cpus, 1), each.memory_mb, each.gres)


def with_own_tasks(trainers: Iterable[Trainer]) -> tuple[Trainer, ...]:
    """Trainers of a file that say what their tasks ask for; an endless queue has none."""
    return tuple(trainer for trainer in trainers if trainer.task) if isinstance(trainers, tuple) else ()


class TaskShapes:
    """Amounts of a node that a task of each trainer takes.

    Args:
        usual: a task of trainers that do not say it; by it all others are counted.
        says_memory: whether the log tells of memory; where it does not, nobody asks for any.
    """

    def __init__(self, usual: Amount, says_memory: bool) -> None:
        self._says_memory = says_memory
        self._usual = self._shape(usual)

    def of(self, trainer: Trainer) -> Amount:
        """Amount that a task of this trainer takes."""
        return self._shape(read_task(trainer.task)) if trainer.task else self._usual

    def counts_as(self, trainer: Trainer) -> float:
        """Number of usual tasks that its own task counts as: by GPUs where those ask for any, else by CPUs."""
        own, usual = self.of(trainer), self._usual
        return own.gpus / usual.gpus if usual.gpus else own.cpus / usual.cpus

    def _shape(self, each: Amount) -> Amount:
        return Amount(max(each.cpus, 1), each.memory_mb if self._says_memory else 0, each.gres)


@dataclass(frozen=True, slots=True)
class _TrainersFile:
    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal["freetrain-trainers/1"]
    trainers: Annotated[tuple[Trainer, ...], Field(min_length=1)]


_FILE = TypeAdapter(_TrainersFile)


def find_trainers(source: str) -> Iterable[Trainer]:
    """Trainers in order of submission, from ``preset:NAME`` or a ``freetrain-trainers/1`` file (JSON or TOML).

    ``preset:NAME@SEED`` draws the order in which the preset's networks come.

    Raises:
        InputError: there is no such preset, or the file does not say what trainers there are.
    """
    if source.startswith(PRESET_PREFIX):
        name, at, seed_text = source.removeprefix(PRESET_PREFIX).partition("@")
        if name not in PRESETS:
            known = ", ".join(f"{PRESET_PREFIX}{known} ({PRESETS[known].means})" for known in PRESETS)
            raise InputError(f"There is no preset {name!r}.", f"Choose one of {known}, or name a file.")
        if not at:
            return PRESETS[name]
        if not seed_text.isdecimal() or len(seed_text) > _MAX_SEED_DIGITS:
            raise InputError(
                f"The seed {seed_text!r} of {source} is no whole number.",
                f"{PRESET_PREFIX}{name}@1 is an example.",
            )
        return replace(PRESETS[name], seed=int(seed_text))
    return read_trainers(Path(source))


def with_other_kinds(trainer: Trainer, kinds: Iterable[str]) -> Trainer:
    """The trainer, its choice of nodes of no named kind one of each kind that it does not name, too."""
    named = {kind for choice in trainer.choices or () for kind in choice.kinds}
    unnamed = [choice for choice in trainer.choices or () if UNNAMED in choice.kinds]
    others = sorted(set(kinds) - named)
    if not unnamed or not others:
        return trainer
    more = (KindChoice((kind,), unnamed[0].speed) for kind in others)
    return replace(trainer, choices=(*(trainer.choices or ()), *more))


def read_trainers(path: Path) -> tuple[Trainer, ...]:
    """Trainers of a file, in order of submission; those of one instant in the file's order."""
    content = _read(path)
    with explained(f"{path} does not describe trainers"):
        described = tomllib.loads(content.decode()) if path.suffix == ".toml" else json.loads(content)
    try:
        file = _FILE.validate_python(described)
    except ValidationError as error:
        raise InputError(
            f"{path} does not describe trainers: {first_error(error)}.",
            "docs/reference/formats.md shows the format freetrain-trainers/1.",
        ) from error
    for trainer in with_own_tasks(file.trainers):
        with explained(f"{path}: trainer {trainer.id}: task {trainer.task!r}"):
            read_task(trainer.task)
    moldable = next((trainer.id for trainer in file.trainers if trainer.moldable), None)
    if moldable is not None:
        raise InputError(
            f"{path}: trainer {moldable} is moldable, and a replay does not know how such tasks end.",
            "Leave moldable out of it; 'freetrain solve' and the daemon know it.",
        )
    for trainer_id, times in Counter(trainer.id for trainer in file.trainers).items():
        if times > 1:
            raise InputError(f"{path} describes {times} trainers with the id {trainer_id!r}; ids must be unique.")
    # sorted is stable: trainers of one instant keep the order of the file.
    return tuple(
        sorted(file.trainers, key=lambda trainer: -inf if trainer.submitted_s is None else trainer.submitted_s)
    )


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    # gzip raises EOFError for a file that is cut off, and lets zlib's error of a damaged one through.
    except (OSError, EOFError, zlib.error) as error:
        hint = f"Trainers come from a file or a preset: {', '.join(PRESET_PREFIX + name for name in PRESETS)}."
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"The trainers in {path} cannot be read: {why}.", hint) from error


class TrainerQueue:
    """Trainers that come in one after the other.

    They are let in while fewer than ``max_running`` of those that are here could run, so that trainers that need
    more nodes than there are do not keep the rest from running.

    Args:
        trainers: in order of submission; may be endless.
        max_running: most that may compete at once.
    """

    def __init__(self, trainers: Iterable[Trainer], max_running: int) -> None:
        self._coming = iter(trainers)
        self._next = next(self._coming, None)
        self._sharing = SharingRules(FairShare.OFF, max_running=max_running)

    @property
    def is_empty(self) -> bool:
        """Whether no trainer will come any more."""
        return self._next is None

    def next_arrival_s(self, least: Sequence[int], nodes: int, now_s: float) -> float:
        """Time at which the next trainer comes in if nothing else happens before; inf: none does.

        ``least`` are the minimum nodes of each that has come in and is not complete.
        """
        if self._next is None:
            return inf
        # Where there is no node at all nobody can run, and who could run on one keeps the place.
        nodes = max(nodes, 1)
        able = len(least) if max(least, default=0) <= nodes else sum(min_nodes <= nodes for min_nodes in least)
        if able >= self._sharing.max_running or len(least) - able >= _MAX_UNABLE:
            return inf
        return now_s if self._next.submitted_s is None else max(self._next.submitted_s, now_s)

    def let_in(self, least: Sequence[int], nodes: int, now_s: float) -> list[Trainer]:
        """Trainers that come in now, submitted now where no time is given; see :meth:`next_arrival_s`."""
        new: list[Trainer] = []
        while self._next is not None and self.next_arrival_s(least, nodes, now_s) <= now_s:
            is_known = self._next.submitted_s is not None
            new.append(self._next if is_known else replace(self._next, submitted_s=now_s))
            least = [*least, self._next.min_nodes]
            self._next = next(self._coming, None)
        return new

    def competing(self, here: tuple[Request, ...], nodes: int) -> tuple[Request, ...]:
        """Requests of those here that may have some of so many nodes; all of them: the same sequence."""
        if len(here) <= self._sharing.max_running and all(request.trainer.min_nodes <= nodes for request in here):
            return here
        reach = dict.fromkeys((request.id for request in here), nodes)
        return select(here, reach, nodes, self._sharing, {}).competing
