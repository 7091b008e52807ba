"""Readers of a site's logs: from sacct, SWF or node events to the holes of the machine.

In come files and ``ReadOptions``; out comes a ``SiteLog``: the holes, the jobs, what lay idle on used nodes, and
notes on all that was assumed. No row is left out without a count, no oddity without a note or a warning.
What cannot be read, or does not say enough, is an ``InputError`` whose sentence names it.

``model.py``       what is asked for and given back
``reader.py``      the way from files to a ``SiteLog``; begin here
``source.py``      bytes of a file, and which kind of log they are
``rows.py``        delimited text as rows
``times.py``       times as logs write them
``sacct_text.py``  the text of ``sacct -P``
``traces.py``      ``sacct --json``, public traces and other tables as such text; ``toml_files.py``: files on logs
``sacct_jobs.py``  what its fields mean; ``other_logs.py``: SWF, and events of nodes
``parsed.py``      runs of jobs as these readers hand them on; what becomes of each row, and notes and warnings
``nodelists.py``   node lists as positions; ``machine.py``: the machine's pools
``placing.py``     jobs on nodes
``jobs.py``        the jobs of all files: runaways cut off, notes, what a daemon would have seen
``window.py``      the time that is looked at
``busy.py``        when nodes are busy, or out of service
``shares.py``      what lay idle on nodes beside their jobs
"""

from __future__ import annotations

from freetrain.replay.logs.model import LoggedJobs, ReadOptions, SiteLog, TaskRequest
from freetrain.replay.logs.parsed import RejectedRow, RowCount
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
