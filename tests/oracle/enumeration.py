r"""The optimum by trying everything: for small problems, nodes that are due back included.

Nothing of ``freetrain.core`` is used but the problem itself: worth, costs, lives and the no-migration rule
are all worked out here once more, in plain Python, from what docs say about them.

Nodes of one kind that are due back at the same time are interchangeable, so what a trainer may have is a number
of nodes for each such pair. Every trainer's every choice is valued, and the best choices that fit together
are found by going through the trainers one by one, with the best value known for each number of nodes
used up so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product

import numpy as np

from freetrain.core.place import Place
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer

Amounts = tuple[int, ...]
"""Nodes for each time at which nodes are due back, each kind and each wattage that they are of, in this order."""
Slots = Sequence[tuple[float, str, float]]
"""These times, in seconds from now, kinds and watts."""


def best_by_enumeration(problem: Problem) -> float:
    """The most that any allocation of the problem's nodes is worth."""
    slots = sorted({(_end_s(problem, node), *node.traits) for node in _present(problem)})
    there = _amounts(problem, slots, _present(problem))
    best = np.zeros([count + 1 for count in there])
    for trainer in problem.trainers:
        best = _with_trainer(best, _choices(problem, trainer, slots))
    return float(best.max())


def _with_trainer(best: np.ndarray, choices: Mapping[Amounts, float]) -> np.ndarray:
    """Best value by nodes used up, once one more trainer has made its choice."""
    after = np.full_like(best, -np.inf)
    for amounts, value in choices.items():
        used = tuple(slice(amount, None) for amount in amounts)
        before = tuple(slice(None, size - amount) for size, amount in zip(best.shape, amounts, strict=True))
        after[used] = np.maximum(after[used], best[before] + value)
    return after


def _present(problem: Problem) -> list[Place]:
    """The nodes that are not already due back."""
    return [node for node in problem.nodes if node.until_s is None or node.until_s > problem.now_s]


def _end_s(problem: Problem, node: Place) -> float:
    """When the node is due back, seconds from now; nothing after the horizon is of interest."""
    if node.until_s is None:
        return problem.horizon_s
    return min(problem.horizon_s, node.until_s - problem.now_s)


def _amounts(problem: Problem, slots: Slots, nodes: Sequence[Place]) -> Amounts:
    counted = Counter((_end_s(problem, node), *node.traits) for node in nodes)
    return tuple(counted[slot] for slot in slots)


def _choices(problem: Problem, trainer: Trainer, slots: Slots) -> dict[Amounts, float]:
    """Value of everything that the trainer may be given."""
    there = _amounts(problem, slots, _present(problem))
    held = _amounts(problem, slots, [node for node in _present(problem) if node.holder == trainer.id])
    has = {kind for count, (_, kind, _) in zip(held, slots, strict=True) if count}
    choices: dict[Amounts, float] = {}
    for kinds, speed in _kinds(problem, trainer, has):
        worth = _hurried(problem, trainer, [speed * each for each in _worth(problem, trainer)], speed)
        # Who grows gets no node that leaves before it has booted, and none of other kinds.
        room = tuple(
            most if end_s > trainer.boot_s and kind in kinds else now
            for now, most, (end_s, kind, _) in zip(held, there, slots, strict=True)
        )
        for amounts in _of_one_size(held, room) if trainer.moldable else _without_migration(held, room):
            if sum(amounts) == 0 or trainer.min_nodes <= sum(amounts) < len(worth):
                ends_s = [end_s for end_s, _, _ in slots]
                value = _value(problem, trainer, worth, ends_s, held, amounts)
                choices[amounts] = value - _electricity(problem, trainer, slots, amounts)
    return choices


