r"""The value of an allocation: the objective function of every policy.

A trainer with :math:`N_0 \ge N_1 \ge \dots` nodes alive in the successive intervals of :math:`\Delta_i`
seconds between the times at which nodes are expected back is worth

.. math:: \sum_i \Delta_i\,o(N_i) \;-\; \mathrm{switch}(C, N_0) \;-\; \sum_{i:\,N_{i+1} < N_i} f\,o(N_i)

where *o* is its worth per second, *C* the nodes it has now, *f* what it loses in seconds at a known end, and
``switch`` charges ``scale_up_s`` or ``scale_down_s`` at the old worth o(C), or ``start_s`` at the new
one where o(C) is 0. With no node due back within the horizon T this is FreeTrain's published objective,
T·o(N) − o(C)·(up if N > C, down if N < C).

Where sizes are expected to change *k* times within the horizon (``Problem.changes``), what is decided now lasts
for T/k only: ``scale_up_s`` and ``scale_down_s`` are charged *k* times, but to independent and moldable trainers.

The nodes of an independent trainer work each by itself: it is charged ``start_s`` for the worth that it gains and
``scale_down_s`` for what it gives up, and at a known end *f* for what leaves then,

.. math:: f \sum_i t_i \bigl(o(N_i) - o(N_{i-1})\bigr) = f \sum_i (t_i - t_{i+1})\,o(N_i)

with :math:`t_i` = 1 where class *i* is taken back within the horizon, else 0, the longest-lived class first. So
that loss is nothing but time taken off the intervals (:func:`useful_time`).

New nodes boot for *b* seconds (``boot_s``) while the trainer goes on with those it keeps, :math:`H(t)`. So one
that grows is worth what it holds until *b*, and what it is to have from then on,

.. math:: \int_0^b o(H(t))\,dt + \int_b^T o(N(t))\,dt \;-\; \mathrm{switch} \;-\; \text{its known ends},

a node that leaves until *b* being of no use, and no loss, unless it is held already. What comes before *b* does
not depend on the decision, since who grows keeps all its nodes (:func:`value_before_boot`); with *N* = *H* the
two together are what keeping them is worth. Nodes that are held count as booted.

A moldable trainer ends when the first of its nodes leaves: until then it is worth :math:`o(N_0)`, and nothing
afterwards; at a known end it loses :math:`f\,o(N_0)`. It has a choice for each time at which it may end
(``freetrain.core.classes``).

Where electricity counts (``energy`` behind the objective), each node that a trainer has takes off what must be
trained for the joules that it takes from now until it leaves, also while it boots.

Where nodes differ in kind, *o* is that of the trainer's choice to which its nodes belong
(``freetrain.core.classes``). Classes of different kinds that live equally long follow each other; no time lies
between them (:math:`\Delta` = 0), and a trainer that loses nodes of several of them loses *f* once, which stands
with the last (:func:`ends_of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from freetrain.core.classes import NodeClass
from freetrain.core.place import Traits
from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Sizes, Table, Terms, read_only


def switching_costs(terms: Terms, held_nodes: Sizes) -> Table:
    """Cost of changing from ``held_nodes`` to each size, in worth, shape (trainers, sizes)."""
    return _costs_of(terms, held_nodes, np.arange(terms.worth.shape[1])[None, :], terms.worth)


def _costs_of(terms: Terms, held_nodes: Sizes, sizes: NDArray[np.int64], worth: Table) -> Table:
    now = terms.worth[np.arange(len(held_nodes)), np.minimum(held_nodes, terms.most_nodes)][:, None]
    change = sizes - held_nodes[:, None]
    seconds = np.where(change > 0, terms.scale_up_s[:, None], terms.scale_down_s[:, None]) * (change != 0)
    # A trainer that is worth nothing now starts: its start is charged at the new worth.
    together = np.where(now == 0, terms.start_s[:, None] * worth, seconds * now)
    if not terms.independent.any():
        return together
    seconds = np.where(change > 0, terms.start_s[:, None], -terms.scale_down_s[:, None]) * (change != 0)
    return np.where(terms.independent[:, None], seconds * (worth - now), together)


@dataclass(frozen=True, slots=True)
class UsefulTime:
    """Useful time of nodes, and what their ends cost; both of shape (trainers, classes).

    Attributes:
        alone_s: seconds for which the nodes of each class and of those that live longer are alive and no others,
            less what independent trainers lose on each node that leaves then.
        end_s: seconds that a trainer loses, once, when any nodes of the class leave, or of those before it that
            live as long; 0 for all but the last of these.
        power: cost of the electricity of each node of the class from now until it leaves, in worth.
    """

    alone_s: Table
    end_s: Table
    power: Table

    def __getitem__(self, rows: NDArray[np.int64] | list[int]) -> UsefulTime:
        """The useful time of some trainers."""
        return UsefulTime(self.alone_s[rows], self.end_s[rows], self.power[rows])


def ends_of(counts: Counts, first_of_life: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether any nodes of each class, or of those before it that live as long, are there; shape (…, classes)."""
    if len(first_of_life) == 1:
        return counts > 0
    alive = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1), dtype=np.int64)
    np.cumsum(counts, axis=-1, out=alive[..., 1:])
    return np.asarray(alive[..., 1:] > alive[..., first_of_life])


