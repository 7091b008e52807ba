"""Trainers: from what users submit and write to requests that the loop can decide on.

A tagged array in Slurm's queue comes in; a :class:`freetrain.lending.facts.Request` comes out, or a sentence
for its owner. What a user writes is a claim: it is bounded where it is read, and judged for that trainer
alone.

- ``registry.py``: one look at all trainers, with what their tasks ask for, and what becomes of each after it.
- ``training.py``: one training with all that is known of it, and what follows from how its fragments ended.
- ``kinds.py``: what differs between elastic trainings, arrays of tasks, and arrays of tasks of several nodes, up
  to what each asks for, and what changes cost it; ``needs.py``: what a policy would have to know.
- ``progress_reader.py``: progress files, read in a thread of their own, whatever stands there.
- ``isolation.py``: what goes wrong with one trainer stays with it.
"""
