"""Running a part of freetrain on many inputs that chance has damaged: none may crash it, or cost much.

    python -m tests.mutations logs 20000
    python -m tests.mutations problems 10000

prints what came of it as JSON.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path

from freetrain.errors import FreetrainError

MOST_S = 2.0
MOST_BYTES = 1 << 30
_PARTS = {"logs": "tests.replay.logs.mutated_logs", "problems": "tests.policies.mutated_problems"}

Trial = Callable[[random.Random, Path], None]
"""Draws an input and runs on it; errors that users are told of may be raised. Files go to the folder."""


@dataclass
class Record:
    """What came of all trials.

    Attributes:
        trials: how many there were.
        refused: how many ended with a sentence for the user.
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


def run_here(part: str, count: int, first: int, folder: Path) -> Record:
    """Run the trials with these numbers, one after the other."""
    trial: Trial = import_module(_PARTS[part]).trial
    record = Record()
    for number in range(first, first + count):
        seed = f"{part} {number}"
        begin_s = time.process_time()
        try:
            trial(random.Random(seed), folder)
        except FreetrainError:
            record.refused += 1
        except BaseException as error:  # whatever it is, it is no sentence
            record.crashes.append((seed, "".join(traceback.format_exception_only(error)).strip()))
        took_s = time.process_time() - begin_s
        if took_s > record.slowest_s:
            record.slowest_s, record.slowest_seed = took_s, seed
        record.trials += 1
    record.crashes = record.crashes[:20]
    record.peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return record


def run_apart(part: str, count: int, folder: Path) -> Record:
    """The same in a process of its own, whose memory is that of the trials alone.

    FREETRAIN_MUTATIONS sets another count.
    """
    count = int(os.environ.get("FREETRAIN_MUTATIONS", count))
    command = [sys.executable, "-m", "tests.mutations", part, str(count), "0", str(folder)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return Record(**json.loads(done.stdout))


if __name__ == "__main__":
    part, count, *more = sys.argv[1:]
    first, folder = (*more, *("0", tempfile.gettempdir())[len(more) :])
    print(json.dumps(asdict(run_here(part, int(count), int(first), Path(folder)))))