def useful_time(
    terms: Terms, classes: Sequence[NodeClass], last: Sizes | None = None, *, booted: bool = False
) -> UsefulTime:
    """The useful time of the nodes of each class, longest-lived first; ``booted``: from when new nodes train.

    ``last`` is ``Choices.last`` of each trainer; None: no trainer has one.
    """
    if _nothing_ends(classes, last) and not booted:
        shape = (len(terms.boot_s), 1)
        return UsefulTime(np.full(shape, classes[0].life_s), np.zeros(shape), np.zeros(shape))
    after_s = terms.boot_s[:, None] if booted else 0.0
    whole_s = np.array([node_class.life_s for node_class in classes])
    lives_s = whole_s - after_s
    taken_back = np.array([float(node_class.taken_back) for node_class in classes]) * (lives_s > 0)
    alone_s, leaving = map(_difference_to_next, (np.maximum(lives_s, 0.0), taken_back))
    is_last = np.ones(len(classes), dtype=bool)
    # Classes that live equally long end together: their one loss stands with the last of them.
    is_last[:-1] = whole_s[1:] < whole_s[:-1]
    end_s = taken_back * is_last * terms.known_end_s[:, None]
    watts = np.array([node_class.traits.watts for node_class in classes])
    # From now on, not from the end of the boot: a node that boots draws, too.
    power = terms.per_joule[:, None] * whole_s * watts
    alone_s = alone_s - terms.leaving_s[:, None] * leaving
    if last is not None and (together := np.flatnonzero(last >= 0)).size:
        where = together, last[together]
        # A choice that ends before its nodes have booted is worth less than nothing: nodes that stay longer
        # belong to it, too, and must not be worth more by it than they are.
        left_s = np.broadcast_to(lives_s, alone_s.shape)[where]
        is_taken_back = np.array([node_class.taken_back for node_class in classes])[last[together]]
        alone_s[together], end_s[together] = 0.0, 0.0
        alone_s[together, -1] = left_s - terms.known_end_s[together] * is_taken_back
        until_s = np.minimum(whole_s, whole_s[last[together], None])
        power[together] = terms.per_joule[together, None] * until_s * watts
    return UsefulTime(alone_s, end_s, power)


def _nothing_ends(classes: Sequence[NodeClass], last: Sizes | None) -> bool:
    """Whether all nodes are alike, stay, and cost nothing: so it is in most decisions."""
    if len(classes) != 1 or classes[0].taken_back or classes[0].traits.watts:
        return False
    return last is None or not (last >= 0).any()


def _difference_to_next(by_class: NDArray[np.float64]) -> NDArray[np.float64]:
    """The difference between each class and the next shorter-lived one; for the last class its own value."""
    following = np.zeros_like(by_class)
    following[..., :-1] = by_class[..., 1:]
    return by_class - following


def value_before_boot(
    terms: Terms, held: Counts, ends: NDArray[np.bool_], now: UsefulTime, booted: UsefulTime
) -> NDArray[np.float64]:
    """Worth of held nodes until new ones would train, shape (trainers,); ``ends`` are :func:`ends_of` these."""
    # It may hold more than it may have now, as after its limits were lowered.
    alive = np.minimum(np.cumsum(held, axis=1), terms.most_nodes[:, None])
    seconds = now.alone_s - booted.alone_s - ends * (now.end_s - booted.end_s)
    return np.asarray((seconds * np.take_along_axis(terms.worth, alive, axis=1)).sum(axis=1))


def distinct_tables(
    terms: Terms, held_nodes: Sizes, node_class: NodeClass, may_join: NDArray[np.bool_] | None = None
) -> tuple[Table, Sizes]:
    """Values by size if all nodes are of one class, computed once for trainers that are alike and have as many.

    Sizes that a trainer may not have are worth -inf. ``may_join``: whether it may get new nodes; None: all may.

    Returns:
        The tables that differ, shape (tables, sizes), and which of them is each trainer's, shape (trainers,).
    """
    joins = None if may_join is None else may_join.tobytes()
    # As bytes: arrays cannot be keys of a cache.
    held = np.ascontiguousarray(held_nodes, dtype=np.int64).tobytes()
    return _distinct_tables(terms, held, node_class.life_s, node_class.taken_back, node_class.traits.watts, joins)


