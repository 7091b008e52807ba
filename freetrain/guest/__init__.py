"""A guest: a process of its own that calls functions for its host, and is ended at a deadline.

In come a function's name, picklable arguments and seconds; out comes a ``GuestReport``: the answer, or why there
is none. It never raises and never takes longer than the time, a little patience and the start of a process.
Solvers run here, since a solver may hang, crash or use up memory, and a decision may not.

The guest is a fresh interpreter, never a fork. It keeps no open file and no signal of its host's, and ends with
it: it reads a pipe that the host holds open as long as it lives.

Files in reading order:

- ``channel.py``: what both sides share: whole messages over a socket, each within a time, and the report.
- ``child.py``: the guest's side.
- ``guest.py``: the host's side: the process, and the questions to it.
"""
