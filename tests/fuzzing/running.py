"""Running parsers on inputs that chance has damaged, and what came of it."""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from freetrain.errors import FreetrainError

MOST_S = 2.0
MOST_BYTES = 1 << 30
GROUPS: Mapping[str, str] = {
    "slurm": "tests.fuzzing.slurm_answers",
    "users": "tests.fuzzing.users_texts",
    "site": "tests.fuzzing.site_files",
    "store": "tests.fuzzing.store_messages",
    "logs": "tests.replay.logs.mutated_logs",
    "problems": "tests.policies.mutated_problems",
}
"""Groups of parsers, each with its module. Names of parsers begin with their group."""

Trial = Callable[[random.Random, Path], object]
"""Draws an input and runs a parser on it. Files go to the folder."""


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser, and how it may refuse an input.

    Attributes:
        trial: one input.
        refusals: errors that its docstring names; errors that users are told of need not be named.
    """

    trial: Trial
    refusals: tuple[type[Exception], ...] = ()


@dataclass
class Record:
    """What came of all trials of a parser.

    Attributes:
        trials: how many there were.
        refused: how many ended with an error that is meant.
        crashes: seed and error of those that ended otherwise; at most 20.
        slowest_s: the most processor time that one of them took, all threads together.
        slowest_seed: which one that was.
        peak_bytes: the most memory that the process had.
    """

    trials: int = 0
    refused: int = 0
    crashes: list[tuple[str, str]] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest_seed: str = ""
    peak_bytes: int = 0


def parsers(group: str) -> Mapping[str, Parser]:
    """The parsers of a group by name. Others are not imported: torch alone takes seconds."""
    found: Mapping[str, Parser] = import_module(GROUPS[group]).PARSERS
    return found


def run_here(name: str, numbers: Iterable[int], folder: Path) -> Record:
    """Run the trials with these numbers, one after the other."""
    parser = parsers(name.partition(" ")[0])[name]
    record = Record()
    for number in numbers:
        seed = f"{name} {number}"
        begin_s = time.process_time()
        try:
            parser.trial(random.Random(seed), folder)
        except (FreetrainError, *parser.refusals):
            record.refused += 1
        except BaseException as error:  # whatever it is, it is no sentence
            if isinstance(error, KeyboardInterrupt):
                raise
            record.crashes.append((seed, "".join(traceback.format_exception_only(error)).strip()))
        took_s = time.process_time() - begin_s
        if took_s > record.slowest_s:
            record.slowest_s, record.slowest_seed = took_s, seed
        record.trials += 1
    record.crashes = record.crashes[:20]
    record.peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return record


def for_seconds(first: int, seconds: float) -> Iterable[int]:
    """Numbers of trials until that much processor time is used up."""
    end_s = time.process_time() + seconds
    return itertools.takewhile(lambda _: time.process_time() < end_s, itertools.count(first))


def run_apart(name: str, count: int, folder: Path) -> Record:
    """Run a parser in a process of its own, whose memory is that of the trials alone.

    FREETRAIN_MUTATIONS sets another count.
    """
    count = int(os.environ.get("FREETRAIN_MUTATIONS", count))
    options = ["--trials", str(count), "--folder", str(folder), "--json", name]
    command = [sys.executable, "-m", "tests.fuzzing", *options]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    return Record(**json.loads(done.stdout)[name])
