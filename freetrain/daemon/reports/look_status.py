"""Status of one look, made of all that was judged and done. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.grouping import grouped
from freetrain.core.node import NodeState
from freetrain.core.place import node_of
from freetrain.daemon.reports.status import LONGEST, LookStatus, NodeGroup, NodeStanding, TrainerStatus
from freetrain.daemon.trainers.kinds import believed_speeds, seen_at_speed_1, strategy_of
from freetrain.daemon.trainers.training import Training
from freetrain.lending.judge import Judgement
from freetrain.lending.limit_claims import tell_claims
from freetrain.lending.node_verdicts import Offers
from freetrain.lending.shadow import PlannedStart
from freetrain.lending.training_verdicts import Reason
from freetrain.showing.words import show_time
from freetrain.slurm.parsing import fold_nodes

# The status file is written at each look and read by every command: what users and Slurm write is bounded.
_MAX_TRAINERS, _MAX_EXAMPLES, _MAX_WAITING = 2000, 5, 200
_NOTHING = Reason("", "")


def status_of(
    judgement: Judgement,
    trainings: Sequence[Training],
    verdicts: Mapping[str, Reason],
    fragments: Iterable[Fragment],
    took_s: float,
) -> LookStatus:
    """Status of one look; the fragments are those that have not ended now that all has been done."""
    fragments = tuple(fragments)
    snapshot = judgement.facts.snapshot
    return LookStatus(
        time_s=snapshot.time_s,
        took_s=took_s,
        stopped_by=judgement.stopped,
        paused_by=judgement.facts.orders.paused,
        rejected=len(snapshot.rejected),
        rejected_examples=tuple(line[:LONGEST] for line in snapshot.rejected[:_MAX_EXAMPLES]),
        planned=judgement.plans_compared.jobs,
        planned_differently=judgement.plans_compared.differing,
        nodes=groups_of(judgement.offers, fragments),
        idle_nodes=_count_idle(judgement, fragments),
        trainers=tuple(
            _trainer(training, verdicts.get(training.id, _NOTHING), fragments)
            for training in trainings[:_MAX_TRAINERS]
        ),
        trainers_left_out=max(0, len(trainings) - _MAX_TRAINERS),
        waiting=_waiting_jobs(judgement, fragments),
        limited={
            job: text[:LONGEST]
            for job, text in islice(tell_claims(judgement.memory.limits, judgement.facts).items(), _MAX_WAITING)
        },
    )


def _waiting_jobs(judgement: Judgement, fragments: Sequence[Fragment]) -> Mapping[str, str]:
    """Job of the site's that waits → in sentences, when it would start if nothing were lent, by the shadow."""
    snapshot, queue = judgement.facts.snapshot, judgement.rules.nodes.queue
    plans = {plan.job: plan for plan in judgement.shadow.plans}
    waiting = (job for job in snapshot.jobs if job.state.is_waiting and not queue.has(job) and job.limit is None)
    return {
        job.id: f"Job {job.id} is one of the site's own and waits ({job.reason or 'no reason given'}). "
        + _when_it_starts(plans.get(job.id), judgement.now_s, fragments)
        for job in islice(waiting, _MAX_WAITING)
    }


def _when_it_starts(plan: PlannedStart | None, now_s: float, fragments: Sequence[Fragment]) -> str:
    if plan is None:
        return "The nodes that are lent make no difference to it, as far as freetrain knows."
    lent = sorted({fragment.node for fragment in fragments if fragment.node in plan.nodes})
    where = f" on {fold_nodes(plan.nodes)}"
    if plan.start_s > now_s:
        start = f"it would start at {show_time(plan.start_s)}{where}"
        return f"If nothing were lent {start}, which will be free by then."
    if not lent:
        return f"It could start now{where}, where nothing is lent: Slurm has yet to start it."
    return f"If nothing were lent it would start now{where}: {fold_nodes(lent)} are being given back for it."


def _count_idle(judgement: Judgement, fragments: Iterable[Fragment]) -> int:
    snapshot = judgement.facts.snapshot
    ours = judgement.rules.nodes.queue.among(snapshot.partitions).nodes
    idle = {node.name for node in snapshot.nodes if node.state is NodeState.IDLE}
    running = {fragment.node for fragment in fragments if fragment.state is FragmentState.RUNNING}
    return len(ours & (idle | running))


