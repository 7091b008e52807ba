"""``python -m benchmarks.objectives``: what each objective brings, and what it costs the others.

Two days of a sample log, as the daemon would have gone. Four users in two accounts have three trainings each: one
without an end and two with deadlines. One of the users comes on the second day. Half of the nodes take half as
much electricity again as the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from freetrain.config import Config
from freetrain.core.holes import Holes
from freetrain.core.trainer import Trainer
from freetrain.daemon.rules import rules_of
from freetrain.loop.cycle import Goal
from freetrain.policies import find_policy
from freetrain.replay.as_daemon.lent import Timing
from freetrain.replay.course import Costs, ReplayRecord, ReplaySetup
from freetrain.replay.logs import ReadOptions, SiteLog, read_site_log
from freetrain.replay.study import DaemonSetup, replay_as_daemon
from freetrain.replay.trainers import CURVES
from freetrain.slurm.settings import SlurmSettings

LOG = Path("sample_logs/small-cluster.sacct.gz")
_FROM_S, _HOUR_S = 1717372800.0, 3600.0  # 2024-06-03
_USERS = (("ann", "vision", 0), ("ben", "vision", 0), ("cat", "language", 0), ("dan", "language", 24))
"""User, account, hour of his submissions."""
_DEADLINES = ((20, 12), (40, 23))
"""Node-hours of work, and hours from the submission until it shall be done."""
_COSTS = Costs(18.0, 12.0, 60.0, 30.0)
_SLURM = SlurmSettings("", "", "preempt/partition_prio", "REQUEUE", 30.0, 60.0, "slurm")
_WATTS = {"watts_of": {"new": 800, "old": 1100}, "idle_watts_of": {"new": 200, "old": 200}}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a site may want.

    Attributes:
        name: of the row.
        objective: as in decide.objective.
        lend: settings of that section.
        weight: that owners give to their trainings without an end.
    """

    name: str
    objective: str = "speedup"
    lend: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0


