"""Finishing: how much of shared nodes the new parts get that have just been decided.

Where the finisher's answer cannot be used, whatever the reason, the parts of that node get what they ask for: no
error of a finisher's ends a look.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from freetrain.core.amounts import Amount
from freetrain.core.fragment import node_of
from freetrain.core.shared_nodes import NewPart, SharedNode
from freetrain.policies import Finisher


@dataclass(frozen=True, slots=True)
class Finished:
    """What new parts get.

    Attributes:
        amounts: place → all that it gets, where that is more than its task asks for.
        notes: trainer → sentences on what it gets, and why nobody gets more.
    """

    amounts: Mapping[str, Amount] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def finish(finisher: Finisher, nodes: Iterable[SharedNode]) -> Finished:
    """Ask the finisher about each node; what breaks a rule is not used."""
    amounts: dict[str, Amount] = {}
    notes: defaultdict[str, list[str]] = defaultdict(list)
    more: defaultdict[tuple[str, Amount, Amount], list[str]] = defaultdict(list)
    for node in nodes:
        given = _ask(finisher, node)
        if isinstance(given, str):
            for trainer in {part.trainer: None for part in node.parts}:
                notes[trainer].append(given)
            continue
        amounts |= given
        for part in node.parts:
            if part.place in given:
                more[part.trainer, given[part.place], part.asks].append(node_of(part.place))
    for (trainer, amount, asks), on in more.items():
        notes[trainer].append(f"{trainer} gets {amount} on {', '.join(on)}; it asks for {asks}.")
    return Finished(amounts, {trainer: tuple(text) for trainer, text in notes.items()})


def _ask(finisher: Finisher, node: SharedNode) -> dict[str, Amount] | str:
    """Place → what it gets, or why that cannot be used."""
    name = type(finisher).__name__
    try:
        given = dict(finisher.finish(node))
        wrong = list(_wrong(node, {part.place: part for part in node.parts}, given))
    except (Exception, SystemExit) as error:  # somebody else's finisher may raise anything
        text = " ".join("".join(traceback.format_exception_only(error)).split())
        return f"the finisher {name} failed, so new parts of {node.name} get what they ask for: {text}"
    if wrong:
        return f"what the finisher {name} gives on {node.name} was rejected: {'; '.join(wrong)}"
    return given


def _wrong(node: SharedNode, parts: Mapping[str, NewPart], given: Mapping[str, Amount]) -> Iterator[str]:
    """The rules that are broken: new parts only, nobody less than it asks for, together no more than is left."""
    yield from (f"{place} is no new part" for place in given if place not in parts)
    known = {place: amount for place, amount in given.items() if place in parts}
    for place, amount in known.items():
        asks = parts[place].asks
        if amount.gres != asks.gres or amount.cpus < asks.cpus or amount.memory_mb < asks.memory_mb:
            yield f"{place} asks for {asks} and gets {amount}"
    cpus = sum(amount.cpus - parts[place].asks.cpus for place, amount in known.items())
    memory_mb = sum(amount.memory_mb - parts[place].asks.memory_mb for place, amount in known.items())
    if cpus > node.spare.cpus or memory_mb > node.spare.memory_mb:
        yield f"{cpus} CPUs and {memory_mb} MB are more than the {node.spare} that are left"