def _trainer(training: Training, reason: Reason, fragments: Iterable[Fragment]) -> TrainerStatus:
    trainer, tag = training.trainer, training.tag
    own = [fragment for fragment in fragments if fragment.trainer == trainer.id]
    return TrainerStatus(
        id=trainer.id,
        owner=trainer.owner,
        state=str(trainer.state),
        note=trainer.note[:LONGEST],
        fault=trainer.fault[:LONGEST],
        verdict=reason.verdict,
        why=reason.why[:LONGEST],
        lent=_nodes_of(own, FragmentState.RUNNING),
        asked=_nodes_of(own, FragmentState.ASKED),
        samples_done=trainer.samples_done,
        ends={str(end): count for end, count in training.runs.ends.items()},
        costs=strategy_of(tag).shown_costs(training, tag) if tag is not None else {},
        account=trainer.account,
        lost_s=trainer.losses.last_s,
        speeds=believed_speeds(trainer, tag) if tag is not None else {},
        seen_rates=seen_at_speed_1(trainer, tag) if tag is not None else {},
    )


def _nodes_of(fragments: Iterable[Fragment], state: FragmentState) -> str:
    return fold_nodes(fragment.node for fragment in fragments if fragment.state is state)


_LOST_FIRST = (
    FragmentState.LOST, FragmentState.LEAVING, FragmentState.ENDING, FragmentState.ASKED, FragmentState.RUNNING,
)  # fmt: skip


def groups_of(offers: Offers, fragments: Iterable[Fragment]) -> tuple[NodeGroup, ...]:
    """Nodes in groups by what is done with them, as the fragments on them say, and why."""
    by_node = grouped((fragment.node, fragment) for fragment in fragments)
    on = {name: _together(own) for name, own in by_node.items()}
    # Of a node that is lent in parts, what is to be given back says most, then what may be lent.
    named = offers.verdicts
    found = {
        name: _of_lent(NodeGroup("", "not lent", "", why[:LONGEST], verdict=named.get(name, "")), on.get(name))
        for name, why in offers.withheld.items()
    }
    for place in offers.offered:
        name = place.node
        until_s = None if place.until_s is None else round(place.until_s)
        found[name] = _of_lent(NodeGroup("", "free", until_s=until_s), on.get(name))
    for name, why in offers.due.items():
        group = NodeGroup("", "due back", "", why[:LONGEST], verdict=named.get(name, ""))
        found[node_of(name)] = _of_lent(group, on.get(node_of(name)))
    return gathered(found)


def _together(own: Sequence[Fragment]) -> Fragment:
    """Fragment that stands for all of a node: the furthest one, with all trainers that have parts of the node."""
    # A node that changes hands has two for a moment, of which the one that comes counts.
    first = max(reversed(own), key=lambda fragment: _LOST_FIRST.index(fragment.state))
    trainers = {fragment.trainer for fragment in own if fragment.goes_on} or {first.trainer}
    return replace(first, trainer=", ".join(sorted(trainers)))


def gathered(verdicts: Mapping[str, NodeGroup]) -> tuple[NodeGroup, ...]:
    """Nodes with equal verdicts together, from node → what holds for it."""
    groups = grouped((replace(verdict, nodes=""), name) for name, verdict in sorted(verdicts.items()))
    return tuple(replace(verdict, nodes=fold_nodes(names)) for verdict, names in groups.items())


def _of_lent(group: NodeGroup, fragment: Fragment | None) -> NodeGroup:
    """The group of a node with what the fragment on it adds: a trainer and a state; a lost one adds nothing."""
    if fragment is None or fragment.state is FragmentState.LOST:
        return group
    if fragment.state in (FragmentState.LEAVING, FragmentState.ENDING):
        return replace(group, state="due back", trainer=fragment.trainer, until_s=None)
    if group.state == "due back":
        return replace(group, trainer=fragment.trainer)
    state: NodeStanding = "lent" if fragment.state is FragmentState.RUNNING else "asked for"
    return replace(group, state=state, trainer=fragment.trainer)
