"""``python -m benchmarks.parts``: CPU time of the judge where parts of nodes are lent on a large machine."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import click
import numpy as np

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.needs import Needs
from freetrain.core.node import Node, NodeState, Partition
from freetrain.core.plan import Release
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Facts, Request
from freetrain.lending.judge import Judgement, judge
from freetrain.lending.memory import Memory
from freetrain.lending.rules import FragmentRules, HarmRules, NodeRules, Rules, Share, SharingRules
from freetrain.lending.shadow import BackfillRules

TYPES = ("a100", "h100")
GPUS, CPUS, MEMORY_MB = 8, 64, 512_000
USERS = 40
RULES = Rules(
    NodeRules(
        FragmentQueue("freetrain"), margin_s=15.0, shortest_hole_s=15.0, next_within_s=60.0, share=Share.ANY,
        backfill=BackfillRules(interval_s=10.0),
    ),
    FragmentRules(3600.0, 70.0, 60.0),
    HarmRules(60.0, 3600.0, 3, 600.0),
    SharingRules(max_running=1000),
    "speedup",
    120.0,
)  # fmt: skip


@dataclass
class Machine:
    """A machine whose jobs come and go, and what is lent beside them.

    Args:
        nodes: how many.
        trainers: how many.
        waiting: jobs of the site's that wait.
        seed: what is drawn.
    """

    nodes: int
    trainers: int
    waiting: int
    seed: int = 0
    now_s: float = 1_800_000_000.0
    _jobs: dict[str, Job] = field(default_factory=dict)
    _lent: list[Fragment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._names = [f"g{number:04}" for number in range(self.nodes)]
        self._free = {name: Amount(CPUS, MEMORY_MB, ((_type_of(name), GPUS),)) for name in self._names}
        self._total = dict(self._free)
        self._ids = iter(range(1_000_000))
        self._requests = tuple(self._request(number) for number in range(self.trainers))
        self._needs = {one.id: one.needs for one in self._requests}
        while sum(one.gpus for one in self._free.values()) > 0.3 * GPUS * self.nodes:
            self._start_job()
        self._queue = [self._waiting_job() for _ in range(self.waiting)]

    def looks(self, count: int) -> Iterator[Facts]:
        """Facts of one look after another; between two of them 20 jobs end, and as many come as have begun."""
        for _ in range(count):
            self.now_s += 5.0
            for id_ in self._dice.sample(sorted(self._jobs), 20):
                job = self._jobs.pop(id_)
                for name in job.nodes:
                    self._give_back(name, job.asks or Amount())
            missing = self.waiting - len(self._queue)
            self._queue += [self._waiting_job() for _ in range(missing)]
            yield self._facts()

    def heed(self, judged: Judgement) -> None:
        """Give back what is due, start the jobs for which it is, and lend all that was dealt."""
        back = {name for order in judged.orders if isinstance(order, Release) for name in order.nodes}
        for one in [one for one in self._lent if one.place in back]:
            self._lent.remove(one)
            self._give_back(one.node, self._amount(one.trainer, one.node))
        starting = {plan.job: plan for plan in judged.shadow.plans if plan.start_s <= judged.now_s}
        for job in [job for job in self._queue if job.id in starting]:
            self._queue.remove(job)
            self._start(job, starting[job.id].nodes)
        for nodes, trainers in judged.questions:
            for number, place in enumerate(one for one in nodes if one.holder is None):
                if trainers:
                    self._lend(trainers[number % len(trainers)].id, place.node)

    def _start(self, job: Job, names: frozenset[str]) -> None:
        for name in names:
            self._free[name] = self._free[name].without(job.asks or Amount())
        end_s = self.now_s + job.limit_s
        self._jobs[job.id] = replace(job, state=JobState.RUNNING, nodes=names, start_s=self.now_s, end_s=end_s)

    def _lend(self, trainer: str, name: str) -> None:
        amount = self._amount(trainer, name)
        if amount.fits(self._free[name]):
            self._free[name] = self._free[name].without(amount)
            self._lent.append(
                Fragment(f"{trainer}_{next(self._ids)}", trainer, name, FragmentState.RUNNING, self.now_s, 3600.0,
                         self.now_s, id=next(self._ids))
            )  # fmt: skip

    def _amount(self, trainer: str, name: str) -> Amount:
        return self._needs[trainer].amount_on(self._node(name))

    def _give_back(self, name: str, amount: Amount) -> None:
        total, free = self._total[name], self._free[name] + amount
        self._free[name] = Amount(free.cpus, free.memory_mb, ((total.gres[0][0], free.gpus),))

    def _node(self, name: str) -> Node:
        total = self._total[name]
        used = total.without(self._free[name])
        state = NodeState.BUSY if used.cpus else NodeState.IDLE
        return Node(
            name, state, partitions=("main", "freetrain"), cpus=CPUS, memory_mb=MEMORY_MB, gres=total.gres,
            sockets=2, cores_per_socket=CPUS // 2, threads_per_core=1, used=used,
        )  # fmt: skip

    def _facts(self) -> Facts:
        every = frozenset(self._names)
        partitions = {
            name: Partition(name, every, priority_tier=tier) for name, tier in (("main", 9), ("freetrain", 1))
        }
        ours = [
            Job(one.job, one.trainer, "u", "freetrain", JobState.RUNNING, nodes=frozenset({one.node}))
            for one in self._lent
        ]
        jobs = (*self._jobs.values(), *self._queue, *ours)
        nodes = tuple(map(self._node, self._names))
        snapshot = Snapshot(self.now_s, nodes, jobs, partitions=partitions)
        return Facts(snapshot, tuple(self._lent), requests=self._requests)

    def _request(self, number: int) -> Request:
        gpus, kind = (
            self._dice.choice((1, 1, 1, 2, 2, 4, 8)),
            self._dice.choice(("gpu", "gpu", "gpu:a100", "gpu:h100")),
        )
        needs = Needs(gres=((kind, gpus),), cpus=gpus * self._dice.choice((1, 2, 4, 8)), memory_mb=16_000 * gpus)
        trainer = Trainer(
            f"t{number}", ((1, 1.0), (64, 50.0)), 1, 64, scale_up_s=1.0, scale_down_s=1.0, start_s=10.0
        )
        return Request(trainer, f"user{number % USERS:02}", needs=replace(needs, is_whole=False).lent_in_part())

    def _asks(self) -> Amount:
        gpus = self._dice.choice((0, 1, 1, 2, 2, 4, 8))
        return Amount(
            max(1, gpus * self._dice.choice((1, 2, 4, 8))), 8000 * max(1, gpus), (("gpu", gpus),) if gpus else ()
        )

    def _start_job(self) -> None:
        name, asks = self._dice.choice(self._names), self._asks()
        if asks.fits(self._free[name]):
            id_, limit_s = str(next(self._ids)), self._dice.choice((600.0, 3600.0, 86400.0))
            self._free[name] = self._free[name].without(asks)
            start_s = self.now_s - self._dice.uniform(0, limit_s)
            self._jobs[id_] = Job(
                id_, id_, "u", "main", JobState.RUNNING, nodes=frozenset({name}), start_s=start_s,
                end_s=round(start_s + limit_s), limit_s=limit_s, asks=asks,
            )  # fmt: skip

    def _waiting_job(self) -> Job:
        id_ = str(next(self._ids))
        return Job(
            id_, id_, "u", "main", JobState.PENDING, node_count=self._dice.choice((1, 1, 1, 1, 2, 4, 16)),
            submitted_s=self.now_s, limit_s=self._dice.choice((600.0, 3600.0, 86400.0)), asks=self._asks(),
        )  # fmt: skip


def _type_of(name: str) -> str:
    return f"gpu:{TYPES[int(name[1:]) % len(TYPES)]}"


@click.command()
@click.option("--nodes", default=1000, show_default=True, help=f"Nodes of {GPUS} GPUs.")
@click.option("--trainers", default=200, show_default=True)
@click.option("--waiting", default=300, show_default=True, help="Jobs of the site's that wait.")
@click.option("--looks", default=30, show_default=True)
def main(nodes: int, trainers: int, waiting: int, looks: int) -> None:
    """Judge one look after another, and print the CPU seconds that it took."""
    machine, memory, spent_s = Machine(nodes, trainers, waiting), Memory(), []
    for number, facts in enumerate(machine.looks(looks)):
        began_s = time.process_time()
        judged = judge(facts, memory, RULES)
        spent_s.append(time.process_time() - began_s)
        memory = judged.memory
        machine.heed(judged)
        if number in (0, looks - 1):
            starting = sum(plan.start_s <= judged.now_s for plan in judged.shadow.plans)
            later = len(judged.shadow.plans) - starting
            words = f"{len(facts.fragments)} parts lent, {starting} jobs would start now, {later} later"
            click.echo(f"look {number + 1}: {spent_s[-1]:.2f} s, {words}")
    p95_s = float(np.percentile(spent_s, 95, method="nearest"))
    click.echo(f"judge, p50/p95/max: {statistics.median(spent_s):.2f} / {p95_s:.2f} / {max(spent_s):.2f} s of CPU")


if __name__ == "__main__":
    main()
