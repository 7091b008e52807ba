"""The daemon's own metrics, for Prometheus; what Slurm itself exports is not repeated."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from freetrain import __version__
from freetrain.core.decision import Decision
from freetrain.core.fragment import End
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.reports.status import LookStatus, NodeStanding
from freetrain.lending.back_off import Cause
from freetrain.lending.judge import Judgement
from freetrain.policies.solver.guests import Agreement
from freetrain.slurm.parsing import expand_nodes

# A training reports its progress at least so often; of a longer silence only the end was training.
_PROGRESS_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Use:
    """Use of the partition's nodes at one instant.

    Attributes:
        time_s: when Slurm was asked, UTC epoch seconds.
        idle: nodes that the site's own jobs do not use; lent ones are among them.
        offered: of these, those that may be lent.
        lent: trainer → nodes on which its fragments run.
        samples: trainer → samples that it has trained with so far, as it says.
    """

    time_s: float
    idle: int
    offered: int
    lent: Mapping[str, int]
    samples: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeSeconds:
    """Node-seconds between two looks, each as in :class:`Use`; useful are those of trainers that have got on."""

    idle: float = 0.0
    offered: float = 0.0
    lent: float = 0.0
    useful: float = 0.0


@dataclass(frozen=True, slots=True)
class _SinceProgress:
    """Node-seconds of a trainer since it was last seen to get on."""

    since_s: float
    node_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class UseMeter:
    """Memory of the count of node-seconds between two looks."""

    before: Use | None = None
    waiting: Mapping[str, _SinceProgress] = field(default_factory=dict)

    def after(self, now: Use) -> tuple[UseMeter, NodeSeconds]:
        """The meter after this look, and the node-seconds since the last one, with all as it was then."""
        before = self.before
        if before is None:
            return UseMeter(now), NodeSeconds()
        elapsed_s = max(0.0, now.time_s - before.time_s)
        waiting, useful = {}, 0.0
        for trainer, nodes in before.lent.items():
            old = self.waiting.get(trainer, _SinceProgress(before.time_s))
            node_seconds = old.node_seconds + nodes * elapsed_s
            if now.samples.get(trainer, 0.0) > before.samples.get(trainer, 0.0):
                silent_s = max(now.time_s - old.since_s, _PROGRESS_WITHIN_S)
                useful += node_seconds * _PROGRESS_WITHIN_S / silent_s
            elif trainer in now.lent:
                waiting[trainer] = _SinceProgress(old.since_s, node_seconds)
        lent = sum(before.lent.values())
        spent = NodeSeconds(before.idle * elapsed_s, before.offered * elapsed_s, lent * elapsed_s, useful)
        return UseMeter(now, waiting), spent


_HARM_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
_LOOK_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SOLVE_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10)
_NODE_STATES = get_args(NodeStanding)
_NODE_SECONDS = {
    "idle": "Node time that the site's own jobs did not use.",
    "offered": "Of that, what could be lent.",
    "lent": "Of that, what was lent.",
    "useful": "Of that, what trainings that report progress trained in.",
}
"""Fields of :class:`NodeSeconds`, each a counter."""


class Metrics:
    """Counts what the daemon does; counters begin with it, but for the ends of fragments, which it remembers."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        Info("freetrain_build", "Which freetrain this is.", registry=registry).info({"version": __version__})
        self._ends = _Ends()
        registry.register(self._ends)
        self._meter = UseMeter()
        self._totals: Tally[Counter] = Tally()
        self._last: Judgement | None = None

        counter = partial(Counter, namespace="freetrain", registry=registry)
        gauge = partial(Gauge, namespace="freetrain", registry=registry)
        histogram = partial(Histogram, namespace="freetrain", registry=registry)

        self._lends = gauge("lends", "1 if nodes may be lent, 0 in other modes, stopped or paused.")
        self._backs_off = gauge("backs_off", "1 while lending is paused by itself for this cause.", ("cause",))
        self._answers = gauge("slurm_answers", "1 if Slurm answered the last look.")
        self._looked_s = gauge("last_look_timestamp_seconds", "When Slurm last answered a look.")
        self._nodes = gauge("nodes", "Nodes of the partition.", ("state",))
        self._trainers = gauge("trainers", "Elastic trainings.", ("state",))
        self._node_seconds = {
            use: counter(f"{use}_node_seconds", help_text) for use, help_text in _NODE_SECONDS.items()
        }
        self._harm = histogram("harm_seconds", "How much later jobs of the site started.", buckets=_HARM_S)
        self._looks = counter("looks", "Looks at Slurm.", ("result",))
        self._look_s = histogram(
            "look_seconds", "How long a look took, deciding and acting included.", buckets=_LOOK_S
        )
        self._decisions = counter("decisions", "Decisions.", ("status",))
        self._solve_s = histogram("solve_seconds", "How long a decision took.", buckets=_SOLVE_S)
        self._second_opinions = counter(
            "second_opinions", "Decisions that HiGHS solved again, by whether it agrees.", ("result",)
        )
        self._slurm_calls = counter("slurm_calls", "Questions and commands to Slurm.")
        self._connections_dropped = counter(
            "connections_dropped", "Connections to metrics.listen that were closed without a whole answer."
        )
        self._rejected = gauge("slurm_lines_not_understood", "Lines of Slurm's last answers.")
        for result in ("answered", "silent"):
            self._looks.labels(result)
        for agreement in Agreement:
            self._second_opinions.labels(str(agreement))

    def looked(
        self,
        judgement: Judgement,
        look: LookStatus,
        decisions: Iterable[Decision],
        end_counts: Mapping[End, int],
        acts: bool,
    ) -> None:
        """Count a look that Slurm answered."""
        self.noticed(judgement)
        self._looks.labels("answered").inc()
        self._look_s.observe(look.took_s)
        self._answers.set(1)
        self._looked_s.set(look.time_s)
        self._lends.set(acts and not look.stopped_by and not look.paused_by)
        backs_off = judgement.back_off.cause if judgement.back_off else None
        for cause in Cause:
            self._backs_off.labels(str(cause)).set(backs_off is cause)
        self._rejected.set(look.rejected)
        for decision in decisions:
            self._decisions.labels(str(decision.status)).inc()
            self._solve_s.observe(decision.solve_s)
        self._ends.counts = Tally(end_counts)
        self._count_nodes(judgement, look)

    def noticed(self, judgement: Judgement | None) -> None:
        """Count the harm that a look has found, once, even if Slurm fell silent before all was done about it."""
        if judgement is not None and judgement is not self._last:
            for harm in judgement.memory.meter.new:
                self._harm.observe(harm.delay_s)
        self._last = judgement

    def silent(self) -> None:
        """Count a look that Slurm did not answer; what the nodes did meanwhile is unknown."""
        self._looks.labels("silent").inc()
        self._answers.set(0)
        self._meter = UseMeter()

    def counted(self, calls: int, dropped: int, solved_again: Mapping[Agreement, int]) -> None:
        """Count calls to Slurm, dropped connections to the metrics, and second opinions since the daemon began."""
        self._raise_to(self._slurm_calls, calls)
        self._raise_to(self._connections_dropped, dropped)
        for agreement, total in solved_again.items():
            self._raise_to(self._second_opinions.labels(str(agreement)), total)

    def _raise_to(self, counter: Counter, total: int) -> None:
        counter.inc(max(0, total - self._totals[counter]))
        self._totals[counter] = total

    def _count_nodes(self, judgement: Judgement, look: LookStatus) -> None:
        nodes: Tally[str] = Tally()
        lent: Tally[str] = Tally()
        for group in look.nodes:
            size = len(expand_nodes(group.nodes))
            nodes[group.state] += size
            if group.state == "lent":
                lent[group.trainer] += size
        for state in _NODE_STATES:
            self._nodes.labels(state).set(nodes[state])
        trainers = Tally(trainer.state for trainer in look.trainers)
        for known in TrainerState:
            self._trainers.labels(str(known)).set(trainers[str(known)])
        now = Use(
            time_s=look.time_s,
            idle=look.idle_nodes,
            offered=len(judgement.offers.offered),
            lent=lent,
            samples={trainer.id: trainer.samples_done for trainer in look.trainers},
        )
        self._meter, spent = self._meter.after(now)
        for use, counter in self._node_seconds.items():
            counter.inc(getattr(spent, use))


class _Ends(Collector):
    """Counter of fragments by the way they ended, as the database remembers it: it outlives the daemon."""

    def __init__(self) -> None:
        self.counts: Tally[End] = Tally()

    def collect(self) -> Iterable[Metric]:
        """The counter, as :mod:`prometheus_client` asks for it."""
        family = CounterMetricFamily("freetrain_fragment_ends", "How fragments ended.", labels=["end"])
        for end in End:
            family.add_metric([str(end)], self.counts[end])
        yield family
