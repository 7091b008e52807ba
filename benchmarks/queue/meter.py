"""``python -m benchmarks.queue.meter``: the delays that freetrain counts, beside those that there are.

Each site is simulated once more for each delay: as it was until a second before the job would have started, and
without fragments from then on. Nothing but fragments is different then, but that chance, as of how long a node is
cleared up, is drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from benchmarks.live.workload import SiteJob
from benchmarks.queue.daemon import Habits
from benchmarks.queue.sites import play, rules_of, workloads_of
from freetrain.core.harm import Harm
from freetrain.lending.rules import Rules

_BEFORE_S = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A delay.

    Attributes:
        site: of which simulated site.
        harm: as it was counted.
        true_s: how much later the job started than without fragments.
    """

    site: int
    harm: Harm
    true_s: float


def measure(jobs: Sequence[SiteJob], rules: Rules, seed: int, least_s: float, step: int) -> list[Measured]:
    """The delays of one site: all that are large, and of the others one in so many."""
    slurm, harms = play(jobs, rules, Habits(), seed)
    chosen = [one for number, one in enumerate(harms) if one.delay_s >= least_s or number % step == 0]
    measured = []
    for harm in chosen:
        without, _ = play(jobs, rules, Habits(), seed, harm.started_s - harm.delay_s - _BEFORE_S)
        job = int(harm.job)
        measured.append(Measured(seed, harm, slurm.started_s[job] - without.started_s[job]))
    return measured


@click.command()
@click.option("--sites", type=int, default=20, show_default=True)
@click.option("--load", type=float, default=0.78, show_default=True, help="Share of the machine that jobs fill.")
@click.option("--bf-interval", "interval_s", type=float, default=10.0, show_default=True)
@click.option("--least", "least_s", type=float, default=8.0, show_default=True, help="Delays that are large.")
@click.option("--step", type=int, default=10, show_default=True, help="Of the others one in so many is looked at.")
def main(sites: int, load: float, interval_s: float, least_s: float, step: int) -> None:
    """Compare, the large ones one by one, and the others in sum."""
    rules = rules_of(interval_s)
    measured = [
        one
        for seed, jobs in enumerate(workloads_of(sites, 12.0, load))
        for one in measure(jobs, rules, seed, least_s, step)
    ]
    large = sorted((one for one in measured if one.harm.delay_s >= least_s), key=lambda one: -one.harm.delay_s)
    for one in large:
        parts = f"{one.harm.unnoticed_s:.1f} + {one.harm.leaving_s:.1f} + {one.harm.window_s:.1f}"
        click.echo(
            f"site {one.site} job {one.harm.job} at {one.harm.started_s:.0f} s: "
            f"{one.harm.delay_s:.1f} s counted ({parts}), {one.true_s:+.1f} s in truth"
        )
    others = [one for one in measured if one.harm.delay_s < least_s]
    for name, group in ((f"{least_s:g} s and more", large), (f"less, one of {step}", others)):
        counted_s, true_s = sum(one.harm.delay_s for one in group), sum(one.true_s for one in group)
        click.echo(f"{name}: {len(group)} delays, {counted_s:.0f} s counted, {true_s:.0f} s in truth")


if __name__ == "__main__":
    main()
