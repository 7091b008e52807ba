"""Admission: whether the daemon may lend on this Slurm with these settings, decided before it does.

The settings and the live site come in; a daemon that begins, a refusal with what mends it, or the findings of
``freetrain config check`` come out. The same questions are asked at the start, at each reload, and now and
then after.

- ``admission.py``: all checks in their order: the site's jobs are safe from fragments (:mod:`freetrain.slurm.site`
  judges), and the account has its rights in Slurm; ``sole_lender.py``: nobody else lends here.
- ``contradictions.py``: settings that make no sense, alone or together, and names that nobody has.
- ``access.py``: the files that the daemon needs, and whether slurmctld can wake it.
- ``inspection.py``: all of it at once, for people, with a job that never runs and proves the account's rights; and
  a proposal for a site without settings.
"""
