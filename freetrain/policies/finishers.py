"""Finishers: how many CPUs and how much memory new parts of shared nodes get, once it is decided who gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from freetrain.core.amounts import Amount
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.errors import InputError
from freetrain.policies.synergy.sensitivity import Profile, rate_by_data_wait
from freetrain.policies.synergy.shares import Server, SharingJob
from freetrain.policies.synergy.tune import finish

_WAITS = 0.05
"""A training that waits for data for a smaller part of its steps gains next to nothing by more CPUs."""


class Finisher(Protocol):
    """Decides what parts of a node get beyond what they ask for."""

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        """Place → all that it gets, never less than it asks for; places that are missing get what they ask for."""


class AsAsked:
    """Everybody gets what it asks for."""

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        """Nothing more."""
        return {}


AS_ASKED = AsAsked()


class SynergyTune:
    """Synergy's TUNE (OSDI 2022), of what a node has left when everybody has what it asks for.

    Who waits for data gets more CPUs: as many as it would take to wait no more, if reading takes time in
    proportion to them. What is offered is the share of the new parts' GPUs of all GPUs that are free there, so
    that the others do not idle for want of CPUs. Memory stays what was asked for, as nobody knows what
    more would bring.
    """

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        """What those get that wait for data."""
        gpus = sum(part.asks.gpus for part in node.parts)
        if not gpus or all(part.data_wait_share < _WAITS for part in node.parts):
            return {}
        offered = Server(node.name, gpus, node.spare.cpus * gpus // max(node.free_gpus, gpus), 0)
        jobs = [SharingJob(part.place, part.asks.gpus, _gain(part, node)) for part in node.parts if part.asks.gpus]
        given = finish(offered, jobs)
        threads = max(node.threads_per_core, 1)
        more = {place: int(parts[node.name].cpus + 1e-9) // threads * threads for place, parts in given.items()}
        asked = {part.place: part.asks for part in node.parts}
        return {
            place: replace(asked[place], cpus=asked[place].cpus + cpus) for place, cpus in more.items() if cpus
        }


def _gain(part: NewPart, node: SharedNode) -> Profile:
    """What CPUs beyond those that it asks for bring, for each of its GPUs."""
    asked, gpus, threads = max(part.asks.cpus, 1), part.asks.gpus, max(node.threads_per_core, 1)
    steps = range(0, node.spare.cpus + 1, threads) if part.data_wait_share >= _WAITS else range(1)
    rates = tuple(rate_by_data_wait(part.data_wait_share, asked, asked + more) for more in steps)
    return Profile(tuple(more / gpus for more in steps), (0.0,), (rates,))


FINISHERS: Mapping[str, Finisher] = {"as-asked": AS_ASKED, "synergy-tune": SynergyTune()}


def find_finisher(name: str) -> Finisher:
    """The finisher of this name.

    Raises:
        InputError: there is no such finisher.
    """
    if name not in FINISHERS:
        raise InputError(f"there is no finisher {name}.", f"There are {', '.join(FINISHERS)}.")
    return FINISHERS[name]
