"""Slurm: the only room that knows its commands, its words and its oddities.

Facts of :mod:`freetrain.core` come out of it, orders go in as argument lists. Everything but running a
command is pure, and tested on recorded texts of several versions.

- ``opening.py`` chooses the door: ``command_line.py`` or ``pyslurm_client.py`` (with ``pyslurm_records.py``,
  which runs in a guest), both a ``gateway.py``.
- ``queries.py`` and ``commands.py``: questions and orders; ``parsing/``, ``asking.py``, ``states.py``: meaning of
  the answers; ``answers.py``: checks that a text is an answer; ``errors.py``: errors where there is none.
- ``tags.py``, ``comments.py``: users' texts in a job's comment, and the answers there.
- ``submissions.py``: tagged arrays; ``preconditions.py``: their preconditions; ``registration.py``: ordinary
  jobs that become such.
- ``launcher.py``: interface of the launchers, which are ``steering.py`` (the users' own tasks) and
  ``submitting.py`` (copies of a pattern).
- ``settings.py``, ``site/``: Slurm's configuration as a model: which jobs may preempt, delay or block others.
- ``node_groups.py``, ``finding.py``: smaller facts.
"""
