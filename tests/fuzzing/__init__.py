"""Fuzzing: every parser of text that others write, run on recorded text that chance has damaged.

    python -m tests.fuzzing                          a second for each parser
    python -m tests.fuzzing --seconds 60 slurm "users tags"  a minute for each of Slurm's answers, and for tags

None may end otherwise than with facts or with the error that its docstring names, and none may cost much. Each
trial has a seed, which is printed where it fails, and runs again with
``python -m tests.fuzzing --first NUMBER --trials 1 PARSER``.

- ``running.py``: runs trials, and keeps what came of them.
- ``damage.py``: how chance damages a text.
- ``slurm_answers.py``: what Slurm's commands print.
- ``users_texts.py``: what users write, and what a browser sends; ``store_messages.py``: what ranks send.
- ``site_files.py``: what admins write, and what freetrain reads back of its own.

Logs and decision problems have theirs beside their tests: ``tests/replay/logs/mutated_logs.py`` and
``tests/policies/mutated_problems.py``.
"""
