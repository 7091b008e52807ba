"""What the daemon says of itself and of its last look, for whoever asks. Pure; ``status_file.py`` publishes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from freetrain.core.cluster import NodeState
from freetrain.core.fragment import End, Fragment, FragmentState, node_of
from freetrain.daemon.reports.recent_nodes import RecentNodes
from freetrain.daemon.trainers.change_costs import believed_costs
from freetrain.daemon.trainers.entries import Entry
from freetrain.daemon.trainers.requests import believed_speeds, seen_at_speed_1
from freetrain.lending.judge import Judgement
from freetrain.lending.offers import Offers
from freetrain.slurm.parsing import expand_nodes, fold_nodes

FORMAT: Literal["freetrain-status/1"] = "freetrain-status/1"

_MOST_TRAINERS, _MOST_EXAMPLES, _LONGEST = 2000, 5, 300
"""How much is published of what users and Slurm say: trainers, lines not understood, characters of a sentence."""

_ORDER = (
    FragmentState.LOST,
    FragmentState.LEAVING,
    FragmentState.ENDING,
    FragmentState.ASKED,
    FragmentState.RUNNING,
)

Phase = Literal["running", "stopped"]
NodeStanding = Literal["free", "lent", "asked for", "due back", "not lent"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Which daemon this is.

    Attributes:
        pid: its process.
        host: on which machine.
        version: freetrain's.
        started_s: since when it runs, UTC epoch seconds.
        mode: observe, advise or act.
        launcher: steer or submit.
        partition: in which fragments run.
        poll_s: how often it looks.
    """

    pid: int
    host: str
    version: str
    started_s: float
    mode: str
    launcher: str
    partition: str
    poll_s: float


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of which the same is to be said.

    Attributes:
        nodes: which, as ``c[01-04]``.
        state: what is done with them.
        trainer: to whom they are lent, or for whom they are asked for; empty: nobody.
        why: they are due or not lent; empty: they are lent or free.
        until_s: when they will be wanted, UTC epoch seconds; None: nobody knows.
    """

    nodes: str
    state: NodeStanding
    trainer: str = ""
    why: str = ""
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class TrainerStatus:
    """How a trainer is getting on.

    Attributes:
        id: of its array.
        owner: who submitted it.
        state: as :class:`freetrain.core.known_trainer.TrainerState`.
        note: a sentence for its owner.
        fault: what is wrong with its own files, curve or submission; empty: nothing.
        waits_for: why it has no node although it could run; empty: nothing is known.
        lent: its nodes, as ``c[01-04]``; empty: none.
        asked: nodes on which Slurm was told to start it and has not yet.
        samples_done: as its progress says.
        ends: how often its fragments ended in which way.
        costs: what changes are taken to cost it, in seconds by name; empty: a filler, or its tag is wrong.
        account: to which it is charged; empty: nobody said.
        speeds: feature or type of GPU that its owner names → how fast it is taken to be there.
        seen_rates: nodes → samples/s seen on so many, as at speed 1; empty: its owner names no kinds of nodes.
    """

    id: str
    owner: str
    state: str
    note: str = ""
    fault: str = ""
    waits_for: str = ""
    lent: str = ""
    asked: str = ""
    samples_done: float = 0.0
    ends: Mapping[str, int] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    account: str = ""
    speeds: Mapping[str, float] = field(default_factory=dict)
    seen_rates: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookStatus:
    """What one look came to.

    Attributes:
        time_s: when Slurm was asked, UTC epoch seconds.
        took_s: how long it took, deciding and acting included.
        stopped_by: why nothing is lent at all; empty: nodes are lent.
        paused_by: why nothing more is lent, although what is lent stays; empty: nodes are lent.
        rejected: lines of Slurm's answers that were not understood.
        rejected_examples: the first of them.
        nodes: every node of the partition.
        idle_nodes: how many of them the site's own jobs do not use, lent ones included.
        trainers: the first of them, in the order of submission.
        trainers_left_out: how many more there are.
        planned: waiting jobs of the site's for which Slurm and freetrain both have a plan.
        planned_differently: those of them for which the plans differ; the earlier one holds.
        calls: how often Slurm was asked or told something in the hour before.
        woken_s: when the daemon was last woken between two polls, UTC epoch seconds; None: never yet.
        cannot_wake: why slurmctld cannot wake it although it is to, with what mends that; empty: all is well.
    """

    time_s: float
    took_s: float
    stopped_by: str = ""
    rejected: int = 0
    rejected_examples: tuple[str, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()
    idle_nodes: int = 0
    trainers: tuple[TrainerStatus, ...] = ()
    trainers_left_out: int = 0
    planned: int = 0
    planned_differently: int = 0
    calls: int = 0
    woken_s: float | None = None
    paused_by: str = ""
    cannot_wake: str = ""

    @property
    def lent_nodes(self) -> int:
        """How many nodes are lent; those that are asked for or due back are not among them."""
        return sum(len(expand_nodes(group.nodes)) for group in self.nodes if group.state == "lent")


@dataclass(frozen=True, slots=True)
class Status:
    """What is published.

    Attributes:
        daemon: which one.
        phase: whether it runs.
        written_s: when this was said, UTC epoch seconds.
        look: the last look that Slurm answered; None: there was none yet.
        silent_since_s: since when Slurm has not answered; None: it does.
        silent_why: what it says instead.
        recent: how many nodes were idle and lent in the last day.
        format: of this document.
    """

    daemon: Identity
    phase: Phase
    written_s: float
    look: LookStatus | None = None
    silent_since_s: float | None = None
    silent_why: str = ""
    recent: tuple[RecentNodes, ...] = ()
    format: Literal["freetrain-status/1"] = FORMAT


def status_of(
    judgement: Judgement,
    entries: Sequence[Entry],
    waits_for: Mapping[str, str],
    fragments: Iterable[Fragment],
    ends: Mapping[str, Mapping[End, int]],
    took_s: float,
) -> LookStatus:
    """What a look came to.

    Args:
        judgement: on what it showed.
        entries: all trainers.
        waits_for: trainer → why it has no node although it could run.
        fragments: those that have not ended, now that all has been done.
        ends: trainer → how often its fragments ended in which way.
        took_s: how long it took.
    """
    fragments = tuple(fragments)
    snapshot = judgement.facts.snapshot
    rejected = snapshot.rejected
    return LookStatus(
        time_s=snapshot.time_s,
        took_s=took_s,
        stopped_by=judgement.stopped,
        paused_by=judgement.facts.paused,
        rejected=len(rejected),
        rejected_examples=tuple(line[:_LONGEST] for line in rejected[:_MOST_EXAMPLES]),
        planned=judgement.plans_compared.jobs,
        planned_differently=judgement.plans_compared.differing,
        nodes=groups_of(judgement.offers, fragments),
        idle_nodes=_count_idle(judgement, fragments),
        trainers=tuple(
            _trainer(entry, waits_for.get(entry.trainer.id, ""), fragments, ends.get(entry.trainer.id, {}))
            for entry in entries[:_MOST_TRAINERS]
        ),
        trainers_left_out=max(0, len(entries) - _MOST_TRAINERS),
    )


def _count_idle(judgement: Judgement, fragments: Iterable[Fragment]) -> int:
    """Nodes of the partition that the site's own jobs do not use."""
    snapshot = judgement.facts.snapshot
    ours = judgement.rules.nodes.queue.among(snapshot.partitions).nodes
    idle = {node.name for node in snapshot.nodes if node.state is NodeState.IDLE}
    running = {one.node for one in fragments if one.state is FragmentState.RUNNING}
    return len(ours & (idle | running))


