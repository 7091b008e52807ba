"""The loop: one cycle of observing, judging, deciding, verifying, acting and recording.

It runs alike on a live Slurm, in a replay and in the crash tests: only the cluster and the clock differ,
behind the protocols in ``cycle.py``.

- ``cycle.py``: the cycle in one screen, the protocols of cluster, judge and journal, and how much of shared
  nodes new parts get.
- ``deciding.py``: one problem: the policy is asked, its answer checked and valued, and replaced by staying
  where it fails.
- ``lending_loop.py``: the cycle with the judge of :mod:`freetrain.lending`, and its memory from look to look.
"""
