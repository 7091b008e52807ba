"""Lent time: the node-seconds that trainings had, and those of them that were lost to changes. Pure.

Of a part of a node as much is counted as it is of the node: the largest of its parts of the CPUs, the memory and
the GPUs. A node-second is counted once: where intervals on one node overlap that together have more of a resource
than there is, those that began later count from their start on. Everything is clipped to the range that is asked
for, so ranges that lie side by side add up.

What a change costs is what the training's tag says (start, grow, shrink), as in every decision about it: for so
long all nodes that it has then are lost. While several such times overlap, each second is lost once. The nodes of
an independent trainer, a filler, pay each by itself.

The ledger, from which this comes, can be compared with Slurm's accounting (:func:`compare`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from freetrain.core.fragment import LentTime
from freetrain.core.grouping import grouped
from freetrain.core.job import JobRun

# Shares such as 1/3 do not add up to exactly 1.
_ROUNDING = 1e-6
_RESOURCES = 3

# No change costs more, whatever a tag claims: this bounds how far before a range lendings have to be read.
LONGEST_LOSS_S = 86400.0


@dataclass(frozen=True, slots=True)
class Lending:
    """One node, or part of one, lent to one trainer, once.

    Attributes:
        start_s: its beginning, UTC epoch seconds.
        end_s: its end; the present, where it goes on.
        goes_on: whether it has not ended yet.
        was_evicted: whether Slurm took the node for one of the site's jobs.
        was_cut_off: whether it ended before its program did.
        share: its part of the node, from 0 to 1.
        parts: its parts of the node's CPUs, memory and GPUs; empty: each is its share, as far as is known.
    """

    job: str
    trainer: str
    node: str
    start_s: float
    end_s: float
    goes_on: bool = False
    was_evicted: bool = False
    was_cut_off: bool = False
    share: float = 1.0
    parts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeCosts:
    """Seconds of training that a trainer's changes cost it: from nothing, larger, smaller.

    An independent one loses ``start_s`` on each node that comes, the last ``scale_down_s`` on each that is cut.
    """

    start_s: float = 0.0
    scale_up_s: float = 0.0
    scale_down_s: float = 0.0
    independent: bool = False

    @property
    def reach_s(self) -> float:
        """Seconds after a change in which nodes lose time by it; 0 if independent: each loses while it is lent."""
        longest_s = max(self.start_s, self.scale_up_s, self.scale_down_s)
        return 0.0 if self.independent else min(longest_s, LONGEST_LOSS_S)


def each_node_once(lendings: Iterable[Lending]) -> list[Lending]:
    """The lendings, shortened so that no node is lent beyond all of it; those that become empty are left out."""
    kept: list[Lending] = []
    on_node: defaultdict[str, list[int]] = defaultdict(list)
    for lending in sorted(lendings, key=lambda lending: (lending.start_s, lending.end_s)):
        there = [number for number in on_node[lending.node] if kept[number].end_s > lending.start_s]
        while there and _is_overfull([lending, *(kept[number] for number in there)]):
            first = there.pop(0)
            kept[first] = replace(kept[first], end_s=lending.start_s, goes_on=False)
        on_node[lending.node] = [*there, len(kept)]
        kept.append(lending)
    return [lending for lending in kept if lending.end_s > lending.start_s]


def _is_overfull(lendings: Sequence[Lending]) -> bool:
    parts = [lending.parts or (lending.share,) * _RESOURCES for lending in lendings]
    return any(sum(of_resource) > 1.0 + _ROUNDING for of_resource in zip(*parts, strict=True))


def lent_times(
    lendings: Iterable[Lending], costs: Mapping[str, ChangeCosts], from_s: float, until_s: float
) -> Mapping[str, LentTime]:
    """Trainer → its lent time within the range; those that had none are left out.

    Args:
        lendings: all that reach into the range, or so near to it that what was lost at their ends does; none
            overlaps on its node.
        costs: trainer → the costs of its changes.
        from_s: UTC epoch seconds.
        until_s: likewise; what happens at that very time belongs to the next range.
    """
    by_trainer = grouped((lending.trainer, lending) for lending in lendings)
    found = {
        trainer: _time_of(own, costs.get(trainer, ChangeCosts()), from_s, until_s)
        for trainer, own in by_trainer.items()
    }
    return {trainer: time for trainer, time in found.items() if time != LentTime()}


def _time_of(own: Sequence[Lending], costs: ChangeCosts, from_s: float, until_s: float) -> LentTime:
    """Lent time of one trainer, from change to change: between two, its nodes are the same, and lost or not."""
    if costs.independent:
        return sum((_time_alone(lending, costs, from_s, until_s) for lending in own), LentTime())
    came, went = defaultdict[float, int](int), defaultdict[float, int](int)
    # What comes after is not known
    go_on = defaultdict[float, int](int)
    more_nodes = defaultdict[float, float](float)
    for lending in own:
        came[lending.start_s] += 1
        (go_on if lending.goes_on else went)[lending.end_s] += 1
        more_nodes[lending.start_s] += lending.share
        more_nodes[lending.end_s] -= lending.share
    lent_s, lost_s = 0.0, {"starts": 0.0, "ends": 0.0}
    size, nodes, at_s, lost_until_s, kind = 0, 0.0, from_s, -float("inf"), "starts"
    for next_s in sorted({*came, *went, *go_on, until_s}):
        low_s, high_s = max(at_s, from_s), min(next_s, until_s)
        lent_s += nodes * max(0.0, high_s - low_s)
        lost_s[kind] += nodes * max(0.0, min(high_s, lost_until_s) - low_s)
        stayed = size - went[next_s] - go_on[next_s]
        size, nodes, at_s = stayed + came[next_s], nodes + more_nodes[next_s], next_s
        change, cost_s = _change(stayed, came[next_s], went[next_s], costs)
        # Where losses overlap, each second is lost once, by the change that costs for longest.
        if next_s + cost_s > lost_until_s:
            lost_until_s, kind = next_s + cost_s, change
    return LentTime(
        lent_s,
        lost_s["starts"],
        lost_s["ends"],
        sum(from_s <= lending.start_s < until_s for lending in own),
        sum(lending.was_evicted and from_s <= lending.end_s < until_s for lending in own),
    )


def _change(stayed: int, came: int, went: int, costs: ChangeCosts) -> tuple[str, float]:
    """Kind of change that loses time, and its seconds: of nodes that come and go at once those that come count."""
    if came:
        return "starts", min(costs.scale_up_s if stayed else costs.start_s, LONGEST_LOSS_S)
    return "ends", min(costs.scale_down_s, LONGEST_LOSS_S) if went and stayed else 0.0


def _time_alone(lending: Lending, costs: ChangeCosts, from_s: float, until_s: float) -> LentTime:
    def within(begin_s: float, end_s: float) -> float:
        return lending.share * max(0.0, min(end_s, until_s) - max(begin_s, from_s))

    begun_s = min(lending.start_s + costs.start_s, lending.end_s)
    kept_s = max(begun_s, lending.end_s - costs.scale_down_s) if lending.was_cut_off else lending.end_s
    return LentTime(
        within(lending.start_s, lending.end_s),
        within(lending.start_s, begun_s),
        within(kept_s, lending.end_s),
        int(from_s <= lending.start_s < until_s),
        int(lending.was_evicted and from_s <= lending.end_s < until_s),
    )


# Slurm counts in whole seconds, and squeue and sacct sometimes differ by one.
_SAME_S = 2.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A job on which the ledger and Slurm's accounting differ.

    Attributes:
        node: its node by the ledger; empty: the ledger does not know this run.
        start_s: its beginning, UTC epoch seconds.
        ledger_s: seconds that it ran within the range, by the ledger; None: the ledger does not know this run.
        accounting_s: the same by accounting; None: accounting does not know this run.
    """

    job: str
    node: str
    start_s: float
    ledger_s: float | None
    accounting_s: float | None

    @property
    def what(self) -> str:
        """The difference as a sentence without its end."""
        if self.ledger_s is None:
            return "only accounting knows of it"
        if self.accounting_s is None:
            return "only the ledger knows of it"
        seconds = self.ledger_s - self.accounting_s
        return f"{abs(seconds):.0f} s {'more' if seconds > 0 else 'less'} in the ledger"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of the comparison: node-seconds within the range by both, and where they differ.

    Attributes:
        compared: number of lendings of a node that both know of.
        differences: the differences, in the order of time.
    """

    ledger_s: float
    accounting_s: float
    compared: int
    differences: tuple[Difference, ...]


def compare(
    lendings: Iterable[Lending], runs: Sequence[JobRun], from_s: float, until_s: float, now_s: float
) -> Check:
    """Compare the two, each clipped to the range; two runs of a job are distinguished by their starts."""

    def within_s(start_s: float, end_s: float | None) -> float:
        return max(0.0, min(now_s if end_s is None else end_s, until_s) - max(start_s, from_s))

    left = grouped((run.id, run) for run in runs if run.start_s is not None)
    ledger_s, compared, differences = 0.0, 0, []
    nodes_of: defaultdict[JobRun, set[str]] = defaultdict(set)
    for lending in lendings:
        lent_s = within_s(lending.start_s, lending.end_s)
        if not lent_s:
            continue
        ledger_s += lent_s
        # A job of several nodes is one run in accounting, and one lending for each node.
        others = (run for run in left[lending.job] if lending.node not in nodes_of[run])
        same = next((run for run in others if abs((run.start_s or 0.0) - lending.start_s) <= _SAME_S), None)
        if same is None:
            differences.append(Difference(lending.job, lending.node, lending.start_s, lent_s, None))
            continue
        nodes_of[same].add(lending.node)
        compared += 1
        known_s = within_s(same.start_s or 0.0, same.end_s)
        if abs(lent_s - known_s) > _SAME_S:
            differences.append(Difference(lending.job, lending.node, lending.start_s, lent_s, known_s))
    known = list(chain.from_iterable(left.values()))
    accounting_s = sum(within_s(run.start_s or 0.0, run.end_s) * max(1, len(nodes_of[run])) for run in known)
    for run in (run for run in known if not nodes_of[run]):
        # One that ended in the second of its start may be a second long in the ledger, or nothing.
        if known_s := within_s(run.start_s or 0.0, run.end_s):
            differences.append(Difference(run.id, "", run.start_s or 0.0, None, known_s))
    return Check(
        ledger_s, accounting_s, compared, tuple(sorted(differences, key=lambda difference: difference.start_s))
    )
