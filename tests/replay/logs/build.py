"""Small logs for the tests of the readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from freetrain.replay.logs import ReadOptions, SiteLog, read_site_log

HEADER = "JobID|JobName|Partition|State|Submit|Start|End|NNodes|NCPUS|NodeList"
HOUR_S = 3600.0
DAY = "2024-06-03T"

Write = Callable[[str], Path]


def row(job: str = "1", **fields: str) -> str:
    """A sound row of sacct; hours of the day stand for times, so that 08 is 2024-06-03T08:00:00.

    Who gives a node list, and no number of nodes, says nothing about their number.
    """
    if "list" in fields:
        fields = {"nodes": ""} | fields
    given = {
        "name": "job", "partition": "batch", "state": "COMPLETED",
        "submit": "00", "start": "01", "end": "02", "nodes": "1", "cores": "8", "list": "c1",
    } | fields  # fmt: skip
    for time in ("submit", "start", "end"):
        if given[time].isdigit() and len(given[time]) == 2:
            given[time] = f"{DAY}{given[time]}:00:00"
    return "|".join((job, *given.values()))


def sacct(*rows: str, header: str = HEADER) -> str:
    """A sacct file of these rows."""
    return "\n".join((header, *rows)) + "\n"


def read(path: Path, **options: object) -> SiteLog:
    """Read one log; the window covers the whole of 2024-06-03 where nothing else is said."""
    given: dict[str, object] = {"from_s": hour(0), "until_s": hour(24)} | options
    return read_site_log([path], ReadOptions(**given))  # type: ignore[arg-type]


def hour(number: float) -> float:
    """Epoch seconds of an hour on 2024-06-03."""
    return 1_717_372_800 + number * HOUR_S


def holes_of(log: SiteLog, node: str) -> list[tuple[float, float]]:
    """The holes of one node, in hours of the day."""
    number = log.holes.node_names.index(node)
    mine = log.holes.node == number
    pairs = zip(log.holes.start_s[mine], log.holes.end_s[mine], strict=True)
    return [((start - hour(0)) / HOUR_S, (end - hour(0)) / HOUR_S) for start, end in pairs]
