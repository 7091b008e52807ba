"""One worker's part in a training: its state, its way from world to world, its records.

The script's side (``script/``) makes the steps; this room keeps all ranks at the same state. At the start of a
world the ranks compare where they stand, and all go on from the replica that is furthest, or from the newest
checkpoint. In each step they exchange ballots: whether a newer world waits, whether to stop, and samples of what
has to be alike.

In come the script's model, optimizers and whatever else it carries along; out go worlds in which all ranks have
the same state, checkpoints, lines of progress, and at the end the file that says that the training is complete.

Files, in reading order:

- ``state.py``: what a newcomer needs to go on as if it had been there from the start; captured, restored,
  broadcast.
- ``tensors.py``: a state's tensors, of which some are sharded, and which travel apart from the rest.
- ``checkpoints.py``, ``sharded_checkpoints.py``: written whole in the background, the newest good one loaded.
- ``records.py``: what rank 0 writes down, and when.
- ``worlds.py``: from one world to the next with one state.
- ``ballots.py``: what the ranks exchange in a step, and what it comes to.
- ``training.py``: all of it together: join, enter worlds, conclude steps, end.
"""