def groups_of(offers: Offers, fragments: Iterable[Fragment]) -> tuple[NodeGroup, ...]:
    """What is done with each node, as the fragments on it say, and why."""
    on = {name: _together(own) for name, own in _by_node(fragments).items()}
    # Of a node that is lent in parts, what is to be given back says most, then what may be lent.
    verdicts = {name: _of_lent("not lent", on.get(name), why, None) for name, why in offers.withheld.items()}
    for place in offers.offered:
        name = node_of(place.name)
        verdicts[name] = _of_lent("free", on.get(name), "", place.free_until_s)
    for name, why in offers.due.items():
        verdicts[node_of(name)] = _of_lent("due back", on.get(node_of(name)), why, None)
    return gathered(verdicts)


def _by_node(fragments: Iterable[Fragment]) -> Mapping[str, Sequence[Fragment]]:
    on: defaultdict[str, list[Fragment]] = defaultdict(list)
    for one in fragments:
        on[one.node].append(one)
    return on


def _together(own: Sequence[Fragment]) -> Fragment:
    """What the fragments of one node say: the one that is furthest, with all the trainers that have parts of it.

    A node that changes hands has two for a moment, of which the one that comes counts.
    """
    first = sorted(own, key=lambda one: _ORDER.index(one.state))[-1]
    trainers = {one.trainer for one in own if one.goes_on} or {first.trainer}
    return replace(first, trainer=", ".join(sorted(trainers)))


