"""The other systems by plain loops and exact fractions: slow, and written from what the docs say of their methods.

Values are worked out from definitions (a utility by numeric integration, a score by fractions), optima by trying
everything. TUNE and DLTAP are no optima: they are written once more, from the rules that are published of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

from benchmarks.experiments.dltap import Host, PlacedTask, TaskKind, Weights
from benchmarks.experiments.smd import RunOption, SizeLimits
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer
from freetrain.policies.smd import ServerModel
from freetrain.policies.synergy import Profile, SharedServer, SharingJob

TINY = 1e-9
Shares = dict[str, dict[str, tuple[int, float, float]]]
"""Training → server → GPUs, and CPUs and memory for each of them."""


def shortest_step_s(model: ServerModel, limits: SizeLimits) -> float:
    """The shortest step of SMD's inner problem; infinite: not even one worker and one server are allowed."""
    a, b, c, d, e = model.coefficients
    best = math.inf
    for w, p in product(range(1, limits.most_workers + 1), range(1, limits.most_servers + 1)):
        taken = zip(limits.worker, limits.server, limits.most, strict=True)
        if all(w * worker + p * server <= most + TINY for worker, server, most in taken):
            best = min(best, a * model.batch / w + b + c * w / p + d * w + e * p)
    return best


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a network that is trained with parameter servers.

    Attributes:
        forward_s: of a sample.
        backward_s: of a step.
        gradient_bytes: that a worker sends, and gets back.
    """

    forward_s: float
    backward_s: float
    gradient_bytes: float


def layered_step_s(
    layers: Sequence[Layer], samples: float, send: Callable[[Layer], float], update_s: float
) -> float:
    """A step whose layers are sent while others compute, event by event; ``update_s`` is for each byte."""
    now_s, began_s, pulled_s = 0.0, 0.0, [0.0] * len(layers)
    for _ in range(8):
        began_before_s, began_s = began_s, max(now_s, pulled_s[0])
        for number, layer in enumerate(layers):
            now_s = max(now_s, pulled_s[number]) + layer.forward_s * samples
        push_s = pull_s = 0.0
        for number, layer in reversed(list(enumerate(layers))):
            now_s += layer.backward_s
            push_s = max(now_s, push_s) + send(layer)
            pull_s = max(push_s + update_s * layer.gradient_bytes, pull_s) + send(layer)
            pulled_s[number] = pull_s
    return began_s - began_before_s


def best_options(options: Sequence[RunOption], capacity: Sequence[float]) -> float:
    """The optimum of SMD's outer problem: each training has one of its options, or none."""
    by_job: dict[int, list[RunOption | None]] = {}
    for option in options:
        by_job.setdefault(option.job, [None]).append(option)
    best = 0.0
    for chosen in product(*by_job.values()):
        taken = [option for option in chosen if option is not None]
        totals = (sum(option.demand[resource] for option in taken) for resource in range(len(capacity)))
        if all(total <= most + TINY for total, most in zip(totals, capacity, strict=True)):
            best = max(best, sum(option.value for option in taken))
    return best


def best_split(server: SharedServer, jobs: Sequence[SharingJob]) -> float:
    """The optimum of Synergy's OPT: most rate of all points of all profiles, nobody below its share."""
    share = server.cpus / server.gpus, server.memory_gb / server.gpus
    points = [
        [
            (cpus * job.gpus, memory_gb * job.gpus, rate)
            for memory_gb, row in zip(job.profile.memory_gb, job.profile.rates, strict=True)
            for cpus, rate in zip(job.profile.cpus, row, strict=True)
            if rate >= _rate(job.profile, *share) - TINY
        ]
        for job in jobs
    ]
    return max(
        sum(rate for _, _, rate in chosen)
        for chosen in product(*points)
        if sum(cpus for cpus, _, _ in chosen) <= server.cpus + TINY
        and sum(memory_gb for _, memory_gb, _ in chosen) <= server.memory_gb + TINY
    )


def _rate(profile: Profile, cpus: float, memory_gb: float) -> float:
    """The rate at the largest point that is not above so much; 0 below all of them."""
    columns = [number for number, point in enumerate(profile.cpus) if point <= cpus + TINY]
    rows = [number for number, point in enumerate(profile.memory_gb) if point <= memory_gb + TINY]
    return profile.rates[rows[-1]][columns[-1]] if rows and columns else 0.0


def _least(profile: Profile, cpus: float, memory_gb: float) -> tuple[float, float]:
    """The least CPUs, then memory, that are as fast as so much; so much where it lies below all points."""
    best = _rate(profile, cpus, memory_gb)
    points = sorted(product(profile.cpus, profile.memory_gb))
    within = (point for point in points if point[0] <= cpus + TINY and point[1] <= memory_gb + TINY)
    return next((point for point in within if _rate(profile, *point) >= best - TINY), (cpus, memory_gb))


