"""Elastic training: worlds that grow and shrink without restarting their processes.

Five lines in a training script::

    from freetrain import elastic

    with elastic.Run(model, optimizer, dataset, elastic.FixedBatch(64), epochs=3) as run:
        for step in run.steps():
            for inputs, targets in step:
                step.backward(loss_of(run.model(inputs), targets))

A script that is to keep its own loop over batches and its own optimizer steps uses :class:`Loop`; its model may be
sharded over the workers of each node (:func:`node_mesh`).

From above: ``gpu_check``, ``adopting`` and ``frameworks``, ``script`` and ``on_node``, ``training`` and
``feeding``, ``data``, ``membership``, ``worlds``, ``on_disk``; each imports only what is below it, and its
docstring tells its protocol.

Standard library and torch only (and in ``frameworks`` the framework); torch itself is imported when the first of
these names is used, so that the agent, which needs none of it, starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freetrain.elastic.data.batching import FixedBatch, ScaledBatch
    from freetrain.elastic.script.adascale import AdaScale
    from freetrain.elastic.script.hooks import Resize, StepResult, StopSignal, scale_learning_rate
    from freetrain.elastic.script.local_steps import LocalSteps
    from freetrain.elastic.script.loop import Loop
    from freetrain.elastic.script.run import Run, Step
    from freetrain.elastic.script.sharding import node_mesh
    from freetrain.elastic.worlds.device import device

__all__ = [
    "AdaScale",
    "FixedBatch",
    "LocalSteps",
    "Loop",
    "Resize",
    "Run",
    "ScaledBatch",
    "Step",
    "StepResult",
    "StopSignal",
    "device",
    "node_mesh",
    "scale_learning_rate",
]

_HOMES = {
    "data.batching": ("FixedBatch", "ScaledBatch"),
    "script.adascale": ("AdaScale",),
    "script.hooks": ("Resize", "StepResult", "StopSignal", "scale_learning_rate"),
    "script.local_steps": ("LocalSteps",),
    "script.loop": ("Loop",),
    "script.run": ("Run", "Step"),
    "script.sharding": ("node_mesh",),
    "worlds.device": ("device",),
}


def __dir__() -> list[str]:
    """The public names, which are imported when they are used."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
