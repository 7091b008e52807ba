"""Workers that compute together: one world after the other in processes that live on.

A generation (who is in it, in which order, where its store is) comes in; a :class:`~.world.World` goes out, with
the collectives that the rest of the runtime uses. Every collective either ends or raises LostRankError: a rank
that is lost breaks the world, the watcher cuts its connections, and the next generation forms a new one without
a restart.

Files, in reading order:

- ``guarded_store.py``: where the ranks of a generation meet: a store that serves only processes that know its
  word.
- ``groups.py``: torch's process groups, formed and dropped, and the one that scripts find as torch's default.
- ``collectives.py``: collectives that cannot hold the training up, among all ranks or those with the same shard.
- ``calls.py``: before each collective the ranks announce it to each other, so that one that differs is found.
- ``replica.py``: workers of one node that hold one copy of the model together.
- ``world.py``: one generation's process group: formed, used, cut from another thread, left; and the servers that
  add up gradients in place of the workers.
- ``exchange.py``: many tensors, and plain documents, in few messages.
- ``device.py``: this worker's device: which, whether it computes, and the memory that steps free.
"""
