"""The live cluster: Slurm as the loop sees it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import End, Fragment
from freetrain.core.lendable import Lendable, find_lendable, in_few_classes, take_back
from freetrain.core.needs import find_misfit, kinds_of
from freetrain.core.plan import Action, Lend
from freetrain.core.trainer import Trainer
from freetrain.daemon.blocked_jobs import Waits
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.sharing.claimants import Eligible, meeting_nodes
from freetrain.daemon.sharing.dealer import Dealer
from freetrain.daemon.sharing.selection import Selection, select
from freetrain.daemon.sight import Manners, Sight, with_waiting
from freetrain.daemon.trainers.entries import Entry, News, Past, RosterRules
from freetrain.daemon.trainers.isolation import Fault, Faults, isolated
from freetrain.daemon.trainers.progress import Report
from freetrain.daemon.trainers.roster import call_roll
from freetrain.daemon.trainers.submission_reader import SubmissionReader
from freetrain.daemon.upkeep import Upkeep
from freetrain.daemon.watch import Watch, paused_until_s
from freetrain.loop.cycle import Observation
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher, Place
from freetrain.slurm.submissions import Submission
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

    Attributes:
        waits: the site's jobs that were found to wait for fragments.
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
        self._upkeep = Upkeep(launcher, executor, self._fragments)
        self._watch = Watch(manners.cool_down_s)
        self._harms = ledger.harms()
        self._faults = Faults()
        self._reader = SubmissionReader(gateway)
        self._dealer = Dealer(ledger)
        self._waits_for: Mapping[str, str] = {}
        self.manners = manners
        self.waits = Waits()
        self.sight: Sight | None = None

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that have not ended."""
        return self._fragments.open

    @property
    def ends(self) -> Mapping[str, Mapping[End, int]]:
        """Trainer → how often its fragments ended in which way."""
        return self._fragments.ends

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
        ended = self._fragments.bring_up_to_date(snapshot, partition)
        jobs = self._fragments.as_they_ended(snapshot.jobs)
        submissions = self._reader.read(snapshot, jobs, partition, self.manners.default_memory_mb)
        self._note_harms(snapshot, ended)
        entries = self._call_roll(snapshot, submissions, ended, reports)
        rooms = {
            entry.trainer.id: min(
                self._launcher.room(entry.submission, entry.fragments), len(snapshot.partitions[partition].nodes)
            )
            for entry in entries
        }
        stopped = stopped or self._pause(snapshot.time_s)
        lendable = self._find_lendable(snapshot, stopped, drained)
        reach = meeting_nodes(submissions.values(), [node.name for node in lendable.offered], snapshot)
        chosen = self._select(snapshot, entries, rooms, reach, lendable)
        entries = [self._noted(entry, chosen.faults.get(entry.trainer.id, "")) for entry in entries]
        lendable = take_back(lendable, _called_off(lendable, chosen.competing))
        self._waits_for = _while_stopped(entries, stopped) if stopped else chosen.waits_for
        self.sight = Sight(snapshot, tuple(entries), chosen.competing, lendable, stopped)
        # First what somebody may be waiting for: a busy Slurm takes its time over each order.
        self._upkeep.give_back(self.sight)
        self._upkeep.put_right(self.sight, self.manners)
        for move in self._dealer.deal(self.sight, reach, self.manners):
            given_up = [
                one for one in self._fragments.open if one.node in move.nodes and one.trainer == move.trainer
            ]
            self._upkeep.stop(given_up, f"take {len(given_up)} nodes from {move.trainer}: {move.why}", None)
        return self.sight

    @property
    def decision_count(self) -> int:
        """How many decisions follow on the last look, one at least."""
        return max(1, len(self._dealer.parts))

    def observations(self) -> Iterator[Observation]:
        """What the last look showed, once for each claimant that was dealt nodes.

        Users do not compete here: each decision is about one claimant's nodes. Without any claimant there is one
        observation without trainers, so that each look leaves a decision.
        """
        assert self.sight is not None
        trainers = {trainer.id: trainer for _, trainer in self.sight.competing}
        parts = [(part.nodes, part.claimant.wants) for part in self._dealer.parts]
        for nodes, wants in parts or [((), ())]:
            now_s = self.sight.snapshot.time_s
            few = in_few_classes(nodes, now_s, self.manners.horizon_s)
            yield Observation(now_s, few, tuple(trainers[want.trainer] for want in wants))
        waits_for = {**self._waits_for, **self._dealer.conclude(self.sight.snapshot.time_s)}
        self.sight = with_waiting(self.sight, waits_for)

    def act(self, action: Action) -> None:
        """Lend or release nodes."""
        assert self.sight is not None
        if isinstance(action, Lend):
            self._dealer.note_change(action.trainer, len(action.nodes))
            self._lend(self.sight, action)
        else:
            self._dealer.note_change(action.trainer, -len(action.nodes))
            given_up = [one for one in self._fragments.open if one.node in action.nodes]
            self._upkeep.stop(given_up, f"take {len(given_up)} nodes from {action.trainer}", self._decision())

    def _find_unfit(self, snapshot: Snapshot, submissions: Mapping[str, Submission]) -> Mapping[str, str]:
        """Submissions that cannot be trainers → why; what runs already has found a node that it can run on."""
        names = snapshot.partitions[self.manners.rules.partition].nodes
        kinds = kinds_of(node for node in snapshot.nodes if node.name in names)
        running = {fragment.trainer for fragment in self._fragments.open}
        misfit = {one.needs: "" for one in submissions.values()}
        misfit |= {needs: find_misfit(needs, kinds) for needs in misfit}
        found = {
            id_: self._why_not(one) or (misfit[one.needs] if id_ not in running else "")
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
        past = Past(self._fragments.last, self._fragments.some_completed)
        news = News(
            time_s=snapshot.time_s,
            known=self._trainers,
            unfit=self._find_unfit(snapshot, submissions),
            fragments=self._fragments.open,
            ended=ended,
            past=past,
            reports=reports,
            answered=self._upkeep.answered,
        )
        rules = RosterRules(self._launcher.runs_tasks, self.manners.patience, self.manners.start_within_s)
        entries = call_roll(submissions.values(), news, rules)
        changed = [entry.trainer for entry in entries if self._trainers.get(entry.trainer.id) != entry.trainer]
        self._ledger.save_trainers(changed)
        for trainer in changed:
            before = self._trainers.get(trainer.id)
            if before is None or (before.state, before.note) != (trainer.state, trainer.note):
                said = f"{trainer.state}: {trainer.note}" if trainer.note else trainer.state
                log.info("trainer %s of %s is %s", trainer.id, trainer.owner, said)
        self._trainers.update({trainer.id: trainer for trainer in changed})
        return entries

    def _why_not(self, submission: Submission) -> str:
        some_completed = submission.id in self._fragments.some_completed
        why = isolated(lambda: self._launcher.why_not(submission, some_completed))
        return why.what if isinstance(why, Fault) else why

    def _noted(self, entry: Entry, fault: str) -> Entry:
        """The entry with why it cannot compete; what is wrong with it is said, once."""
        trainer = entry.trainer
        self._faults.say(trainer.id, trainer.owner, "itself", trainer.fault)
        self._faults.say(trainer.id, trainer.owner, "competing", fault)
        return entry.with_fault(fault) if fault else entry

    def _find_lendable(self, snapshot: Snapshot, stopped: str, drained: Mapping[str, str]) -> Lendable:
        self._watch.note_snapshot(snapshot, frozenset(one.node for one in self._fragments.open))
        rules = replace(self.manners.rules, drained=drained)
        lendable = find_lendable(snapshot, self._fragments.open, rules, self._watch.past)
        not_for_us = self.waits.note(snapshot, self._fragments.open, self.manners.rules)
        self._watch.note_fitting(lendable, snapshot, self.waits.jobs)
        lendable = take_back(lendable, not_for_us)
        if stopped:
            return take_back(lendable, {node.name: stopped for node in lendable.offered})
        late_s = snapshot.time_s - self.manners.start_within_s
        in_vain = [fragment for fragment in self._fragments.open if fragment.waits_since_before(late_s)]
        self._watch.note_in_vain(in_vain, snapshot.time_s)
        return take_back(lendable, {one.node: "Slurm does not start what it is lent for" for one in in_vain})

    def _select(
        self,
        snapshot: Snapshot,
        entries: Sequence[Entry],
        rooms: Mapping[str, int],
        eligible: Eligible,
        lendable: Lendable,
    ) -> Selection:
        held = Counter(node.held_by for node in lendable.offered)
        reach = {
            entry.trainer.id: max(len(eligible[entry.submission.needs]), held[entry.trainer.id])
            for entry in entries
        }
        hours = self._dealer.hours(snapshot.time_s, self.manners)
        most, sharing = self.manners.max_running, self.manners.sharing
        return select(entries, rooms, reach, len(lendable.offered), most, sharing, hours, self.manners.objective)

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


def _called_off(lendable: Lendable, competing: Iterable[tuple[Entry, Trainer]]) -> Mapping[str, str]:
    """Nodes of trainers that do not compete → the reason."""
    in_the_race = {trainer.id for _, trainer in competing}
    return {
        node.name: f"trainer {node.held_by} does not compete for nodes"
        for node in lendable.offered
        if node.held_by is not None and node.held_by not in in_the_race
    }


def _while_stopped(entries: Iterable[Entry], why: str) -> Mapping[str, str]:
    return {one.trainer.id: f"nothing is lent at the moment: {why}" for one in entries if one.competes}
