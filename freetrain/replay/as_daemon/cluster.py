"""What the loop observes and acts on: a site as its log tells it, with fragments on its nodes."""

from __future__ import annotations

from freetrain.core.objectives import worth_per_s
from freetrain.core.plan import Action, Lend, Limit, Release
from freetrain.core.trainer import Trainer
from freetrain.lending.facts import Facts, Request
from freetrain.replay.as_daemon.lent import LentNodes
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.as_daemon.timing import Timing
from freetrain.replay.course import Felt
from freetrain.replay.trainer_run import TrainerRun


class SimulatedCluster:
    """Observed and acted on by the same loop as Slurm: see :class:`freetrain.loop.cycle.Cluster`.

    Args:
        site: the site's own side.
        timing: how long things take.
        objective: name of what is maximised.
        now_s: the first instant.

    Attributes:
        now_s: the instant, UTC epoch seconds.
        running: admitted trainings by id, in order of admission.
        lent: the nodes that are lent.
        retired_samples: samples of the trainings that have reached their target.
    """

    def __init__(self, site: LoggedSite, timing: Timing, objective: str, now_s: float) -> None:
        self._site = site
        self._timing = timing
        self._objective = objective
        self.now_s = now_s
        self.running: dict[str, TrainerRun] = {}
        self.lent = LentNodes(self.running, timing)
        self._delays_s: list[float] = []
        self._started = 0
        self.retired_samples = 0.0

    def observe(self) -> Facts:
        """What Slurm would have shown."""
        ended, self.lent.ended = tuple(self.lent.ended), []
        requests = tuple(Request(run.trainer, "everybody") for run in self.running.values())
        return Facts(self._site.snapshot(self.now_s), self.lent.open, ended, requests)

    def act(self, action: Action, decision: str | None) -> None:
        """Lend, give back, change a limit; there are no submissions to be put right."""
        if isinstance(action, Lend):
            runs_s = self._timing.runs_s(self.now_s, self._site.somebody_waits)
            self.lent.lend(action.trainer, action.nodes, action.limits_s, self.now_s, runs_s)
        elif isinstance(action, Release):
            self.lent.release(action.nodes, action.trainer, self.now_s)
        elif isinstance(action, Limit):
            self.lent.limit(action.nodes, action.limit_s)

    @property
    def felt(self) -> Felt:
        """What the site has felt so far."""
        return Felt(self._started, tuple(self._delays_s), self.lent.node_s)

    @property
    def idle_nodes(self) -> int:
        """Nodes that nobody of the site's has."""
        return len(self._site.idle)

    @property
    def lent_nodes(self) -> int:
        """Nodes on which trainings are."""
        return sum(len(run.nodes) for run in self.running.values())

    def holder_of(self, node: str) -> str | None:
        """Who has this node: a trainer's id, "" where it is idle, None where it is busy."""
        return (self.lent.holder_of(node) or "") if node in self._site.idle else None

    def advance_site(self) -> bool:
        """Take in what happens on the site's side now; whether anything did."""
        if self._site.next_s > self.now_s:
            return False
        for start in self._site.advance(self.now_s):
            self._started += 1
            delay_s = self.lent.take(start.nodes, self.now_s)
            if delay_s > 0:
                self._site.delay(start.job, delay_s)
                self._delays_s.append(delay_s)
        return True

    def admit(self, trainer: Trainer) -> TrainerRun:
        """Let a trainer compete for nodes from now on."""
        run = TrainerRun(trainer, worth_per_s(trainer, self._objective), self.now_s)
        self.running[trainer.id] = run
        return run

    def complete(self) -> bool:
        """Retire the trainings that have reached their targets; whether any had."""
        done = [run for run in self.running.values() if run.completes_s <= self.now_s]
        for run in done:
            self.lent.complete(run.trainer.id, self.now_s)
            run.complete(self.now_s)
            del self.running[run.trainer.id]
            self.retired_samples += run.samples
        return bool(done)
