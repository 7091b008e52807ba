"""The pure core: facts, problems, values, plans, checks. No clock, no files, no processes, no SQL, no torch.

In come frozen facts of one instant, out come frozen values; time is always an argument. Everything else builds on
it, and it imports nothing of the rest but ``errors.py``.

Files in reading order:

- *Slurm's facts*: ``amounts.py`` (CPUs, memory, generic resources), ``node.py``, ``job.py``, ``cluster.py`` (the
  snapshot), ``topology.py``, ``fragment_queue.py``, ``place.py`` (a node or a part of
  one that may be lent), ``fragment.py`` (one that is lent to a trainer).
- *Trainers*: ``bounds.py`` (of all values that come in), ``throughput.py`` (curves and their fit), ``trainer.py``
  (with its servers and its past), ``needs.py`` (of its tasks), ``observed.py`` (speeds and costs as seen),
  ``known_trainer.py`` (the daemon's record, and the curve that it is believed to have), ``data_wait.py``.
- *The problem*: ``aim.py`` and ``objectives.py`` (what a site wants), ``terms.py`` (trainers as arrays),
  ``deadlines.py``, ``power.py`` (what nodes draw), ``classes.py`` (nodes that are alike, and the choices among
  them), ``problem.py``, ``value.py`` (the objective function, with the formula).
- *The answer*: ``decision.py`` (allocation, placement and decision), ``verify.py``, ``plan.py`` (actions, safe at
  every prefix).
- *History*: ``holes.py``, ``harm.py``; ``quick_enum.py`` makes enumerations fast.
"""
