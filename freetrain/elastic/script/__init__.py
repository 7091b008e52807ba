"""Interface for training scripts: a loop that is theirs (``Loop``), or steps that the runtime makes (``Run``).

A step goes like this: the script takes batches and calls ``backward()``; before its optimizer steps, a hook adds
the gradients up over the ranks; when the script takes the next batch the step is concluded, and if the world has
changed by then the next one is entered. A rank that is lost within a step makes the step void: the script goes
on to its end, in which optimizers do nothing, and gets the same samples again in the next world.

Files, in reading order:

- ``loop.py``: :class:`Loop`: batches, epochs, what scripts may ask of the training.
- ``updates.py``: the step under way; the script's optimizers, whose gradients are added up before they step, and
  their schedules, which have to be carried along.
- ``gradients.py``: the sums themselves, in packs, during the backward pass or after it.
- ``run.py``: :class:`Run`, a thin layer over the loop.
- ``sharding.py``: models that are sharded over the workers of a node.
- ``local_steps.py``, ``adascale.py``: rounds of steps without exchange; learning rates for growing batches.
- ``hooks.py``: what the script is called with: sizes, completed steps, signals.
"""
