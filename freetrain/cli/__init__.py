"""The commands: one thin file for each, which reads options, asks a room below, and prints.

``main.py`` lists the commands and turns errors into sentences and exit statuses. What several commands share:
``options.py`` (options of the same name mean the same, and so do times and lists of nodes), ``output.py`` and
``listing.py`` (tables, JSON, what is too long), ``progress_bars.py``, ``noting.py`` (people's orders go into the
audit).

For users: submit, register, unregister, jobs, explain, poke, resume, cancel. For admins: config, daemon,
status, nodes, holes, top, health, pause, drain, nudge, panic, audit, ledger, history, db, web. Replay:
replay, sweep, runs, solve, policies, bench. Elastic training: run, curve. Lab: lab.
"""