@lru_cache(maxsize=4)  # at each look dealing asks for them first, then deciding
def _distinct_tables(
    terms: Terms, held_bytes: bytes, life_s: float, taken_back: bool, watts: float, joins: bytes | None
) -> tuple[Table, Sizes]:
    held_nodes = np.frombuffer(held_bytes, dtype=np.int64)
    may_join = None if joins is None else np.frombuffer(joins, dtype=bool)
    node_class = NodeClass(life_s, taken_back, {}, Traits(watts=watts))
    # One number for the kind of trainer, the nodes that it holds and whether it may get new ones.
    key = terms.kind * (int(held_nodes.max(initial=0)) + 1) + held_nodes
    if may_join is not None:
        key = 2 * key + may_join
    numbers: dict[int, int] = {}
    row = np.array([numbers.setdefault(number, len(numbers)) for number in key.tolist()], dtype=np.int64)
    first = np.zeros(len(numbers), dtype=np.int64)
    # The first trainer with each table: numpy keeps the last of several assignments, hence backwards.
    first[row[::-1]] = np.arange(len(row))[::-1]
    terms, held_nodes = terms.of(first), held_nodes[first]
    now = useful_time(terms, [node_class])
    costs = switching_costs(terms, held_nodes) + now.power * np.arange(terms.worth.shape[1])
    table: Table = (now.alone_s - now.end_s) * terms.worth - costs
    if terms.boot_s.any():
        booted = useful_time(terms, [node_class], booted=True)
        held = held_nodes[:, None]
        before = value_before_boot(terms, held, held > 0, now, booted)
        grown = before[:, None] + (booted.alone_s - booted.end_s) * terms.worth - costs
        grown = np.where(life_s > terms.boot_s[:, None], grown, -np.inf)
        table = np.where(np.arange(table.shape[1]) > held_nodes[:, None], grown, table)
    table[~terms.possible] = -np.inf
    if may_join is not None:
        gains = np.arange(table.shape[1]) > held_nodes[:, None]
        table[gains & ~may_join[first, None]] = -np.inf
    return read_only(table), read_only(row)


def tables_of_choices(problem: Problem, node_class: NodeClass) -> tuple[Table, Sizes]:
    """The value tables (:func:`distinct_tables`) of all choices of the trainers if all nodes are of one class."""
    choices = problem.choices
    may_join = None if choices.is_free else np.asarray(choices.may_join.any(axis=1))
    return distinct_tables(choices.terms, problem.held_nodes[choices.trainer], node_class, may_join)


def total_value(problem: Problem, counts: Counts) -> float:
    """Value of an allocation, the sum over all trainers."""
    known, key = problem.known_values, counts.tobytes()
    if key not in known:
        known[key] = _total_value(problem, counts)
    return known[key]


def _total_value(problem: Problem, counts: Counts) -> float:
    if not counts.size:
        return 0.0
    if len(problem.classes) == 1 and problem.choices.is_free:
        return _value_of_sizes(problem, counts[:, 0])
    made, terms, last = problem.choices.made_by(counts), problem.choices.terms, problem.choices.last
    if (made < 0).any():
        return -np.inf
    if not problem.choices.is_free:
        terms, last = terms.of(made), last[made]
    rows = np.arange(len(counts))
    alive, ends = np.cumsum(counts, axis=1), ends_of(counts, problem.first_of_life)
    if (alive[:, -1] > terms.most_nodes).any():
        return -np.inf
    sizes = alive[:, -1]
    switching = _costs_of(terms, problem.held_nodes, sizes[:, None], terms.worth[rows, sizes][:, None])
    use = useful_time(terms, problem.classes, last)
    value = -float(switching[:, 0].sum()) - float((use.power * counts).sum())
    if terms.boot_s.any():
        grown, booted = sizes > problem.held_nodes, useful_time(terms, problem.classes, last, booted=True)
        held_ends = ends_of(problem.held, problem.first_of_life)
        value += float(value_before_boot(terms, problem.held, held_ends, use, booted)[grown].sum())
        alone_s, end_s = (
            np.where(grown[:, None], then, now)
            for now, then in ((use.alone_s, booted.alone_s), (use.end_s, booted.end_s))
        )
        use = UsefulTime(alone_s, end_s, use.power)
    for column, node_class in enumerate(problem.classes):
        worth = terms.worth[rows, alive[:, column]]
        value += float((use.alone_s[:, column] * worth).sum())
        if node_class.taken_back:
            value -= float((use.end_s[:, column] * worth)[ends[:, column]].sum())
    return value


def _value_of_sizes(problem: Problem, sizes: Sizes) -> float:
    """Value where all nodes are alike, and to all trainers: that of their tables."""
    if (sizes > problem.terms.most_nodes).any():
        return -np.inf
    tables, row = tables_of_choices(problem, problem.classes[0])
    return float(tables[row, sizes].sum())


def counts_of(problem: Problem, allocation: Mapping[str, Sequence[str]]) -> Counts:
    """Count the nodes of each class that a placement gives each trainer; unknown names count nowhere."""
    counts, held_names = problem.held.copy(), problem.held_names
    for trainer, row in problem.row_of.items():
        names = allocation.get(trainer, ())
        # The same tuple is handed on where nothing changes, so that identity is enough and large replays are fast.
        if names is held_names.get(trainer, ()):
            continue
        counts[row] = 0
        if len(problem.classes) == 1:
            counts[row, 0] = sum(map(problem.names.__contains__, names))
            continue
        for name in names:
            if name in problem.names:
                counts[row, problem.class_of_node[name]] += 1
    return counts
