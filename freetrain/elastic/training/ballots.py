"""Ballots that the ranks exchange in every step, with the call that comes before its sums: pure arithmetic."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from freetrain.elastic.training.tensors import local
from freetrain.elastic.worlds.calls import PAYLOAD_BYTES, PendingCalls

COMPARED = 8
"""Learning rates, and values of the model, that each step compares: so few cost some microseconds."""

# Relative. Ranks on processors of different makes may differ in the last digits and drift apart a bit; a rank that
# goes a way of its own differs by more before long.
_RATE_TOLERANCE, _VALUE_TOLERANCE = 1e-4, 1e-3
_LAYOUT = struct.Struct(f"<??ddd{COMPARED}d{COMPARED}d")
assert _LAYOUT.size <= PAYLOAD_BYTES
_SAMPLED_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Samples:
    """A few values of the model, others in every step, so that in time all tensors are looked at."""

    def __init__(self, module: torch.nn.Module) -> None:
        # Torch's mark for what DDP leaves alone, so that ranks may have values of their own.
        unshared = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
        self._parameters = [
            parameter
            for name, parameter in module.named_parameters()
            if name not in unshared
            and parameter.dtype in _SAMPLED_TYPES
            and parameter.layout is torch.strided
            and local(parameter).numel()
        ]

    def at(self, step: int) -> list[float]:
        """The values of this step, the same ones on ranks with the same shard; no more than these are copied."""
        if not self._parameters:
            return []
        values = local(self._parameters[step % len(self._parameters)].detach())
        while values.dim() > 1:
            values = values[step % len(values)]
        return [float(value) for value in values.reshape(-1)[:COMPARED].tolist()]


@dataclass(frozen=True, slots=True)
class Ballot:
    """One rank's report in a step."""

    change: bool  # whether it knows of a newer world that waits
    stop: bool  # whether its script wants the training to end
    loss_share: float  # its part of the step's mean loss
    rates: Sequence[float] = ()  # its learning rates; all are compared, and the first are shown
    values: Sequence[float] = ()  # some of its parameters; ranks with the same shard have the same ones

    def pack(self) -> bytes:
        """The ballot as bytes, always as many."""
        # All rates in one number, in which also two differ that have changed places.
        weighted = sum(place * rate for place, rate in enumerate(self.rates, 1))
        size = sum(place * abs(rate) for place, rate in enumerate(self.rates, 1))
        return _LAYOUT.pack(
            self.change, self.stop, self.loss_share, weighted, size, *_eight(self.rates), *_eight(self.values)
        )


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The outcome of a step's ballots, the same on all ranks."""

    change: bool  # whether the world changes now
    stop: bool  # whether the training ends now
    loss: float  # mean over the step's samples


def count_ballots(asked: PendingCalls, step: int, shards: int = 1) -> StepVerdict:
    """The outcome of all ranks' ballots; so many ranks have the shards of one model.

    Raises LostRankError if a rank was lost, or differs and is ended; OddOneOutError if this one differs.
    """
    calls = asked.wait()
    rows = [_LAYOUT.unpack_from(call.payload.ljust(_LAYOUT.size, b"\0")) for call in calls]
    rates, values = [row[5 : 5 + COMPARED] for row in rows], [row[5 + COMPARED :] for row in rows]

    def other_rates(odd: int, right: int) -> str:
        return (
            f"its learning rates in step {step} are {_few(rates[odd])}, and the others' {_few(rates[right])}: a "
            "schedule that is not in also={...}, or a rate changed by hand"
        )

    def other_values(odd: int, right: int) -> str:
        return (
            f"its parameters differ before step {step}, some being {_few(values[odd])}, and the others' "
            f"{_few(values[right])}: they have to be changed by the optimizer alone, or alike on all ranks"
        )

    asked.expel_odd(calls, [row[3:5] for row in rows], other_rates, _rates_alike)
    for shard in range(shards):
        asked.expel_odd(calls, values, other_values, _values_alike, range(shard, len(rows), shards))
    return StepVerdict(any(row[0] for row in rows), any(row[1] for row in rows), sum(row[2] for row in rows))


def _rates_alike(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    return not abs(mine[0] - theirs[0]) > _RATE_TOLERANCE * mine[1]


def _values_alike(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    pairs = list(zip(mine, theirs, strict=True))
    # 'not … >' below, as NaN differs from nothing: to look for it is the script's affair.
    size = sum(abs(a) + abs(b) for a, b in pairs) / 2
    return not sum(abs(a - b) for a, b in pairs) > _VALUE_TOLERANCE * size


def _eight(numbers: Sequence[float]) -> list[float]:
    return [*numbers[:COMPARED], *[0.0] * (COMPARED - len(numbers))]


def _few(numbers: Sequence[float]) -> str:
    shown = [f"{number:g}" for number in numbers]
    while len(shown) > 1 and shown[-1] == "0":
        shown.pop()
    return ", ".join(shown[:3]) + (" …" if len(shown) > 3 else "")
