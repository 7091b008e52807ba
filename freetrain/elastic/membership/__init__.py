"""Membership in a trainer: how a worker comes, stays and goes.

A worker writes its member record and starts a watcher, a thread beside the training. The watcher leaves
heartbeats, looks at the directory up to a hundred times a second, records members that are lost, and proposes
the next generation when it is this member's turn. The main thread leaves a world that broke, waits for the next
generation, and forms its world.

In come the trainer's directory and the timeouts; out go worlds (``Session.reform``), or an exception that says
why this worker's part has ended (``Departed``), or that it cannot belong (``ForeignTrainerError``).

Files, in reading order:

- ``identity.py``: this process as a member, the address by which others reach it, and what must be alike.
- ``watcher.py``: the thread that looks, records and proposes, and gets the main thread out of a broken world.
  First which members are alive, slow or hung, from their heartbeats; clocks of hosts are never compared.
- ``session.py``: the main thread's side: join, form worlds, say goodbye.
"""
