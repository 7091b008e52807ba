"""What all members must have in common, part by part, so that a difference can be named."""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path

import torch

from freetrain.elastic.data.sampler import Sampler


def fingerprint(module: torch.nn.Module, sampler: Sampler, batch: object) -> str:
    """``model=… data=… batch=… script=…``, each with a digest."""
    shapes = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in module.state_dict().items()]
    parts = {
        "model": shapes,
        "data": (sampler.samples, sampler.shuffle, sampler.drop_last),
        "batch": batch,
        "script": _script(),
    }
    return " ".join(
        f"{name}={hashlib.sha256(repr(fact).encode()).hexdigest()[:12]}" for name, fact in parts.items()
    )


def _script() -> str:
    """The script's code without comments and layout; empty where there is no file of it."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    try:
        return ast.dump(ast.parse(Path(path or "").read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return ""
