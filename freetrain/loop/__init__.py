"""The loop: one cycle of observing, judging, deciding, verifying, acting and recording.

It runs alike on a live Slurm, in a replay and in the crash tests: only the cluster and the clock differ,
behind the protocols in ``cycle.py``.

- ``cycle.py``: the cycle in one screen, and the protocols of cluster, judge and journal.
- ``deciding.py``: policy, placer and finisher are asked, and their answers checked, valued and replaced where they
  fail.
- ``lending_loop.py``: the cycle with the judge of :mod:`freetrain.lending`, and its memory from look to look.
"""
