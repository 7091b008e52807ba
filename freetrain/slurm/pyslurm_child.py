"""The program that uses pyslurm, in a process of its own: a line asks, a line answers.

Every call of pyslurm holds the interpreter's lock while Slurm keeps it waiting, its import ends the process where
Slurm's configuration is bad, and some calls crash. None of that may happen to the daemon. This program knows
nothing of what the answers are for: it hands on what pyslurm says, as JSON, and ends when nobody asks any more.
"""

from __future__ import annotations

import enum
import json
import os
import sys
from typing import Any, TextIO

WANTED = {
    "Nodes": ("name", "state", "active_features", "partitions"),
    "Jobs": (
        "id", "array_id", "array_task_id", "array_tasks_waiting", "array_tasks_parallel",
        "heterogeneous_id", "heterogeneous_offset", "user_name", "account", "partition", "state", "state_reason",
        "submit_time", "start_time", "end_time", "time_limit", "num_nodes", "priority", "allocated_nodes",
        "scheduled_nodes", "required_nodes", "constraints", "comment",
    ),
    "Reservations": ("name", "nodes", "start_time", "end_time", "flags", "reoccurrence", "purge_time"),
    "Partitions": (
        "name", "nodes", "state", "priority_tier", "preempt_mode", "preemption_grace_time", "max_time",
    ),
}  # fmt: skip
"""What is asked of each of pyslurm's collections: a question is one of these names, or several."""


def main() -> None:
    """Say hello, then answer until standard input ends."""
    answers = _take_standard_output()
    try:
        import pyslurm
    except Exception as error:
        _say(answers, {"missing": f"{type(error).__name__}: {error}"})
        return
    pyslurm.ReservationFlags._boundary_ = enum.KEEP  # else flags unknown to pyslurm are a ValueError
    _say(answers, {"version": pyslurm.__version__})
    for question in sys.stdin:
        try:
            answer = {name: _load(getattr(pyslurm, name), WANTED[name]) for name in question.split()}
        except pyslurm.PyslurmError as error:
            _say(answers, {"error": str(error)})
        else:
            _say(answers, answer)


def _take_standard_output() -> TextIO:
    """A stream to the asker; what Slurm's library prints goes to standard error instead."""
    mine = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(mine, "w", encoding="ascii")


def _say(answers: TextIO, answer: object) -> None:
    answers.write(json.dumps(answer, separators=(",", ":")) + "\n")
    answers.flush()


def _load(collection: Any, wanted: tuple[str, ...]) -> list[dict[str, object]]:
    return [{name: _read(record, name) for name in wanted} for record in collection.load().values()]


def _read(record: object, name: str) -> object:
    try:
        value = getattr(record, name)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace")  # anybody's comment may hold any bytes
    return value.value if isinstance(value, enum.Enum) else value


if __name__ == "__main__":
    main()
