"""Admission: whether the daemon may lend on this Slurm with these settings, decided before it does.

The settings and the live site come in; a daemon that begins, a refusal with what mends it, or the findings of
``freetrain config check`` come out. The same questions are asked at the start, at each reload, and now and
then after.

- ``admission.py``: all checks in their order; ``checks.py``: what they share; ``choices.py``: what the
  settings name exists.
- ``site_guard.py``: the site's jobs are safe from fragments (:mod:`freetrain.slurm.site` judges);
  ``sole_lender.py``: nobody else lends here; ``wake_check.py``: slurmctld can wake the daemon.
- ``contradictions.py``, ``names.py``: settings that make no sense together, names that nobody has.
- ``inspection.py``: all of it at once, for people, with files that the daemon needs and a job that never runs
  and proves its account's rights; ``first_configuration.py``: a proposal for a site without settings.
"""
