"""The trainer's directory on the shared file system: the one place where the truth about a trainer lives.

Workers, agents, the daemon and people meet here, on file systems without locks (NFS). Every fact is a small file
of its own, written whole, created once and never changed: a stale look shows an earlier truth, never a wrong
one.

In comes what workers and agents do (join, leave, beat, publish a generation). Out go views: frozen pictures
of the directory, from which every member decides the same next generation, purely. What was not signed with the
trainer's secret is refused.

Files, in reading order:

- ``files.py``: writing whole, creating once, checking before use.
- ``members.py``: the records: members, generations, and the secret that signs them.
- ``next_generation.py``: a view, the generation that should follow, and who proposes it. Pure.
- ``directory.py``: reads and writes all of it; remembers what it has read, so that a look is cheap.
- ``progress.py``: lines of JSON about speed and changes, for the daemon; as they are written, and as they are
  believed, since users can write there, too.

Nothing here imports torch: the agent and the daemon read these files without it.
"""
