"""Data of a training: the samples that come next, and how they are fetched.

The position in the data moves by whole steps of the whole world, and only when a step is complete: neither a
change of the world nor a lost rank makes a sample be seen twice or missed. A world's ranks take contiguous
shares of each batch.

In comes what the script gave: a DataLoader, a data set, an iterable or a number of samples. Out go the batches
of the step under way (``StepBatches``), whose position is part of the training's state.

Files, in reading order:

- ``batching.py``: samples per step; the position in the epochs, in orders that are computed and never listed;
  shares of ranks, and the protocol of the step's batches.
- ``drawing.py``: samples that can be asked for by number: each rank fetches its own share only.
- ``streams.py``: samples, or a loader's own batches, that come in order: each rank reads all and keeps its
  share.
- ``orders.py``: which of these a script wants, as its DataLoader says.
"""
