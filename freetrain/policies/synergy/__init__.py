"""Synergy (OSDI 2022): CPUs and memory of shared servers by what trainings can use of them.

In comes a shared node with new tasks and how long these wait for data; out come the CPUs and memory that each
gets, never less than it asks for (finishers ``synergy-tune`` and ``synergy-opt``).

Files in reading order:

- ``mechanisms.py``: a training's profile (rate by CPUs and memory), servers, and who has how much of them; TUNE,
  which places greedily and cuts to shares, and OPT, which HiGHS solves; both as finishers of decisions.
- ``experiment.py``: the published profiles, and a simulated cluster that compares TUNE with baselines.
"""
