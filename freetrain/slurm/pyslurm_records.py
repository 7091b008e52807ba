"""Records of pyslurm's collections, as JSON: functions that a guest calls, see :mod:`freetrain.guest`.

Every call of pyslurm holds the interpreter's lock while Slurm keeps it waiting, its import ends the process where
Slurm's configuration is bad, and some calls crash. None of that may happen to the daemon.
"""

from __future__ import annotations

import enum
import json
import operator
import os
import pwd
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from freetrain.slurm.commands import ENVIRONMENT

WANTED = {
    "Nodes": (
        "name", "state", "active_features", "partitions", "effective_cpus", "total_cpus", "real_memory",
        "temporary_disk", "configured_gres", "sockets", "cores_per_socket", "threads_per_core",
        "reason",
    ),
    "Jobs": (
        "id", "array_id", "array_task_id", "array_tasks_waiting", "array_tasks_parallel",
        "heterogeneous_id", "heterogeneous_offset", "user_name", "account", "partition", "qos", "state",
        "state_reason", "submit_time", "start_time", "end_time", "time_limit", "num_nodes", "priority",
        "allocated_nodes", "scheduled_nodes", "required_nodes", "constraints", "dependencies", "comment",
    ),
    "Reservations": ("name", "nodes", "start_time", "end_time", "flags", "reoccurrence", "purge_time"),
    "Partitions": (
        "name", "nodes", "state", "priority_tier", "preempt_mode", "preemption_grace_time", "max_time",
        "default_memory_per_cpu", "default_memory_per_node",
    ),
}  # fmt: skip
"""Fields that are read of each of pyslurm's collections; a question is one of these names, or several."""


def version(left_s: Callable[[], float]) -> str:
    """Version of pyslurm."""
    return str(_pyslurm().__version__)


def load(*collections: str, left_s: Callable[[], float]) -> str:
    """Records of these collections as JSON: collection → records, each with the fields that are wanted of it."""
    answer = {name: _load(getattr(_pyslurm(), name), WANTED[name]) for name in collections}
    # Flags are the one kind of value that JSON does not know.
    return json.dumps(answer, separators=(",", ":"), default=lambda flags: flags.value)


@cache
def _pyslurm() -> Any:
    os.environ.update(ENVIRONMENT)
    import pyslurm

    # Otherwise a flag of Slurm's that pyslurm does not know is a ValueError, and the reservation is lost.
    pyslurm.ReservationFlags._boundary_ = enum.KEEP
    return pyslurm


def _load(collection: Any, wanted: tuple[str, ...]) -> list[list[object]]:
    # Without the names of fields, which would make four times as much to send. Owners as numbers, because pyslurm
    # would look up the name of each job's owner again, which may mean a directory server each time.
    fields = ["user_id" if name == "user_name" else name for name in wanted]
    get = operator.attrgetter(*fields)
    records: list[list[Any]] = []
    for record in collection.load().values():
        try:
            records.append(list(get(record)))
        except ValueError:
            records.append([_value(record, field) for field in fields])
    if "user_name" in wanted:
        owner = wanted.index("user_name")
        for record in records:
            record[owner] = _user_name(record[owner])
    return records


def _value(record: object, field: str) -> object:
    try:
        return getattr(record, field)
    except UnicodeDecodeError as error:
        # Anybody's comment may hold any bytes
        return error.object.decode("utf-8", "replace")
    except ValueError:
        # Pyslurm does not understand each count of generic resources
        return None


@lru_cache(maxsize=65536)
def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
