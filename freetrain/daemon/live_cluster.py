"""The live cluster: Slurm as the loop sees it.

What was decided becomes rows in the books, and then orders. What users have had comes from the ledger, counted
again only now and then, so that shares do not flicker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState, jobs_of
from freetrain.core.node import Node
from freetrain.core.place import node_of
from freetrain.core.plan import Action, Lend, Limit, PlaceServers, Release, TidySubmission
from freetrain.core.trainer import TrainerPast
from freetrain.daemon.executor import Executor
from freetrain.daemon.external_actions import ExternalActions
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.housekeeping import Housekeeping
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.daemon.trainers.registry import Registered, Registry
from freetrain.daemon.trainers.training import RosterRules, Training
from freetrain.lending.facts import Facts
from freetrain.lending.sharing.claimants import faded_hours
from freetrain.slurm import commands
from freetrain.slurm.comments import servers_on
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher, Order
from freetrain.store.ledger import Ledger

NO_SNAPSHOT = Snapshot(0.0, (), ())
"""Snapshot that stands for none, before Slurm has answered."""


@dataclass(frozen=True)
class LookInputs:
    """Inputs of a look besides Slurm's answers.

    Attributes:
        half_life_s: in which past use fades to one half.
        facts: those that do not come from Slurm or the ledger.
        reports: trainer → what its directory says.
    """

    roster_rules: RosterRules
    half_life_s: float
    facts: Facts
    reports: Mapping[str, Report] = field(default_factory=dict)


class LiveCluster:
    """Observes and acts on a Slurm: see :class:`freetrain.loop.cycle.Cluster`."""

    def __init__(
        self,
        gateway: Gateway,
        launcher: Launcher,
        executor: Executor,
        ledger: Ledger,
        ask: Callable[[], LookInputs],
    ) -> None:
        self._gateway = gateway
        self._launcher = launcher
        self._executor = executor
        self._ask = ask
        self._ledger = ledger
        self.books = Fragments(ledger, launcher, gateway)
        self._starter = FragmentStarter(launcher, executor, self.books)
        self._registry = Registry(gateway, launcher, ledger, self.books)
        self._housekeeping = Housekeeping(launcher, executor, self.books)
        self._external_actions = ExternalActions(gateway, ledger)
        self._lent_hours = LentHours(ledger)
        self._ended: list[Fragment] = []
        self._seen = Facts(NO_SNAPSHOT)
        self.registered = Registered()

    def observe(self) -> Facts:
        """Ask Slurm, and bring books and trainers up to date.

        Raises:
            SlurmError: Slurm does not answer. What has ended by then is reported by the next look.
        """
        inputs = self._ask()
        queue = inputs.roster_rules.queue
        snapshot = self._gateway.snapshot()
        if missing := queue.missing(snapshot.partitions):
            raise SlurmRefusedError(f"Slurm shows no partition {missing} any more.")
        self._ended += self.books.bring_up_to_date(snapshot, queue)
        # After the books: what an order was for shows in the fragments as they are now.
        self._executor.settle(snapshot, self.books.open)
        answered = self._housekeeping.answered
        self.registered = self._registry.look(snapshot, self._ended, inputs.reports, answered, inputs.roster_rules)
        # Only once the registry has seen them: if Slurm falls silent in between, the next look reports them.
        ended, self._ended = tuple(self._ended), []
        trainings = self.registered.trainings
        self._external_actions.look(trainings, snapshot)
        self._seen = replace(
            inputs.facts,
            snapshot=snapshot,
            fragments=self._as_lent(self.books.open),
            ended=self._as_lent(ended),
            requests=self.registered.requests,
            used_hours=self._lent_hours.hours(snapshot.time_s, inputs.half_life_s),
            to_tidy=tuple(training.id for training in trainings),
            done_samples={training.id: training.trainer.samples_done for training in trainings},
            data_waits={id_: report.data_wait for id_, report in inputs.reports.items() if report.data_wait},
            amounts=self._starter.amounts_asked(),
            serving={
                training.id: nodes for training in trainings if (nodes := servers_on(training.submission.comment))
            },
        )
        return self._seen

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        """Trainer → its past by the ledger; single tasks, each of which begins once, have none."""
        return self._ledger.past_of(trainers, self._seen.snapshot.time_s)

    def act(self, action: Action, decision: str | None) -> None:
        """Carry out one action.

        Raises:
            SlurmUnreachableError: no answer; the next look finds out what became of it.
        """
        match action:
            case Release():
                self._release(action, decision)
            case TidySubmission():
                self._housekeeping.look_after(self._entry(action.trainer), self._seen.snapshot)
            case Limit():
                self._limit(action)
            case PlaceServers():
                now_s = self._seen.snapshot.time_s
                self._housekeeping.tell_servers(self._entry(action.trainer), action.nodes, now_s, decision)
            case Lend():
                self._starter.lend(self._entry(action.trainer), action, self._seen.snapshot, decision)
            case _:
                assert_never(action)

    def _entry(self, trainer: str) -> Training:
        request = self._seen.request.get(trainer)
        return self.registered.training[request.submission_id if request else trainer]

    def _as_lent(self, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
        trainings = self.registered.trainings
        split = {training.id for training in trainings if strategy_of(training.tag).tasks_compete}
        return tuple(
            replace(fragment, trainer=fragment.job) if fragment.trainer in split else fragment
            for fragment in fragments
        )

    def _on(self, places: Collection[str]) -> list[Fragment]:
        return [fragment for fragment in self.books.open if fragment.node in places or fragment.place in places]

    def _release(self, action: Release, decision: str | None) -> None:
        there = [lent for lent in self._on(action.nodes) if action.trainer in (None, lent.trainer, lent.job)]
        # Slurm ends all of a job, on whichever of its nodes.
        jobs = set(jobs_of(there))
        fragments = [fragment for fragment in self.books.open if fragment.job in jobs]
        if action.trainer is None:
            why = f"give {', '.join(action.nodes)} back: {action.why}"
        else:
            because = f": {action.why}" if action.why else ""
            why = f"take {len(action.nodes)} nodes from {action.trainer}{because}"
        for order in self._launcher.stop(fragments, why):
            self._executor.carry_out(order, decision)
        if self._executor.acts:
            self.books.note_leaving(fragments)

    def _limit(self, action: Limit) -> None:
        fragments = [fragment for fragment in self._on(action.nodes) if fragment.goes_on]
        jobs = jobs_of(fragments)
        order = Order(commands.set_limit(action.limit_s, *jobs), f"fit {len(jobs)} fragments to their holes")
        if self._executor.carry_out(order) is not None:
            self.books.save([replace(fragment, limit_s=action.limit_s) for fragment in fragments])


class FragmentStarter:
    """Lends nodes to trainers: ties tasks of theirs to places, and lets them start."""

    def __init__(self, launcher: Launcher, executor: Executor, books: Fragments) -> None:
        self._launcher = launcher
        self._executor = executor
        self._books = books
        self._amounts: dict[str, Amount] = {}

    def amounts_asked(self) -> Mapping[str, Amount]:
        """Job that has still to start → how much of its node it is given, where that is not what it asks for."""
        asked = {fragment.job for fragment in self._books.open if fragment.state is FragmentState.ASKED}
        self._amounts = {job: amount for job, amount in self._amounts.items() if job in asked}
        return dict(self._amounts)

    def lend(self, training: Training, action: Lend, snapshot: Snapshot, decision: str | None) -> None:
        """Lend these places to a trainer, or to the filler of which it is a task."""
        nodes, names = snapshot.node, [node_of(name) for name in action.nodes]
        task = action.trainer if strategy_of(training.tag).tasks_compete else ""
        wanted = self._launcher.lend(training.submission, names, action.limits_s, snapshot.time_s, task)
        amounts = [self._given(training, nodes[node_of(name)], action.amounts.get(name)) for name in action.nodes]
        if not self._executor.acts:
            orders = [self._order_of(training, own, amount, nodes) for own, amount in _by_job(wanted, amounts)]
            for order in (*orders, *self._launcher.start(wanted)):
                self._executor.carry_out(order, decision)
            return
        # Written down before Slurm hears of it: whatever happens then, the next look finds out what became of
        # them. There may be fewer tasks than places.
        fragments = self._books.save(
            replace(_with_parts(fragment, training, nodes[fragment.node], amount), decision=decision)
            for fragment, amount in zip(wanted, amounts, strict=False)
        )
        placed = [
            fragment
            for own, amount in _by_job(fragments, amounts)
            if self._place(self._order_of(training, own, amount, nodes), own, amount, decision)
            for fragment in own
        ]
        for order in self._launcher.start(placed):
            self._executor.carry_out(order, decision)

    def _given(self, training: Training, node: Node, amount: Amount | None) -> Amount | None:
        """Amount of the node that the launcher can give to a task; None: what the task asks for."""
        if amount is None:
            return None
        asked = training.submission.needs.amount_on(node)
        given = self._launcher.gives(training.submission, amount, asked)
        return None if given == asked else given

    def _place(self, order: Order, own: Sequence[Fragment], amount: Amount | None, decision: str | None) -> bool:
        """Tie a job to its node, or nodes; where Slurm refuses, it is called off."""
        printed = self._executor.carry_out(order, decision)
        if printed is None:
            self._books.call_off(own)
            return False
        placed = [self._launcher.placed(fragment, printed) for fragment in own]
        if amount is not None:
            self._amounts[placed[0].job] = amount
        if placed != own:
            self._books.save(placed)
        return True

    def _order_of(
        self, training: Training, own: Sequence[Fragment], amount: Amount | None, nodes: Mapping[str, Node]
    ) -> Order:
        return self._launcher.place(training.submission, own[0], [nodes[lent.node] for lent in own], amount)


def _with_parts(fragment: Fragment, training: Training, node: Node, amount: Amount | None) -> Fragment:
    """The fragment with how much of its node it has: all that it is given, or what its task asks for."""
    given = amount or training.submission.needs.amount_on(node)
    share = given.part_of(node.total)
    return replace(fragment, share=share, parts=given.parts_of(node.total) if share < 1.0 else ())


def _by_job(
    fragments: Sequence[Fragment], amounts: Sequence[Amount | None]
) -> list[tuple[list[Fragment], Amount | None]]:
    """The fragments of each job, and how much of its node it is given; there may be more amounts."""
    jobs: dict[str, tuple[list[Fragment], Amount | None]] = {}
    for fragment, amount in zip(fragments, amounts, strict=False):
        jobs.setdefault(fragment.job, ([], amount))[0].append(fragment)
    return list(jobs.values())


_REMEMBERED_HALF_LIVES = 10
# Hourly with the default half-life of a week: counted at each look, shares would flicker.
_COUNTS_PER_HALF_LIFE = 168


class LentHours:
    """Node-hours that each user's trainers were lent, faded."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._hours: dict[str, float] = {}
        self._counted_s = -float("inf")
        self._half_life_s = 0.0

    def hours(self, now_s: float, half_life_s: float) -> Mapping[str, float]:
        """User → node-hours by now, as counted last; they fade to one half in ``half_life_s``."""
        if half_life_s != self._half_life_s:
            self._hours, self._half_life_s, self._counted_s = {}, half_life_s, -float("inf")
        if now_s - self._counted_s < half_life_s / _COUNTS_PER_HALF_LIFE:
            return self._hours
        since_s = max(self._counted_s, now_s - _REMEMBERED_HALF_LIVES * half_life_s)
        fade = 0.5 ** ((now_s - since_s) / half_life_s)
        hours = defaultdict(float, {user: had_hours * fade for user, had_hours in self._hours.items()})
        # At first days that are summed up spare reading months of fragments.
        for day in self._ledger.days.between(since_s, now_s) if self._counted_s == -float("inf") else ():
            middle_s = (day.day_s + day.until_s) / 2
            hours[day.owner] += day.lent.lent_s / 3600 * 0.5 ** ((now_s - middle_s) / half_life_s)
            since_s = max(since_s, day.until_s)
        for user, started_s, ended_s, share in self._ledger.lent_spans(since_s):
            until_s = now_s if ended_s is None else min(ended_s, now_s)
            hours[user] += share * faded_hours(max(started_s, since_s), until_s, now_s, half_life_s)
        self._hours, self._counted_s = dict(hours), now_s
        return self._hours
