"""The commands: thin files, each with one or a few of a kind, which read options, ask a room below, and print.

``main.py`` lists the commands and turns errors into sentences and exit statuses. What several commands share:

- ``helping.py`` and ``options.py``: declaration of commands; options of the same name mean the same, and so do
  times and lists of nodes.
- ``site.py``: the site of ``--config``: the settings, Slurm, the daemon, its ledger, and the audit of
  people's orders.
- ``listing.py`` and ``progress_bars.py``: tables, fields and JSON, and the progress of long commands.

A new command goes to the file of its kind:

- ``submit.py``: submit, register, unregister; ``jobs.py``: jobs, top, explain; ``status.py``: status, health.
- ``orders.py``: pause, resume, drain, undrain, nudge, cancel, panic; ``ledger.py``: ledger, history, audit.
- ``policies.py``: policies, solve; ``run.py``: run, poke; ``nodes.py``: nodes, holes;
  ``helping.py``: completion.
- All others have a file of their own name: config, daemon, db, web, freeze, replay, sweep, runs, curve, lab.
"""
