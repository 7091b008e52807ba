"""Deciding: a policy sets each trainer's number of nodes, a placer the nodes, a finisher amounts of shared ones.

Here their answers are checked and valued. Where the policy's cannot be used, whatever the reason, the present
state stands in, for the placer's the first nodes do, and for the finisher's new parts of a node get what they ask
for: no error of theirs ends a look. Only a call that never returns cannot be handled here.
"""

from __future__ import annotations

import math
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import NewPart, SharedNode
from freetrain.core.decision import Allocation, Decision, Placement, Status, place
from freetrain.core.place import node_of
from freetrain.core.problem import Counts, Problem
from freetrain.core.value import total_value
from freetrain.core.verify import VALUE_TOLERANCE, verify, verify_counts, verify_placement
from freetrain.policies import FIRST_NODES, Explaining, Finisher, Placer, Policy
from freetrain.policies.smd import place_servers
from freetrain.policies.spread import spread

STAY = "stay"
"""The solver of a decision that stands in for one that could not be used."""


def decide(
    policy: Policy, problem: Problem, stopwatch_s: Callable[[], float], placer: Placer = FIRST_NODES
) -> Decision:
    """The policy's decision if it passes verification, else one that changes as little as possible."""
    start_s = stopwatch_s()
    answer = _ask(policy, problem)
    decision = stay(problem, answer) if isinstance(answer, str) else _decision(problem, answer, placer)
    solve_s = stopwatch_s() - start_s
    # Checked once more as a whole, whatever was checked of its parts: nothing else may be acted on.
    if wrong := verify(problem, decision):
        decision = stay(problem, f"the decision of {decision.solver} was rejected: {'; '.join(wrong)}")
    decision = _with_servers(problem, decision, placer)
    return replace(decision, solve_s=solve_s, notes=(*decision.notes, *problem.terms.warnings))


def _with_servers(problem: Problem, decision: Decision, placer: Placer) -> Decision:
    try:
        serving = place_servers(problem, decision.placement, placer)
        notes = decision.notes
    # SystemExit, too: a package that calls exit() must not end the daemon.
    except (Exception, SystemExit) as error:  # somebody else's placer may raise anything
        serving = place_servers(problem, decision.placement, FIRST_NODES)
        notes = (*decision.notes, f"the placer {type(placer).__name__} rated no servers: {_in_one_line(error)}")
    hosts = (f"{trainer} has servers on {', '.join(nodes)}." for trainer, nodes in serving.items())
    return replace(decision, serving=serving, notes=(*notes, *hosts))


def stay(problem: Problem, why: str) -> Decision:
    """Leave every trainer what it has; only what is outside a trainer's limits is given up."""
    sizes = problem.held_nodes.copy()
    for row, trainer in enumerate(problem.trainers):
        sizes[row] = min(sizes[row], trainer.most_nodes) if sizes[row] >= trainer.min_nodes else 0
    # Without trainers or nodes there is nothing to spread.
    counts = spread(problem, sizes) if problem.held.size else problem.held
    return Decision(Status.FALLBACK, total_value(problem, counts), place(problem, counts), STAY, notes=(why,))


def _ask(policy: Policy, problem: Problem) -> Allocation | str:
    """The policy's answer, or the reason why it cannot be used."""
    name = type(policy).__name__
    try:
        answer: object = policy.decide(problem)
    except (Exception, SystemExit) as error:  # somebody else's policy may raise anything
        return f"the policy {name} failed, so all stays as it is: {_in_one_line(error)}"
    if not isinstance(answer, Allocation):
        return f"the policy {name} gave a {type(answer).__name__} and no Allocation, so all stays as it is"
    if wrong := verify_counts(problem, answer.counts):
        return f"the allocation of the policy {name} was rejected, so all stays as it is: {'; '.join(wrong)}"
    return answer


def _in_one_line(error: BaseException) -> str:
    # traceback's own formatting also works for an exception whose __str__ raises.
    return " ".join("".join(traceback.format_exception_only(error)).split())


def _decision(problem: Problem, answer: Allocation, placer: Placer) -> Decision:
    value = total_value(problem, answer.counts)
    status, gap, found_out = _held_against_bound(answer, value)
    placement, explanation = _place(placer, problem, answer.counts)
    notes = (*answer.notes, *found_out, *explanation)
    return Decision(status, value, placement, answer.solver, gap, notes=notes)