class _Tuning:
    """Servers while TUNE shares them out."""

    def __init__(self, servers: Sequence[SharedServer], jobs: Sequence[SharingJob]) -> None:
        self.servers, self.jobs, self.shares = servers, {job.id: job for job in jobs}, Shares()

    def free(self, server: SharedServer) -> tuple[int, float, float]:
        gpus, cpus, memory_gb = server.gpus, server.cpus, server.memory_gb
        for mine in self.shares.values():
            its_gpus, its_cpus, its_gb = mine.get(server.name, (0, 0.0, 0.0))
            gpus, cpus, memory_gb = gpus - its_gpus, cpus - its_gpus * its_cpus, memory_gb - its_gpus * its_gb
        return gpus, cpus, memory_gb

    def has_room(self, server: SharedServer, gpus: int, each: tuple[float, float]) -> bool:
        free_gpus, free_cpus, free_gb = self.free(server)
        return gpus <= free_gpus and gpus * each[0] <= free_cpus + TINY and gpus * each[1] <= free_gb + TINY

    def give(self, job: SharingJob, server: SharedServer, gpus: int, each: tuple[float, float]) -> None:
        mine = self.shares.setdefault(job.id, {})
        mine[server.name] = mine.get(server.name, (0, 0.0, 0.0))[0] + gpus, *each

    def within_share(self, job: SharingJob, server: SharedServer) -> tuple[float, float]:
        return _least(job.profile, server.cpus / server.gpus, server.memory_gb / server.gpus)

    def place(self, job: SharingJob, wanted: Callable[[SharedServer], tuple[float, float]]) -> bool:
        """On the tightest server that has room for all, else GPU by GPU."""
        tightest = sorted(self.servers, key=lambda server: (self.free(server)[0], server.name))
        for server in tightest:
            if self.has_room(server, job.gpus, wanted(server)):
                self.give(job, server, job.gpus, wanted(server))
                return True
        missing = job.gpus
        for server in tightest if job.gpus > 1 else ():
            while missing and self.has_room(server, 1, wanted(server)):
                self.give(job, server, 1, wanted(server))
                missing -= 1
        if missing:
            self.shares.pop(job.id, None)
        return not missing

    def make_room(self, job: SharingJob) -> None:
        """On the tightest server with enough free GPUs, else the roomiest, with others cut to their shares."""
        free = {server.name: self.free(server)[0] for server in self.servers}
        chosen = sorted(self.servers, key=lambda server: (-free[server.name], server.name))
        if enough := [server for server in self.servers if free[server.name] >= job.gpus]:
            chosen = [min(enough, key=lambda server: (free[server.name], server.name))]
        missing = job.gpus
        for server in chosen:
            gpus = min(missing, free[server.name])
            peers = {name: mine for name, mine in self.shares.items() if server.name in mine}
            few_then_rich = {
                name: (len(mine), *(-each for each in mine[server.name][1:]), name) for name, mine in peers.items()
            }
            for name in sorted(few_then_rich, key=lambda name: few_then_rich[name]):
                if not self.has_room(server, gpus, self.within_share(job, server)):
                    its_gpus = peers[name][server.name][0]
                    peers[name][server.name] = its_gpus, *self.within_share(self.jobs[name], server)
            if gpus:
                self.give(job, server, gpus, self.within_share(job, server))
            missing -= gpus


def tuned(servers: Sequence[SharedServer], jobs: Sequence[SharingJob]) -> Shares:
    """Synergy's TUNE: largest demand first; with its demand, else within its share, else others give room."""
    tuning = _Tuning(servers, jobs)
    demands = {job.id: _least(job.profile, math.inf, math.inf) for job in jobs}
    for job in sorted(jobs, key=lambda job: (-job.gpus, *(-job.gpus * each for each in demands[job.id]), job.id)):
        ways = (lambda _, job=job: demands[job.id]), partial(tuning.within_share, job)
        if not any(tuning.place(job, wanted) for wanted in ways):
            tuning.make_room(job)
    return tuning.shares


def utility(alpha: float, done: float, target: float, weight: float) -> float:
    """GADGET's utility of what is done: the integral of 1/(1+9x)^alpha up to its share, by Simpson's rule."""

    def integral(until: float, steps: int = 400) -> float:
        width = until / steps
        heights = [math.pow(1 + 9 * number * width, -alpha) for number in range(steps + 1)]
        return width / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))

    return weight * integral(min(max(done / target, 0.0), 1.0)) / integral(1.0)


