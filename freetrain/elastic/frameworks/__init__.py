"""Callbacks for frameworks with loops of their own: at SIGTERM they save and end (``freetrain run --restart``).

Each file needs its framework, and the script that imports it has that. All of them ask one
:class:`freetrain.elastic.script.hooks.StopSignal` after each step, on every rank, so that all ranks save the same
step. Where the framework's checkpoint is, and how the script finds it when it starts, is the framework's affair.

- ``lightning.py``: a callback of Lightning's Trainer.
- ``transformers.py``: a callback of Hugging Face's Trainer.
"""
