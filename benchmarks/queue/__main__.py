"""``python -m benchmarks.queue``: how much later jobs start where freetrain lends, on many simulated sites.

Two sites get the same submissions, one of them lends, or neither (the control). Slurm's backfill cycles begin at
another moment on each, so that two sites differ without freetrain, too: in a full queue a start that comes a
second later reorders what is behind it. How much that is shows a second control, without freetrain: on one of its
sites each job is submitted up to a second later.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import click

from benchmarks.live.workload import SiteJob
from benchmarks.queue.daemon import Habits
from benchmarks.queue.sites import play, rules_of, workloads_of
from benchmarks.queue.slurm import SimulatedSlurm
from freetrain.lending.rules import Rules

LATE_S = 10.0
_SHIFT_S = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sites with the same submissions.

    Attributes:
        added_s: how much later each job started on the second one.
        lent_s: node-seconds lent there, in holes of at least so many seconds: of all, and lent.
    """

    added_s: list[float]
    lent_s: dict[int, tuple[float, float]]


def compare(
    jobs: Sequence[SiteJob], rules: Rules, habits: Habits | None, seed: int, until_s: float, shift_s: float = 0.0
) -> Pair:
    """The second site lends, if there are habits; its jobs are submitted, in order, up to ``shift_s`` later."""
    dice = random.Random(seed)
    shifted_s = accumulate((job.at_s + dice.uniform(0.0, shift_s) for job in jobs), max)
    later = [replace(job, at_s=at_s) for job, at_s in zip(jobs, shifted_s, strict=True)]
    first, second = play(jobs, rules, None, 2 * seed)[0], play(later, rules, habits, 2 * seed + 1)[0]
    added_s = [
        (second.started_s[number] - later[number].at_s) - (at_s - jobs[number].at_s)
        for number, at_s in first.started_s.items()
    ]
    return Pair(added_s, {shortest_s: _lent_s(second, shortest_s, until_s) for shortest_s in (30, 60)})


def _lent_s(slurm: SimulatedSlurm, shortest_s: float, until_s: float) -> tuple[float, float]:
    holes = [hole for hole in _holes(slurm, until_s) if hole[2] - hole[1] >= shortest_s]
    lent = sum(
        max(0.0, min(end_s, gone_s) - max(begin_s, began_s))
        for name, begin_s, end_s in holes
        for node, began_s, gone_s in slurm.lent
        if node == name
    )
    return sum(end_s - begin_s for _, begin_s, end_s in holes), lent


def _holes(slurm: SimulatedSlurm, until_s: float) -> Iterator[tuple[str, float, float]]:
    for name in slurm.names:
        at_s = 0.0
        for _, begin_s, end_s in [*sorted(one for one in slurm.stays if one[0] == name), (name, until_s, until_s)]:
            if begin_s > at_s:
                yield name, at_s, min(begin_s, until_s)
            at_s = max(at_s, end_s)


def show(name: str, pairs: Sequence[Pair]) -> None:
    """One line of figures."""
    jobs = sorted(added_s for pair in pairs for added_s in pair.added_s)
    means = [statistics.mean(pair.added_s) for pair in pairs]
    spread_s = statistics.stdev(means)
    later, earlier = (100 * statistics.mean(sign * one > LATE_S for one in jobs) for sign in (1, -1))
    shares = {
        shortest_s: sum(pair.lent_s[shortest_s][1] for pair in pairs)
        / max(1.0, sum(pair.lent_s[shortest_s][0] for pair in pairs))
        for shortest_s in (30, 60)
    }
    click.echo(
        f"{name:16} {len(pairs)} pairs, {len(jobs)} jobs: mean {statistics.mean(means):+.2f} ± "
        f"{1.96 * spread_s / len(means) ** 0.5:.2f} s (one pair ± {1.96 * spread_s:.1f}), p95 "
        f"{jobs[int(0.95 * len(jobs))]:+.0f} s, more than {LATE_S:.0f} s later {later:.1f} %, earlier "
        f"{earlier:.1f} %; lent of holes of 30 s {shares[30]:.0%}, of 60 s {shares[60]:.0%}"
    )


@click.command()
@click.option("--pairs", type=int, default=100, show_default=True)
@click.option("--minutes", type=float, default=12.0, show_default=True)
@click.option("--load", type=float, default=0.78, show_default=True, help="Share of the machine that jobs fill.")
@click.option("--bf-interval", "interval_s", type=float, default=10.0, show_default=True)
@click.option("--next", "next_s", type=float, multiple=True, default=(0.0, 60.0), show_default=True)
@click.option("--polls-only", is_flag=True, help="Nothing wakes the daemon.")
def main(
    pairs: int,
    minutes: float,
    load: float,
    interval_s: float,
    next_s: tuple[float, ...],
    polls_only: bool,
) -> None:
    """Compare, beside a control that shows what is chance."""
    until_s = 60 * minutes
    workloads = workloads_of(pairs, minutes, load)
    habits = Habits(wake_s=float("inf")) if polls_only else Habits()
    cases = [
        ("control", 0.0, None, 0.0),
        ("control, shifted", 0.0, None, _SHIFT_S),
        *((f"next in {within_s:g} s", within_s, habits, 0.0) for within_s in next_s),
    ]
    for name, within_s, its_habits, shift_s in cases:
        rules = rules_of(interval_s, within_s)
        numbered = enumerate(workloads)
        show(name, [compare(jobs, rules, its_habits, seed, until_s, shift_s) for seed, jobs in numbered])


if __name__ == "__main__":
    main()
