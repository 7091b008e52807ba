"""Lending: the judge, and all that it consists of. Pure: no clock, file, process or SQL.

:func:`freetrain.lending.judge.judge` takes what a look found out (``facts.py``), what was remembered
(``memory.py``) and the site's rules (``rules.py``), and gives a verdict on each node, orders, questions for
the policy, and the next memory. The daemon, replays and crash tests run the same.

To read, in this order:

- ``judge.py``: the steps of one look, and the time limits of fragments. ``shadow/``: what the site's jobs would do
  if nothing were lent.
- ``node_verdicts.py``: places that may be lent, and the table of reasons why a node is not, with ``hole_ends.py``,
  ``rooms.py`` (what is left of a node), ``blocked_jobs.py``, ``limit_claims.py``; ``causes.py``: whose fault
  failures are.
- ``sharing/``: who gets which of the offered nodes. ``training_verdicts.py``: the table of reasons why a training
  has no nodes, or no more.
- ``meter.py``, ``back_off.py``: what lending costs the site, and when it stops for that.
- ``stays.py``, ``planned_stays.py``, ``sightings.py``: what is learned from look to look; ``pace.py``: when to
  look next.
- ``reconcile.py``: books beside Slurm; ``lent_time.py``: node-hours, and their comparison with accounting.
"""
