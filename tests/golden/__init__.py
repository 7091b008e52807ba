"""Golden recordings: every verdict, order and decision, recorded as rows and compared.

``cases.py`` names replays as the daemon, ``without_logs.py`` makes random walks and random problems,
``recorder.py`` turns each look into rows, and the command does the rest:

    python -m tests.golden record DIR [--data DIR] [CASE…]
    python -m tests.golden compare DIR [--data DIR] [CASE…]

A change that is meant to make looks quicker must leave all rows equal. Verdicts are kept as differences from the
look before, so that a day of a large machine is a file of some megabytes.
"""
