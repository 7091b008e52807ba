"""Nodes that single trainers get no more, whatever their tasks ask for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from freetrain.core.node import Nodes
from freetrain.core.place import node_of
from freetrain.lending.facts import Facts, Request


@dataclass(frozen=True, slots=True)
class Bar:
    """Offered places that a trainer does not get.

    Attributes:
        places: these nodes or parts of nodes; it keeps those of them that it has.
        why: in a sentence without its end, for its owner.
    """

    places: Nodes
    why: str


def merged(*bars: Mapping[str, Bar]) -> Mapping[str, Bar]:
    """What a trainer does not get for any of these reasons; the first is shown."""
    found: dict[str, Bar] = {}
    for trainer, bar in chain.from_iterable(reason.items() for reason in bars):
        before = found.get(trainer)
        found[trainer] = bar if before is None else Bar(before.places | bar.places, before.why)
    return found


def with_bars(facts: Facts, bars: Mapping[str, Bar]) -> Facts:
    """The facts, where tasks of these trainers cannot run on what they do not get."""
    if not bars:
        return facts
    return replace(facts, requests=tuple(_barred(request, bars) for request in facts.requests))


def _barred(request: Request, bars: Mapping[str, Bar]) -> Request:
    bar = bars.get(request.id)
    if bar is None:
        return request
    excluded = request.needs.excluded | frozenset(map(node_of, bar.places))
    return replace(request, needs=replace(request.needs, excluded=excluded))
