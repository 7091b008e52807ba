"""The live cluster: Slurm as the loop sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from freetrain.core.cluster import Nodes, Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.lendable import Lendable, find_lendable, in_few_classes, take_back
from freetrain.core.needs import Needs, find_misfit, most_particular_first
from freetrain.core.plan import Action, Lend
from freetrain.core.problem import Node as OfferedNode
from freetrain.core.trainer import Trainer
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.progress import Report
from freetrain.daemon.roster import Entry, call_roll, competitors
from freetrain.daemon.sight import Manners, Sight
from freetrain.daemon.upkeep import Upkeep
from freetrain.daemon.watch import Watch, paused_until_s
from freetrain.loop.cycle import Observation
from freetrain.slurm import commands
from freetrain.slurm.asking import parse_needs
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher, Place
from freetrain.slurm.submissions import Submission, find_submissions
from freetrain.store.ledger import Ledger

log = logging.getLogger(__name__)

_NOTHING: Mapping[str, str] = {}


class LiveCluster:
    """Observes and acts on a Slurm: see :class:`freetrain.loop.cycle.Cluster`.

    Args:
        gateway: the way to Slurm.
        launcher: makes fragments.
        executor: carries orders out.
        ledger: remembers.
        manners: how the site wants it done.
        decision: how the decision that is being carried out will be called.
    """

    def __init__(
        self,
        gateway: Gateway,
        launcher: Launcher,
        executor: Executor,
        ledger: Ledger,
        manners: Manners,
        decision: Callable[[], str],
    ) -> None:
        self._gateway = gateway
        self._launcher = launcher
        self._executor = executor
        self._ledger = ledger
        self._decision = decision
        self._fragments = Fragments(ledger, launcher, gateway)
        self._trainers = ledger.trainers()
        answered = frozenset(one.id for one in self._trainers.values() if one.note)
        self._upkeep = Upkeep(launcher, executor, self._fragments, answered)
        self._watch = Watch(manners.cool_down_s)
        self._harms = ledger.harms()
        self._needs = Needs()
        self._fitting: dict[Needs, Nodes] = {}
        self._given: set[str] = set()
        self.manners = manners
        self.sight: Sight | None = None

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that have not ended."""
        return self._fragments.open

    def look(
        self, reports: Mapping[str, Report], stopped: str = "", drained: Mapping[str, str] = _NOTHING
    ) -> Sight:
        """Ask Slurm, bring the books up to date, put right what is not as it should be, give back what is due.

        Args:
            reports: trainer → what its directory says.
            stopped: why nothing is to be lent at all; empty: lend.
            drained: nodes that must not be lent → why.

        Raises:
            SlurmUnreachableError: nothing is known, and nothing was done.
        """
        snapshot = self._gateway.snapshot()
        partition = self.manners.rules.partition
        if partition not in snapshot.partitions:
            raise SlurmRefusedError(f"Slurm shows no partition {partition} any more.")
        submissions = self._find_submissions(snapshot)
        ended = self._fragments.bring_up_to_date(snapshot, partition)
        self._note_harms(snapshot, ended)
        entries = self._call_roll(snapshot, submissions, ended, reports)
        rooms = {
            entry.trainer.id: min(
                self._launcher.room(entry.submission, entry.fragments), len(snapshot.partitions[partition].nodes)
            )
            for entry in entries
        }
        competing = tuple(competitors(entries, rooms, self.manners.max_running))
        lendable = self._find_lendable(snapshot, competing, stopped or self._pause(snapshot.time_s), drained)
        wanted = {entry.submission.needs for entry, _ in competing}
        self._fitting = {needs: _nodes_for(needs, snapshot, partition) for needs in wanted}
        self._given.clear()
        self.sight = Sight(snapshot, tuple(entries), competing, lendable)
        # First what somebody may be waiting for: a busy Slurm takes its time over each order.
        self._upkeep.give_back(self.sight)
        self._upkeep.put_right(self.sight, self.manners)
        return self.sight

    @property
    def needs(self) -> tuple[Needs, ...]:
        """What the trainers ask of their nodes, the most particular first: each is decided about by itself."""
        return most_particular_first(self._fitting) or (Needs(),)

    def turn_to(self, needs: Needs) -> None:
        """From now on observe the trainers with these needs, and the nodes that they have or may have."""
        self._needs = needs

    def observe(self) -> Observation:
        """What the last look showed, as the loop wants it.

        Nodes are interchangeable there. So trainers with different needs do not compete: who has a node keeps it
        until the site wants it. Nodes whose GPUs nobody would use come last, and are given up first.
        """
        assert self.sight is not None
        snapshot = self.sight.snapshot
        trainers = tuple(
            trainer for entry, trainer in self.sight.competing if entry.submission.needs == self._needs
        )
        ids = {trainer.id for trainer in trainers}
        nodes = sorted(
            (node for node in self.sight.lendable.offered if self._is_for(node, ids)),
            key=lambda node: self._needs.leaves_gpus_idle(snapshot.node[node.name]),
        )
        coarse = in_few_classes(nodes, snapshot.time_s, self.manners.horizon_s)
        return Observation(snapshot.time_s, coarse, trainers)

    def _is_for(self, node: OfferedNode, trainers: set[str]) -> bool:
        """Whether these trainers have the node, or nobody does and it is what they need."""
        if node.held_by is not None:
            return node.held_by in trainers
        return node.name not in self._given and node.name in self._fitting.get(self._needs, frozenset())

    def act(self, action: Action) -> None:
        """Lend or release nodes."""
        assert self.sight is not None
        if isinstance(action, Lend):
            self._given.update(action.nodes)
            self._lend(self.sight, action)
        else:
            given_up = [one for one in self._fragments.open if one.node in action.nodes]
            self._upkeep.stop(given_up, f"take {len(given_up)} nodes from {action.trainer}", self._decision())

    def _find_submissions(self, snapshot: Snapshot) -> Mapping[str, Submission]:
        """The submissions with what they ask of their nodes: two more questions, where there are any."""
        partition = self.manners.rules.partition
        found = find_submissions(snapshot.jobs, partition)
        if not found:
            return found
        asked = self._gateway.perform(commands.ask_needs(partition))
        excluded = self._gateway.perform(commands.ask_excluded_nodes(partition))
        default_mb = snapshot.partitions[partition].default_memory_mb or self.manners.default_memory_mb
        return find_submissions(snapshot.jobs, partition, parse_needs(asked, excluded, default_mb))

    def _find_unfit(self, snapshot: Snapshot, submissions: Mapping[str, Submission]) -> Mapping[str, str]:
        """Submissions that cannot be trainers → why; what runs already has found a node that it can run on."""
        names = snapshot.partitions[self.manners.rules.partition].nodes
        nodes = [node for node in snapshot.nodes if node.name in names]
        running = {fragment.trainer for fragment in self._fragments.open}
        misfit = {one.needs: "" for one in submissions.values()}
        misfit |= {needs: find_misfit(needs, nodes) for needs in misfit}
        found = {
            id_: self._launcher.why_not(one) or (misfit[one.needs] if id_ not in running else "")
            for id_, one in submissions.items()
        }
        return {id_: why for id_, why in found.items() if why}

    def _call_roll(
        self,
        snapshot: Snapshot,
        submissions: Mapping[str, Submission],
        ended: Sequence[Fragment],
        reports: Mapping[str, Report],
    ) -> list[Entry]:
        unfit = self._find_unfit(snapshot, submissions)
        entries = call_roll(
            self._trainers,
            submissions,
            unfit,
            self._fragments.open,
            ended,
            self._fragments.last,
            reports,
            self._upkeep.answered,
            self.manners.patience,
            self.manners.start_within_s,
            snapshot.time_s,
        )
        changed = [entry.trainer for entry in entries if self._trainers.get(entry.trainer.id) != entry.trainer]
        self._ledger.save_trainers(changed)
        for trainer in changed:
            before = self._trainers.get(trainer.id)
            if before is None or (before.state, before.note) != (trainer.state, trainer.note):
                said = f"{trainer.state}: {trainer.note}" if trainer.note else trainer.state
                log.info("trainer %s of %s is %s", trainer.id, trainer.owner, said)
        self._trainers.update({trainer.id: trainer for trainer in changed})
        return entries

    def _find_lendable(
        self,
        snapshot: Snapshot,
        competing: Iterable[tuple[Entry, Trainer]],
        stopped: str,
        drained: Mapping[str, str],
    ) -> Lendable:
        self._watch.note_snapshot(snapshot, frozenset(one.node for one in self._fragments.open))
        rules = replace(self.manners.rules, drained=drained)
        lendable = find_lendable(snapshot, self._fragments.open, rules, self._watch.past)
        self._watch.note_claims(lendable, snapshot)
        if stopped:
            return take_back(lendable, {node.name: stopped for node in lendable.offered})
        in_the_race = {trainer.id for _, trainer in competing}
        called_off = {
            node.name: f"trainer {node.held_by} does not compete for nodes"
            for node in lendable.offered
            if node.held_by is not None and node.held_by not in in_the_race
        }
        late_s = snapshot.time_s - self.manners.start_within_s
        in_vain = [fragment for fragment in self._fragments.open if fragment.waits_since_before(late_s)]
        self._watch.note_in_vain(in_vain, snapshot.time_s)
        return take_back(
            lendable, {one.node: "Slurm does not start what it is lent for" for one in in_vain} | called_off
        )

    def _note_harms(self, snapshot: Snapshot, ended: Sequence[Fragment]) -> None:
        self._watch.note_ends(ended, snapshot.time_s)
        for harm in self._watch.measure_harms(snapshot, self.manners.rules.partition):
            log.info(
                "job %s started %.1f s later because of %s", harm.job, harm.delay_s, ", ".join(harm.fragments)
            )
            self._ledger.record_harm(harm)
            self._harms.append(harm)

    def _pause(self, now_s: float) -> str:
        limits = self.manners.harm
        self._harms = [one for one in self._harms if one.started_s > now_s - limits.within_s - limits.pause_s]
        until_s = paused_until_s(self._harms, limits)
        return "the site's own jobs had to wait too often" if now_s < until_s else ""

    def _lend(self, sight: Sight, action: Lend) -> None:
        entry = next(entry for entry, trainer in sight.competing if trainer.id == action.trainer)
        free_until_s = sight.free_until_s
        places = [Place(name, self.manners.limit_s(free_until_s[name], sight.snapshot)) for name in action.nodes]
        now_s = sight.snapshot.time_s
        wanted = self._launcher.lend(entry.submission, entry.fragments, places, now_s)
        decision = self._decision()
        if not self._executor.acts:
            nodes = sight.snapshot.node
            orders = [self._launcher.place(entry.submission, one, nodes[one.node]) for one in wanted]
            for order in (*orders, *self._launcher.start(wanted)):
                self._executor.carry_out(order, decision)
            return
        # Written down before Slurm is told: whatever happens then, the next cycle finds out what became of them.
        fragments = self._fragments.save([replace(one, decision=decision) for one in wanted])
        placed = [one for one in fragments if self._place(entry.submission, one, decision)]
        for order in self._launcher.start(placed):
            self._executor.carry_out(order, decision)

    def _place(self, submission: Submission, fragment: Fragment, decision: str) -> bool:
        assert self.sight is not None
        node = self.sight.snapshot.node[fragment.node]
        said = self._executor.carry_out(self._launcher.place(submission, fragment, node), decision)
        if said is None:
            self._fragments.call_off(fragment)
            return False
        placed = self._launcher.placed(fragment, said)
        if placed != fragment:
            self._fragments.save([placed])
        return True


def _nodes_for(needs: Needs, snapshot: Snapshot, partition: str) -> Nodes:
    """The nodes of the partition that meet the needs."""
    names = snapshot.partitions[partition].nodes
    return frozenset(node.name for node in snapshot.nodes if node.name in names and needs.met_by(node))
