"""The commands: thin files, each with one or a few of a kind, which read options, ask a room below, and print.

``main.py`` lists the commands and turns errors into sentences and exit statuses. What several commands share:
``options.py`` (options of the same name mean the same, and so do times and lists of nodes), ``output.py`` and
``listing.py`` (tables, JSON, what is too long), ``progress_bars.py``, ``noting.py`` (people's orders go into the
audit).

A new command goes to the file of its kind:

- ``submit.py``: submit, register, unregister; ``jobs.py``: jobs, explain; ``cancel.py``: cancel, panic.
- ``pause.py``: pause, resume, drain, undrain, nudge; ``status.py``: status, health;
  ``history.py``: history, audit.
- ``policies.py``: policies, bench; ``run.py``: run, poke; ``nodes.py``: nodes, holes; ``helping.py``: completion.
- All others have a file of their own name: config, daemon, top, ledger, db, web, freeze, replay, sweep, runs,
  solve, curve, lab.
"""
