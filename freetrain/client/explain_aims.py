"""What deadlines and electricity did to a decision, where the objective counts them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from freetrain.core.aim import read_aim, without
from freetrain.core.deadlines import Outlook, best_speed, hurry_of, nodes_needed
from freetrain.core.decision import Decision
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.loop.deciding import decide
from freetrain.policies.registry import Stage, find_entry, find_policy
from freetrain.showing.words import show_time

_SOLVE_S = 2.0
"""What deciding once more, without a part of the objective, may take."""


def explain_aims(row: int, problem: Problem, decision: Decision) -> Iterator[str]:
    """Sentences on one trainer of a problem.

    Args:
        row: which.
        problem: what was decided.
        decision: the answer.
    """
    trainer = problem.trainers[row]
    aim = read_aim(problem.objective)
    sentence = _of_deadline(trainer, problem, aim.deadlines)
    if sentence:
        yield sentence
    in_a_hurry = [trainer.id for trainer in problem.trainers if aim.deadlines and _nodes_needed(trainer, problem)]
    if in_a_hurry:
        others = ", ".join(id_ for id_ in in_a_hurry[:5] if id_ != trainer.id)
        whose = f" of {others}" if others and trainer.id not in in_a_hurry else ""
        size = _size_without("deadlines", trainer, problem, decision)
        yield f"Without deadlines{whose} it would have got {size}."
    watts = sorted({nodes.watts for nodes in problem.classes if nodes.watts})
    if aim.energy and watts:
        each = aim.per_joule * aim.scale_of(trainer.weight)
        shown = " or ".join(f"{each * watt:.3g} for one of {watt:,.0f} W" for watt in watts[:3])
        yield (
            f"Electricity counts: what a node adds must be worth {shown} ({aim.objective} a second, energy="
            f"{aim.energy:g}); otherwise it would have got {_size_without('energy', trainer, problem, decision)}."
        )


def _of_deadline(trainer: Trainer, problem: Problem, factor: float) -> str:
    """How it stands with its own deadline; empty: it has none, or nothing is left to do."""
    if trainer.deadline_s is None:
        return ""
    its = f"Its deadline, {show_time(trainer.deadline_s)},"
    if not factor:
        return f"{its} makes no difference: the objective ({problem.objective}) counts no deadlines."
    match hurry_of(trainer, _done(trainer, problem), problem.now_s).outlook:
        case Outlook.PASSED:
            return f"{its} has passed, so it makes no difference any more."
        case Outlook.OUT_OF_REACH:
            most = _nodes(trainer.most_nodes)
            return (
                f"{its} cannot be met, even on all {most} that it can use from now on, so it makes no difference."
            )
        case Outlook.OPEN:
            needed = _nodes(_nodes_needed(trainer, problem))
            return f"{its} asks for {needed} from now on: what it trains on them counts {1 + factor:g} times."
        case _:
            return ""


def _nodes_needed(trainer: Trainer, problem: Problem) -> int:
    """On the nodes on which it is fastest; 0: its deadline asks for nothing."""
    hurry = hurry_of(trainer, _done(trainer, problem), problem.now_s)
    return nodes_needed(trainer, hurry.samples_per_s, best_speed(trainer))


def _done(trainer: Trainer, problem: Problem) -> float:
    return problem.done_samples.get(trainer.id, 0.0)


def _size_without(word: str, trainer: Trainer, problem: Problem, decision: Decision) -> str:
    """How many nodes it would have got without this part of the objective, in words."""
    name = decision.solver if find_entry(Stage.POLICY, decision.solver) else "freetrain"
    policy = find_policy(name, time_limit_s=_SOLVE_S)
    other = decide(policy, replace(problem, objective=without(problem.objective, word)), time.perf_counter)
    return _nodes(len(other.placement.get(trainer.id, ())))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
