"""Checks of the elastic runtime on one GPU or more, in ten minutes: ``python -m freetrain.elastic.gpu_check``.

Each check is a process of its own with a time limit, so that one that hangs or crashes is a line of the table.
Out go the table and an exit status: 0 where all that was possible went well, 1 where something did not, 2 where
nothing was possible.

- ``__main__.py``: the list of the checks, how they are run, and the table.
- ``checks.py``: the device, trainings and worlds of one rank, and ranks that come, leave, are killed and hang.
"""
