"""Adopted scripts: scripts for torchrun that train elastically as they are (``freetrain run --adopt``).

The script is run as for N ranks (``--ranks``), however many workers there are. So what it computes from the
world's size stays right: a step takes the samples that N ranks would take, and its losses are those of N ranks.

A worker goes through three phases:

1. *Set-up.* ``init_process_group`` makes a process group in which each worker is alone. Models that are wrapped
   in DistributedDataParallel, optimizers, schedules and gradient scalers are noted as they are made.
2. *Rehearsal.* The first optimizer step shows which loader is the training's. It changes nothing, nor do those
   that follow until the script is in the epoch in which the training is: each loop over a loader ends after one
   step, or one batch. Collectives give the worker's own values; ``torch.save`` leaves files that exist alone.
   What the script counts is put back.
3. *Training.* The worker joins when the script asks for its next batch. From there on the loader gives this rank's
   part of each batch, and all else is a :class:`freetrain.elastic.script.loop.Loop`. ``get_rank`` and
   ``get_world_size`` now tell of the world as it is; other loaders with a DistributedSampler are divided by it.

The end of the script is the end of the training. A script of another form ends with one sentence and
``NOT_ADOPTED_STATUS``, and the agents go on in restart mode.

Files, in reading order: ``adoption.py`` (the phases), ``adopted_loop.py`` (the loop that the script does not know
of), ``samplers.py`` (which samples are whose), ``counts.py`` (numbers in the script's variables), ``patches.py``
(what of torch is replaced), ``__main__.py`` (runs the script).
"""