def _kinds(problem: Problem, trainer: Trainer, has: set[str]) -> list[tuple[set[str], float]]:
    """Which kinds of nodes it may get together, and how fast it is on them.

    Who has nodes gets only what goes with all of them; it is as fast as on the slowest.
    """
    every = {node.traits.kind for node in _present(problem)}
    known = [({kind}, 1.0) for kind in every]
    if trainer.choices is not None:
        known = [(set(choice.kinds), choice.speed) for choice in trainer.choices]
    if not has:
        return known or [(set(), 1.0)]
    touched = [(kinds, speed) for kinds, speed in known if kinds & has]
    if len(touched) == 1 and has <= touched[0][0]:
        return touched
    return [(set(), min((speed for _, speed in touched), default=1.0))]


def _without_migration(held: Amounts, room: Amounts) -> Iterator[Amounts]:
    """Amounts out of what the trainer holds, then amounts that leave it all it holds."""
    yield from product(*(range(count + 1) for count in held))
    yield from product(*(range(now, most + 1) for now, most in zip(held, room, strict=True)))


def _of_one_size(held: Amounts, room: Amounts) -> Iterator[Amounts]:
    """Nothing, or what the trainer holds; who holds nothing may get anything."""
    yield tuple(0 for _ in held)
    yield from [held] if any(held) else product(*(range(most + 1) for most in room))


def _value_until_one_leaves(
    problem: Problem,
    trainer: Trainer,
    worth: Sequence[float],
    ends_s: Sequence[float],
    is_new: bool,
    nodes: Amounts,
) -> float:
    """Value of a size that stays: until the first node leaves, o(N) a second, less f·o(N) if that is known."""
    if not sum(nodes):
        return 0.0
    end_s = min(due_s for count, due_s in zip(nodes, ends_s, strict=True) if count)
    forced_s = trainer.scale_down_s if trainer.forced_loss_s is None else trainer.forced_loss_s
    lost_s = forced_s + _aim(problem)[1].get("evictions", 0.0) if end_s < problem.horizon_s else 0.0
    return (end_s - (trainer.boot_s if is_new else 0.0) - lost_s) * worth[sum(nodes)]


def _value(
    problem: Problem,
    trainer: Trainer,
    worth: Sequence[float],
    ends_s: Sequence[float],
    held: Amounts,
    amounts: Amounts,
) -> float:
    """Value of one trainer's choice, interval by interval between the times at which nodes are due back.

    With o the worth per second, C the nodes held now, N₀ ≥ N₁ ≥ … those it has in the intervals of Δᵢ seconds::

        Σᵢ Δᵢ·o(Nᵢ)  −  switch  −  Σ over ends before the horizon at which it loses a node: f·o(N before)

        f = down, or eviction where that is less
        switch = up·o(C) if N₀ > C,  down·o(C) if N₀ < C,  and start·o(N₀) instead where o(C) = 0

    Where the nodes work each by itself, o is replaced by how much of it comes or goes; up is start then, and f is
    what an eviction costs. What is to be avoided of evictions comes to f. New nodes train only when they have
    booted: until then N is what it holds of them.
    """
    value = -_switch(trainer, worth, sum(held), sum(amounts), problem.changes)
    if trainer.moldable:
        is_new = sum(amounts) > sum(held)
        return value + _value_until_one_leaves(problem, trainer, worth, ends_s, is_new, amounts)
    booted_s = trainer.boot_s if sum(amounts) > sum(held) else 0.0
    avoided_s = _aim(problem)[1].get("evictions", 0.0)
    instants_s = sorted({0.0, *ends_s, *((booted_s,) if booted_s < problem.horizon_s else ())})
    for start_s, end_s in pairwise(instants_s):
        training = amounts if start_s >= booted_s else held
        nodes = sum(count for count, due_s in zip(training, ends_s, strict=True) if due_s > start_s)
        leaving = sum(count for count, due_s in zip(training, ends_s, strict=True) if due_s == end_s)
        value += (end_s - start_s) * worth[nodes]
        if leaving and end_s < problem.horizon_s:
            forced_s = trainer.scale_down_s if trainer.forced_loss_s is None else trainer.forced_loss_s
            if trainer.independent:
                value -= (forced_s + avoided_s) * (worth[nodes] - worth[nodes - leaving])
            else:
                value -= (min(forced_s, trainer.scale_down_s) + avoided_s) * worth[nodes]
    return value


