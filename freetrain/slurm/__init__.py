"""Slurm: the only room that knows its commands, its words and its oddities.

Facts of :mod:`freetrain.core` come out of it, orders go in as argument lists. Everything but running a
command is pure, and tested on recorded texts of several versions.

- ``opening.py`` chooses the door: ``command_line.py`` or ``pyslurm_client.py`` (with ``pyslurm_process.py`` and
  ``pyslurm_child.py``), both a ``gateway.py``.
- ``queries.py`` and ``commands.py``: what is asked and ordered; ``parsing/``, ``asking.py``, ``states.py``:
  what the answers mean; ``answers.py``: what is an answer at all; ``errors.py``: when there is none.
- ``tags.py``, ``tag_values.py``, ``comments.py``: what users write into a job's comment, and what is answered
  there.
- ``submissions.py``: tagged arrays; ``preconditions.py``: what they must be; ``registration.py``: ordinary
  jobs that become such.
- ``launcher.py``: how fragments are made, with ``steering.py`` (the users' own tasks) and ``submitting.py``
  (copies of a pattern).
- ``settings.py``, ``site/``: Slurm's configuration as a model: which jobs may preempt, delay or block others.
- ``node_groups.py``, ``finding.py``: smaller facts.
"""
