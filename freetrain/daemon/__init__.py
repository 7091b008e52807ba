"""The daemon: the lending loop on a live Slurm, with all that an installation needs around it.

``service.py`` begins, reloads and ends; ``timetable.py`` says when to look; ``lender.py`` makes one look: it
collects what the look has to know besides Slurm's answers, runs the loop, and publishes what came of it.

What comes in is Slurm's answers (through :mod:`freetrain.slurm`), the settings, users' progress files and
nudges. What goes out is orders to Slurm, rows in the database, and the published status. The pure judgement
between the two lives in :mod:`freetrain.lending`.

To read, in this order:

- ``live_cluster.py``: observes Slurm and carries actions out; ``fragments.py``: the books;
  ``housekeeping.py``: users' submissions between two looks.
- ``executor.py``: the only place that gives an order; each is in the audit before Slurm hears of it.
  ``background.py``: work that no look waits for.
- ``trainers/``: from what users submit to requests. ``admission/``: whether lending is safe at all.
  ``controls/``: stop, pause, drain and nudge. ``reports/``: status, metrics, log, mails.
- ``rules.py``, ``setup.py``: from settings to the rules and parts of the loop; ``state_directory.py``:
  files.
- ``external_actions.py``: what happened to trainings by people's hands, and while nobody looked;
  ``publisher.py``, ``log_output.py``: what is kept and shown of each look.
"""