_BY_ACCOUNT = {"fair_share": "account", "shares": {"vision": 3.0}}
WISHES = (
    Wish("`speedup`, users share equally"),
    Wish("`throughput`", "throughput"),
    Wish("`weighted`: owners give weight 4 to the endless ones", "weighted", weight=4.0),
    Wish("`weighted,deadlines=9`, likewise", "weighted,deadlines=9", weight=4.0),
    Wish('`lend.shares`: account "vision" three times as much', lend=_BY_ACCOUNT),
    Wish("`lend.half_life` of 6 hours instead of a week", lend={"half_life": 6 * _HOUR_S}),
    Wish('`lend.fair_share = "off"`', lend={"fair_share": "off"}),
    Wish("`deadlines=3`", "speedup,deadlines=3"),
    Wish("`energy=3600`", "speedup,energy=3600"),
    Wish("`evictions=600`", "speedup,evictions=600"),
    Wish(
        "`weighted,deadlines=9,energy=3600,evictions=600`, shares, 6 hours",
        "weighted,deadlines=9,energy=3600,evictions=600",
        {**_BY_ACCOUNT, "half_life": 6 * _HOUR_S},
        4.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of a replay.

    Attributes:
        samples: trained in all.
        node_hours_of_work: the same, each training's in hours on one node.
        endless: part of that which the trainings without an end have.
        vision: part of the lent node-hours that account has.
        latecomer: part of them that the user has who came on the second day.
        met: deadlines.
        due: how many there were.
        kwh: electricity.
        evictions: nodes taken back unasked.
        delay_mean_s: how much later the site's jobs started on idle nodes.
    """

    samples: float
    node_hours_of_work: float
    endless: float
    vision: float
    latecomer: float
    met: int
    due: int
    kwh: float
    evictions: int
    delay_mean_s: float


def trainers(weight: float = 1.0) -> Iterator[Trainer]:
    """Those of all users, in order of submission; those without an end have this weight."""
    networks = iter([*CURVES, *CURVES])
    for user, account, hour in _USERS:
        submitted_s = _FROM_S + hour * _HOUR_S
        for number, due in enumerate((None, *_DEADLINES), 1):
            network = next(networks)
            one = Trainer(
                f"{user}-{number}", CURVES[network], submitted_s=submitted_s, owner=user, account=account,
                weight=weight if due is None else 1.0,
            )  # fmt: skip
            if due is not None:
                target, deadline_s = one.rate(1) * due[0] * _HOUR_S, submitted_s + due[1] * _HOUR_S
                one = replace(one, target_samples=target, deadline_s=deadline_s)
            yield one


def read_log(hours: float) -> SiteLog:
    """The beginning of the sample log, on nodes of two kinds by turns."""
    log = read_site_log([LOG], ReadOptions(until_s=_FROM_S + hours * _HOUR_S))
    return replace(log, holes=_of_two_kinds(log.holes))


def _of_two_kinds(holes: Holes) -> Holes:
    kinds = {name: ("new", "old")[number % 2] for number, name in enumerate(holes.node_names)}
    return replace(holes, kind_of=kinds)


def replay(log: SiteLog, wish: Wish) -> Figures:
    """What the daemon would have got."""
    config = Config.model_validate(
        {"lend": dict(wish.lend), "decide": {"objective": wish.objective}, "prices": _WATTS}
    )
    how = DaemonSetup(rules_of(config, _SLURM), Goal.of(find_policy("freetrain"), wish.objective), Timing())
    setup = ReplaySetup(list(trainers(wish.weight)), how.goal, time.perf_counter, _COSTS)
    return _figures(replay_as_daemon(log, setup, how))


def _figures(record: ReplayRecord) -> Figures:
    runs, impact = record.runs, record.site_impact
    assert impact is not None
    work_s = {run.trainer.id: run.samples / run.trainer.rate(1) for run in runs}
    node_s = sum(run.node_s for run in runs)
    due = [run for run in runs if run.trainer.deadline_s is not None]
    done = [run for run in due if run.completed_s and run.completed_s <= (run.trainer.deadline_s or 0)]
    return Figures(
        sum(run.samples for run in runs),
        sum(work_s.values()) / _HOUR_S,
        sum(seconds for id_, seconds in work_s.items() if id_.endswith("-1")) / sum(work_s.values()),
        sum(run.node_s for run in runs if run.trainer.account == "vision") / node_s,
        sum(run.node_s for run in runs if run.trainer.owner == _USERS[-1][0]) / node_s,
        len(done),
        len(due),
        sum(run.joules for run in runs) / 3.6e6,
        sum(run.evicted_nodes for run in runs),
        sum(impact.delays_s) / max(impact.starts, 1),
    )


def table(found: Sequence[tuple[Wish, Figures]]) -> Iterator[str]:
    """The figures as the page shows them."""
    yield (
        "| | samples, 10⁹ | work, node-h | of it endless | vision | latecomer | deadlines met | kWh "
        "| evictions | site's jobs later |"
    )
    yield f"|---|{'--:|' * 9}"
    for wish, each in found:
        yield (
            f"| {wish.name} | {each.samples / 1e9:.2f} | {each.node_hours_of_work:.1f} | {each.endless:.0%} "
            f"| {each.vision:.0%} | {each.latecomer:.0%} | {each.met} of {each.due} | {each.kwh:.0f} "
            f"| {each.evictions:,} | {each.delay_mean_s:.2f} s |"
        )


@click.command()
@click.option("--hours", type=float, default=48.0, show_default=True, help="So much of the log.")
def main(hours: float) -> None:
    """Replay the sample log once for each objective, and print a table."""
    log = read_log(hours)
    found = []
    for wish in WISHES:
        found.append((wish, replay(log, wish)))
        click.echo(f"{wish.name}: done", err=True)
    click.echo("\n".join(table(found)))


if __name__ == "__main__":
    main()
