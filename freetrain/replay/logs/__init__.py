"""Readers of a site's logs: from sacct, SWF or node events to the holes of the machine."""

from __future__ import annotations

from freetrain.replay.logs.model import LoggedJobs, ReadOptions, RejectedRow, RowCount, SiteLog, TaskRequest
from freetrain.replay.logs.reader import read_site_log
from freetrain.replay.logs.times import parse_log_time

__all__ = [
    "LoggedJobs",
    "ReadOptions",
    "RejectedRow",
    "RowCount",
    "SiteLog",
    "TaskRequest",
    "parse_log_time",
    "read_site_log",
]
