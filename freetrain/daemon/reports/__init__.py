"""Reports of the daemon on itself, to programs, to admins and to owners.

Everything is made from the results of a look; nothing here changes what is lent.

- ``status.py``: the published document, and how it is written and read; ``look_status.py``: what a look puts into
  it; ``standing.py``: what a reader makes of it, with whether a daemon is at work.
- ``metrics.py``: Prometheus's text. ``look_log.py``: lines of the log, each once.
- ``notices.py``: what somebody must hear of, gathered, and sent as mail or by a command.
- ``lent_days.py``: sums by day, so that the history stays small.
"""