def gadget_value(problem: Problem, trainer: Trainer, alpha: float, size: int) -> float:
    """The utility that a size gains until the horizon, and a millionth of what it does, for who is done sooner."""
    done, target = problem.done_samples.get(trainer.id, 0.0), trainer.target_samples or math.inf
    held = sum(node.holder == trainer.id for node in problem.nodes)
    now, then = _samples_per_s(trainer, held), _samples_per_s(trainer, size)
    more = then * problem.horizon_s
    if size != held and now:
        more -= now * (trainer.scale_up_s if size > held else trainer.scale_down_s)
    elif size != held:
        more = then * max(problem.horizon_s - trainer.start_s, 0.0)
    after = utility(alpha, done + more, target, trainer.weight)
    return after - utility(alpha, done, target, trainer.weight) + 1e-6 * trainer.weight * more / target


def smd_value(problem: Problem, trainer: Trainer, size: int) -> float:
    """The worth of completing at a size: half of it a day from now."""
    held = sum(node.holder == trainer.id for node in problem.nodes)
    now, then = _samples_per_s(trainer, held), _samples_per_s(trainer, size)
    if not then:
        return 0.0
    left = max((trainer.target_samples or math.inf) - problem.done_samples.get(trainer.id, 0.0), 0.0)
    change_s = trainer.scale_up_s if size > held else trainer.scale_down_s
    lost_s = 0.0 if size == held else change_s if now else trainer.start_s
    return trainer.weight / (1 + math.exp(0.2 * ((left / then + lost_s) / 3600 - 24)))


def _samples_per_s(trainer: Trainer, nodes: int) -> float:
    """The rate on the line between the measured sizes beside this one; 0 below the least size."""
    for (left, low), (right, high) in pairwise(((0, 0.0), *trainer.throughput)):
        if left < nodes <= right and nodes >= trainer.min_nodes:
            return low + (high - low) * (nodes - left) / (right - left)
    return 0.0


def best_sizes(values: Sequence[Mapping[int, float]], nodes: int) -> float:
    """The most that sizes of all trainers are worth which fit on so many nodes together."""
    return max(
        sum(of_trainer[size] for of_trainer, size in zip(values, sizes, strict=True))
        for sizes in product(*values)
        if sum(sizes) <= nodes
    )


def placed_by_score(tasks: Sequence[PlacedTask], hosts: Sequence[Host], weights: Weights) -> list[int | None]:
    """DLTAP's placement by exact fractions, task after task; equal scores: least free CPUs, then the first."""
    used = [[Fraction(host.used_cpus), Fraction(host.used_memory_gb)] for host in hosts]
    placed: list[int | None] = []
    for task in tasks:
        asks = Fraction(task.cpus), Fraction(task.memory_gb)
        ranked = []
        for number, host in enumerate(hosts):
            size = Fraction(host.cpus), Fraction(host.memory_gb)
            after = [has + more for has, more in zip(used[number], asks, strict=True)]
            if all(taken <= most for taken, most in zip(after, size, strict=True)):
                shares = [taken / most for taken, most in zip(after, size, strict=True)]
                score = _score(number, task, tasks, placed, hosts, weights, shares)
                ranked.append((-score, size[0] - after[0], number))
        best = min(ranked, default=None)
        placed.append(None if best is None else best[2])
        if best is not None:
            used[best[2]] = [has + more for has, more in zip(used[best[2]], asks, strict=True)]
    return placed


def _score(
    number: int,
    task: PlacedTask,
    tasks: Sequence[PlacedTask],
    placed: Sequence[int | None],
    hosts: Sequence[Host],
    weights: Weights,
    used: Sequence[Fraction],
) -> int:
    """The sum of whole scores of a host, with the task on it."""
    is_peer = {
        other: weights.all_are_peers or (task.kind is TaskKind.SERVER and other is TaskKind.WORKER)
        for other in TaskKind
    }
    peers = sum(is_peer[other.kind] for other in tasks) - weights.all_are_peers
    of_peers = [where for other, where in zip(tasks, placed, strict=False) if is_peer[other.kind]]
    on_leaf = sum(where is not None and hosts[where].leaf == hosts[number].leaf for where in of_peers)
    own = [placed.count(host) for host in range(len(hosts))]
    return (
        weights.aggregation * (10 * of_peers.count(number) // max(peers, 1) + 1)
        + weights.leaf * (10 * on_leaf // max(peers, 1))
        + weights.least_requested * (sum(math.floor(10 * (1 - share)) for share in used) // 2)
        + weights.balanced * (0 if max(used) >= 1 else math.floor(10 - 10 * abs(used[0] - used[1])))
        + weights.spreading * (10 * (max(own) - own[number]) // max(own) if max(own) else 10)
    )