def gathered(verdicts: Mapping[str, NodeGroup]) -> tuple[NodeGroup, ...]:
    """Nodes with equal verdicts together.

    Args:
        verdicts: node → what is to be said of it.
    """
    groups: dict[NodeGroup, list[str]] = {}
    for name, verdict in sorted(verdicts.items()):
        groups.setdefault(replace(verdict, nodes=""), []).append(name)
    return tuple(replace(verdict, nodes=fold_nodes(names)) for verdict, names in groups.items())


def _of_lent(state: NodeStanding, fragment: Fragment | None, why: str, until_s: float | None) -> NodeGroup:
    """The verdict on a node, all but its name: a fragment that goes on says more than what was found before."""
    why, until_s = why[:_LONGEST], None if until_s is None else round(until_s)
    if fragment is None or fragment.state is FragmentState.LOST:
        return NodeGroup("", state, "", why, until_s)
    if fragment.state in (FragmentState.LEAVING, FragmentState.ENDING):
        return NodeGroup("", "due back", fragment.trainer, why)
    if state != "due back":
        state = "lent" if fragment.state is FragmentState.RUNNING else "asked for"
    return NodeGroup("", state, fragment.trainer, why, until_s)


def _trainer(
    entry: Entry, waits_for: str, fragments: Iterable[Fragment], ends: Mapping[End, int]
) -> TrainerStatus:
    trainer = entry.trainer
    own = [one for one in fragments if one.trainer == trainer.id]
    return TrainerStatus(
        id=trainer.id,
        owner=trainer.owner,
        state=str(trainer.state),
        note=trainer.note[:_LONGEST],
        fault=trainer.fault[:_LONGEST],
        waits_for=waits_for[:_LONGEST],
        lent=_nodes_of(own, FragmentState.RUNNING),
        asked=_nodes_of(own, FragmentState.ASKED),
        samples_done=trainer.samples_done,
        ends={str(end): count for end, count in ends.items()},
        costs=_costs(entry),
        account=trainer.account,
        speeds=believed_speeds(trainer, entry.tag) if entry.tag is not None else {},
        seen_rates=seen_at_speed_1(trainer, entry.tag) if entry.tag is not None else {},
    )


def _costs(entry: Entry) -> Mapping[str, float]:
    if entry.tag is None or entry.is_filler:
        return {}
    named = asdict(believed_costs(entry.trainer.costs, entry.tag))
    return {name: round(seconds, 3) for name, seconds in named.items() if seconds is not None}


def _nodes_of(fragments: Iterable[Fragment], state: FragmentState) -> str:
    return fold_nodes(one.node for one in fragments if one.state is state)
