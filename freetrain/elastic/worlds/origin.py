"""Where an error arose, whatever it says."""

from __future__ import annotations

_COMMUNICATING = ("torch.distributed", "torch.nn.parallel.distributed", "torch.autograd.graph")
"""Modules whose calls into torch's core may wait for other ranks. The last one starts the backward pass, which
runs the exchange of gradients as well as the script's own functions; these show as frames of their own."""


def arose_in_communication(error: BaseException) -> bool:
    """Whether the innermost Python frame of the error may have been waiting for other ranks."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return any(module == name or module.startswith(f"{name}.") for name in _COMMUNICATING)