def _electricity(problem: Problem, trainer: Trainer, slots: Slots, amounts: Amounts) -> float:
    """What the kWh of its nodes count until they leave; a weight counts for them as for what is trained.

    The nodes of a size that stays leave with the first of them.
    """
    objective, besides = _aim(problem)
    had = [(count, end_s, watts) for count, (end_s, _, watts) in zip(amounts, slots, strict=True) if count]
    first_s = min((end_s for _, end_s, _ in had), default=0.0)
    joules = sum(count * watts * (first_s if trainer.moldable else end_s) for count, end_s, watts in had)
    weight = trainer.weight if objective in ("throughput", "weighted") else 1.0
    return besides.get("energy", 0.0) * weight * joules / 3600 / 1000


def _hurried(problem: Problem, trainer: Trainer, worth: list[float], speed: float) -> list[float]:
    """What it trains on the fewest nodes that bring it to its target in time counts so many times more.

    Half of the time left is spare; a deadline that cannot be met at its fastest counts for nothing.
    """
    factor = _aim(problem)[1].get("deadlines", 0.0)
    if trainer.deadline_s is None or trainer.target_samples is None:
        return worth
    left = trainer.target_samples - problem.done_samples.get(trainer.id, 0.0)
    left_s = trainer.deadline_s - problem.now_s
    rates = {nodes: _rate(trainer, nodes) for nodes in range(trainer.min_nodes, len(worth))}
    best = max((choice.speed for choice in trainer.choices or ()), default=1.0)
    fastest = best * max(rates.values(), default=0.0)
    if left <= 0 or left_s <= 0 or left > fastest * left_s:
        return worth
    pace = min(left / (0.5 * left_s), fastest)
    needed = [nodes for nodes, rate in rates.items() if rate * speed >= pace * (1 - 1e-9)]
    if not needed:
        return worth
    return [each + factor * worth[min(nodes, needed[0])] for nodes, each in enumerate(worth)]


def _switch(trainer: Trainer, worth: Sequence[float], held_nodes: int, nodes: int, changes: float) -> float:
    now = worth[min(held_nodes, len(worth) - 1)] if held_nodes >= trainer.min_nodes else 0.0
    if trainer.independent:
        change = worth[nodes] - now
        return change * (trainer.start_s if nodes > held_nodes else -trainer.scale_down_s)
    if now == 0:
        return trainer.start_s * worth[nodes]
    times = 1.0 if trainer.moldable else changes
    if nodes > held_nodes:
        return times * trainer.scale_up_s * now
    return times * trainer.scale_down_s * now if nodes < held_nodes else 0.0


def _worth(problem: Problem, trainer: Trainer) -> list[float]:
    """Worth of a second on 0, 1, … nodes, up to the most that the trainer can use."""
    objective, _ = _aim(problem)
    last = trainer.throughput[-1][0]
    most = last if trainer.max_nodes is None else min(last, trainer.max_nodes)
    rates = [_rate(trainer, nodes) for nodes in range(most + 1)]
    weight = trainer.weight if objective in ("throughput", "weighted") else 1.0
    unit = 1.0 if objective == "throughput" else rates[1] or max(rates)
    return [weight * rate / unit if nodes >= trainer.min_nodes else 0.0 for nodes, rate in enumerate(rates)]


def _aim(problem: Problem) -> tuple[str, dict[str, float]]:
    """The objective's name, and what stands behind it."""
    objective, *parts = problem.objective.split(",")
    return objective, {word: float(number) for word, number in (part.split("=") for part in parts)}


def _rate(trainer: Trainer, nodes: int) -> float:
    """Samples per second, on the straight line between the two points around this size."""
    for (left, low), (right, high) in pairwise(((0, 0.0), *trainer.throughput)):
        if left < nodes <= right:
            return low + (high - low) * (nodes - left) / (right - left)
    return 0.0