def _place(placer: Placer, problem: Problem, counts: Counts) -> tuple[Placement, tuple[str, ...]]:
    """The placer's nodes with its notes; the first nodes with the reason, where the placer's cannot be used."""
    if placer is FIRST_NODES:  # what stands in for any other needs no check but the last one
        return place(problem, counts), ()
    name = type(placer).__name__
    try:
        # A package's placer may hand over any sequences: they become tuples here.
        placement = {trainer: tuple(names) for trainer, names in placer.place(problem, counts).items() if names}
        explanation = tuple(map(str, placer.explain(placement))) if isinstance(placer, Explaining) else ()
    except (Exception, SystemExit) as error:  # somebody else's placer may raise anything
        why = f"the placer {name} failed, so the first nodes are taken: {_in_one_line(error)}"
        return place(problem, counts), (why,)
    if wrong := verify_placement(problem, counts, placement):
        why = f"the placement of {name} was rejected, so the first nodes are taken: {'; '.join(wrong)}"
        return place(problem, counts), (why,)
    return placement, explanation


def _held_against_bound(answer: Allocation, value: float) -> tuple[Status, float | None, tuple[str, ...]]:
    """Status and gap (None: unknown) of an answer of this value by its own bound, and errors in its claims."""
    proven = answer.status is Status.OPTIMAL
    if answer.bound is None or answer.bound == math.inf:
        return answer.status, 0.0 if proven else None, ()
    missing, tolerance = answer.bound - value, VALUE_TOLERANCE * max(abs(value), 1.0)
    if missing < -tolerance:
        claim = f"{answer.solver} claims that nothing is worth more than {answer.bound:g}"
        return Status.HEURISTIC, None, (f"{claim}, but its own allocation is worth {value:g}",)
    if proven and missing <= tolerance:
        return Status.OPTIMAL, 0.0, ()
    # A value of 0, or nearly, would make any gap infinite.
    gap = max(missing, 0.0) / max(abs(value), 1e-9)
    if proven:
        claim = f"{answer.solver} claims the optimum, but its allocation is worth {value:g}"
        return Status.FEASIBLE, gap, (f"{claim} and its bound is {answer.bound:g}",)
    return answer.status, gap, ()


@dataclass(frozen=True, slots=True)
class Finished:
    """Amounts that new parts of nodes get.

    Attributes:
        amounts: place → the whole amount that it gets, where that is more than its task asks for.
        notes: trainer → sentences on what it gets, or on why new parts get no more than they ask for.
    """

    amounts: Mapping[str, Amount] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def finish(finisher: Finisher, nodes: Iterable[SharedNode]) -> Finished:
    """Ask the finisher about each node; what breaks a rule is not used."""
    amounts: dict[str, Amount] = {}
    notes: defaultdict[str, list[str]] = defaultdict(list)
    more: defaultdict[tuple[str, Amount, Amount], list[str]] = defaultdict(list)
    for node in nodes:
        given = _ask_finisher(finisher, node)
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


def _ask_finisher(finisher: Finisher, node: SharedNode) -> dict[str, Amount] | str:
    name = type(finisher).__name__
    try:
        given = dict(finisher.finish(node))
        wrong = list(_broken_rules(node, {part.place: part for part in node.parts}, given))
    except (Exception, SystemExit) as error:  # somebody else's finisher may raise anything
        why = _in_one_line(error)
        return f"the finisher {name} failed, so new parts of {node.name} get what they ask for: {why}"
    if wrong:
        return f"what the finisher {name} gives on {node.name} was rejected: {'; '.join(wrong)}"
    return given


def _broken_rules(node: SharedNode, parts: Mapping[str, NewPart], given: Mapping[str, Amount]) -> Iterator[str]:
    """The rules that are broken: new parts only, none less than it asks for, together no more than is left."""
    yield from (f"{name} is no new part" for name in given if name not in parts)
    known = {name: amount for name, amount in given.items() if name in parts}
    for name, amount in known.items():
        asks = parts[name].asks
        if amount.gres != asks.gres or amount.cpus < asks.cpus or amount.memory_mb < asks.memory_mb:
            yield f"{name} asks for {asks} and gets {amount}"
    cpus = sum(amount.cpus - parts[name].asks.cpus for name, amount in known.items())
    memory_mb = sum(amount.memory_mb - parts[name].asks.memory_mb for name, amount in known.items())
    if cpus > node.spare.cpus or memory_mb > node.spare.memory_mb:
        yield f"{cpus} CPUs and {memory_mb} MB are more than the {node.spare} that are left"
