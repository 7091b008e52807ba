"""Verification: nothing that was decided is used, live or in a replay, before it has passed here."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from freetrain.core.decision import Decision, Placement
from freetrain.core.place import node_of
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import counts_of, total_value

# Relative, and absolute near 0: sums of the same values in another order differ by far less.
VALUE_TOLERANCE = 1e-6


def verify_counts(problem: Problem, counts: Counts) -> tuple[str, ...]:
    """Faults of a policy's counts, one clause each; empty where they can be placed.

    Checked are: their shape, no more nodes of a class than there are, sizes within each trainer's limits, kinds of
    nodes that each may have together, and no migration.
    """
    if counts.shape != problem.held.shape:
        return (f"its counts have shape {counts.shape}, but {problem.held.shape} is (trainers, classes)",)
    if (counts < 0).any() or (counts > problem.capacity).any():
        row, column = np.argwhere((counts < 0) | (counts > problem.capacity))[0]
        return (
            f"trainer {problem.trainers[row].id} gets {counts[row, column]} nodes of class {column}, which has "
            f"{problem.capacity[column]}",
        )
    return tuple(_wrong_counts(problem, counts))


def _wrong_counts(problem: Problem, counts: Counts) -> Iterator[str]:
    given = counts.sum(axis=0)
    for column in np.flatnonzero(given > problem.capacity).tolist():
        yield f"{given[column]} nodes of class {column} are given away, which has {problem.capacity[column]}"
    yield from _wrong_kinds(problem, counts)
    yield from _outside_limits(problem, counts)
    change = counts - problem.held
    for row in np.flatnonzero((change < 0).any(axis=1) & (change > 0).any(axis=1)).tolist():
        lost, gained = np.flatnonzero(change[row] < 0)[0], np.flatnonzero(change[row] > 0)[0]
        yield (
            f"trainer {problem.trainers[row].id} would migrate: it loses nodes of class {lost} and gains some of "
            f"class {gained}"
        )


def _wrong_kinds(problem: Problem, counts: Counts) -> Iterator[str]:
    if problem.choices.is_free:
        return
    made = problem.choices.made_by(counts)
    new = (counts > problem.held) & ~problem.choices.may_join[made]
    for row in np.flatnonzero((made < 0) | new.any(axis=1)).tolist():
        kinds = dict.fromkeys(problem.classes[column].traits.kind for column in np.flatnonzero(counts[row]))
        yield f"trainer {problem.trainers[row].id} gets nodes that it may not have together: {', '.join(kinds)}"


def _outside_limits(problem: Problem, counts: Counts) -> Iterator[str]:
    terms, sizes = problem.terms, counts.sum(axis=1)
    possible = terms.possible[np.arange(len(sizes)), np.minimum(sizes, terms.most_nodes)]
    for row in np.flatnonzero(~possible | (sizes > terms.most_nodes)).tolist():
        trainer, nodes, held = problem.trainers[row], int(sizes[row]), int(problem.held_nodes[row])
        if trainer.moldable and held:
            yield f"trainer {trainer.id} gets {nodes} nodes instead of its {held}: its size stays"
        else:
            limits = f"{trainer.min_nodes} to {trainer.most_nodes}"
            yield f"trainer {trainer.id} gets {nodes} nodes, outside its {limits}"


def verify_placement(problem: Problem, counts: Counts, placement: Placement) -> tuple[str, ...]:
    """Faults of a placer's nodes, one clause each; empty where they agree with the counts.

    Checked are: only nodes of the problem that are not due back, one owner per node, no migration, and as many
    nodes of each class for each trainer as it is to have.
    """
    if wrong := (*_foreign_or_shared_nodes(problem, placement), *_migrations(problem, placement)):
        return wrong
    placed = counts_of(problem, placement)
    return tuple(
        f"trainer {problem.trainers[row].id} gets {placed[row, column]} nodes of class {column} instead of "
        f"{counts[row, column]}"
        for row, column in np.argwhere(placed != counts).tolist()
    )


def verify(problem: Problem, decision: Decision) -> tuple[str, ...]:
    """Faults of a decision, one clause each; empty where it may be used.

    Checked are: only nodes of the problem that are not due back, one owner per node, sizes within each
    trainer's limits, kinds of nodes that each may have together, no migration (a trainer keeps all its nodes or
    gets no new one), the value that it states, and that servers run on nodes of their trainers, and on no more
    than these may have.
    """
    placement = decision.placement
    wrong = [*_foreign_or_shared_nodes(problem, placement), *_migrations(problem, placement)]
    counts = counts_of(problem, placement)
    wrong += _outside_limits(problem, counts)
    if wrong:
        return tuple(wrong)
    wrong += _wrong_kinds(problem, counts)
    value = total_value(problem, counts)
    if not math.isclose(value, decision.objective, rel_tol=VALUE_TOLERANCE, abs_tol=VALUE_TOLERANCE):
        wrong.append(f"the decision claims a value of {decision.objective:g}, its placement is worth {value:g}")
    return (*wrong, *_wrong_servers(problem, decision))


def _foreign_or_shared_nodes(problem: Problem, placement: Placement) -> Iterator[str]:
    held = problem.held_names
    # The quick way for most decisions: of trainers that keep just what they have nothing can be wrong.
    moved = [names for trainer, names in placement.items() if names is not held.get(trainer)]
    lent = set().union(*moved)
    if len(lent) == sum(map(len, moved)) and lent <= _free_of(problem, placement):
        return
    # Something may be wrong: all nodes are looked at, to name the first.
    lent = lent.union(*placement.values())
    if foreign := lent - problem.names:
        yield f"{min(foreign)} is lent, which is not among the problem's nodes or due back already"
    if len(lent) < sum(map(len, placement.values())):
        names = [name for names in placement.values() for name in names]
        # Quadratic, and reached only by a decision that is wrong: the first name is enough.
        yield f"{min(name for name in lent if names.count(name) > 1)} is lent twice over"


def _free_of(problem: Problem, placement: Placement) -> set[str]:
    """The nodes of all but those trainers that keep just what they have."""
    held = problem.held_names
    return {
        name
        for node_class in problem.classes
        for holder, names in node_class.names.items()
        if holder is None or holder not in placement or placement[holder] is not held[holder]
        for name in names
    }


def _migrations(problem: Problem, placement: Placement) -> Iterator[str]:
    if strangers := placement.keys() - problem.row_of.keys():
        yield f"{min(strangers)} is none of the problem's trainers"
    for trainer, names in placement.items():
        now = problem.held_names.get(trainer, ())
        if names is not now and not set(names).issubset(now) and not set(now).issubset(names):
            lost, gained = min(set(now).difference(names)), min(set(names).difference(now))
            yield f"trainer {trainer} would migrate: it loses {lost} and gains {gained}"


def _wrong_servers(problem: Problem, decision: Decision) -> Iterator[str]:
    most = {trainer.id: trainer.servers.most for trainer in problem.trainers if trainer.servers is not None}
    for trainer, nodes in decision.serving.items():
        own = set(map(node_of, decision.placement.get(trainer, ())))
        if foreign := set(nodes) - own:
            yield f"trainer {trainer} has a server on {min(foreign)}, which is none of its nodes"
        if len(set(nodes)) < len(nodes) or len(nodes) > most.get(trainer, 0):
            yield f"trainer {trainer} has servers on {', '.join(nodes)}, and may have {most.get(trainer, 0)}"
