"""Facts: everything that a look finds out, before anything is concluded from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.data_wait import WaitProfile
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.job import Job, shares_limit
from freetrain.core.needs import NO_NEEDS, Needs
from freetrain.core.node import Node, Nodes
from freetrain.core.trainer import Serving, Trainer


@dataclass(frozen=True, slots=True)
class Request:
    """A trainer that could run now.

    Attributes:
        trainer: the trainer as a policy sees it; its limits are those of what was submitted.
        needs: needs of each of its tasks on a node.
        speeds: feature or type of GPU → its speed on nodes with it.
        mixed: whether its nodes may differ in what it asks for.
        filler: the filler of which it is one task, whose nodes work together; empty: it is no such task.
        cache_mb: memory beyond what a task asks for that would hold all of its data; 0: unknown.
        task_s: run time of its tasks that complete, where each is a program of its own; 0: unknown.
        most_lost_s: most seconds of work that the end of such a task loses; up to this it loses all that it did.
        submission_id: id of its owner's submission: the filler of which it is a task, or itself.
    """

    trainer: Trainer
    owner: str
    account: str = ""
    needs: Needs = NO_NEEDS
    speeds: tuple[tuple[str, float], ...] = ()
    mixed: bool = False
    filler: str = ""
    cache_mb: int = 0
    task_s: float = 0.0
    most_lost_s: float = inf
    # A look reads these so often that properties would take a fiftieth of its time.
    id: str = field(init=False, compare=False)
    submission_id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.trainer.id)
        object.__setattr__(self, "submission_id", self.filler or self.trainer.id)

    def lost_s(self, ran_s: float) -> float:
        """Seconds of work that it loses if one of its nodes is taken back after it ran there for ``ran_s``."""
        return min(ran_s, self.most_lost_s) if self.trainer.independent else self.trainer.eviction_s


WhyNot = Mapping[str, str]
"""Node, place, trainer or submission → reason why it is not lent, or has no nodes; a sentence without its end."""


@dataclass(frozen=True, slots=True)
class SiteOrders:
    """Orders of the site's people that Slurm does not know.

    Attributes:
        stopped: reason why nothing is to be lent at all; empty: nodes are lent.
        paused: reason why nothing more is to be lent, although what is lent may stay; empty: nodes are lent.
        kept_off: name of a verdict → the nodes that it keeps from being lent, and why.
    """

    stopped: str = ""
    paused: str = ""
    kept_off: Mapping[str, WhyNot] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Findings of a look: nodes and jobs, fragments, requests, the site's orders.

    Attributes:
        fragments: those that have not ended.
        ended: those that ended since the last look.
        requests: trainers that could run, in order of submission.
        used_hours: user → node-hours that they had, faded.
        to_tidy: trainers whose submissions are to be looked after, whatever is decided.
        last_plan_s: time at which Slurm last planned the waiting jobs, UTC epoch seconds; None: unknown.
        done_samples: trainer → samples that it has done, as its progress says.
        exempt_s: seconds after its start for which Slurm may not preempt a fragment.
        leaving_bound_s: seconds that a fragment may stay on its node after it was asked to leave.
        data_waits: trainer → its waits for data, as its progress says.
        serving: trainer → those of its nodes on which it was ordered to run servers.
        amounts: fragment that was asked for → its amount of its node, where that is more than its task asks for.
        node_traits: node → those of its traits that were measured, by their names.
        shares_limit: whether another job counts in the limit for which a job waits.
    """

    snapshot: Snapshot
    fragments: tuple[Fragment, ...] = ()
    ended: tuple[Fragment, ...] = ()
    requests: tuple[Request, ...] = ()
    used_hours: Mapping[str, float] = field(default_factory=dict)
    orders: SiteOrders = field(default_factory=SiteOrders)
    to_tidy: tuple[str, ...] = ()
    last_plan_s: float | None = None
    done_samples: Mapping[str, float] = field(default_factory=dict)
    exempt_s: float = 0.0
    leaving_bound_s: float = 30.0
    data_waits: Mapping[str, WaitProfile] = field(default_factory=dict)
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    serving: Serving = field(default_factory=dict)
    node_traits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shares_limit: Callable[[Job, Job], bool] = shares_limit

    @cached_property
    def request(self) -> Mapping[str, Request]:
        """Trainer → its request."""
        return {request.id: request for request in self.requests}

    @cached_property
    def jobs(self) -> frozenset[str]:
        """Jobs of the fragments, in Slurm's words."""
        return frozenset(fragment.job for fragment in self.fragments)

    @cached_property
    def holder(self) -> Mapping[str, str]:
        """Node → the trainer that has it; of two on a node that changes hands, the one that goes on."""
        return {fragment.node: fragment.trainer for fragment in self.fragments if fragment.goes_on}

    @cached_property
    def running(self) -> Sequence[Fragment]:
        """Fragments that run on their nodes."""
        return [fragment for fragment in self.fragments if fragment.state is FragmentState.RUNNING]

    def submission_of(self, fragment: Fragment) -> str:
        """Id of what its owner submitted: its trainer, or the filler of which it is a task of several nodes."""
        request = self.request.get(fragment.trainer)
        if request is not None:
            return request.submission_id
        # A task of several nodes is a trainer by itself, named like its job; its array is what was submitted.
        return fragment.trainer if fragment.trainer != fragment.job else fragment.job.partition("_")[0]

    def amount_of(self, fragment: Fragment, node: Node) -> Amount:
        """Amount of its node that a fragment has, or will have."""
        request = self.request.get(fragment.trainer)
        needs = NO_NEEDS if request is None else request.needs
        return self.amounts.get(fragment.job) or needs.amount_on(node)

    def ran_s(self, fragment: Fragment) -> float:
        """Seconds for which a fragment has run."""
        return 0.0 if fragment.started_s is None else max(self.snapshot.time_s - fragment.started_s, 0.0)

    def lost_s(self, fragment: Fragment) -> float:
        """Seconds of work that are lost if a fragment's node is taken back; 0: its trainer is unknown."""
        request = self.request.get(fragment.trainer)
        return 0.0 if request is None else request.lost_s(self.ran_s(fragment))


@dataclass(frozen=True, slots=True)
class Bar:
    """Offered places that a trainer does not get.

    Attributes:
        places: names of nodes or parts of nodes; it keeps those of them that it has.
    """

    places: Nodes
    why: str
