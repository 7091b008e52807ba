"""The lender: the lending loop on Slurm, with all that a daemon keeps and publishes of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path

from freetrain.config import Config
from freetrain.core.decision import Decision
from freetrain.core.fragment import End, FragmentState
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.admission.admission import SiteGuard
from freetrain.daemon.controls.site_orders import OrdersReader
from freetrain.daemon.executor import Executor, Mode
from freetrain.daemon.live_cluster import NO_SNAPSHOT, LiveCluster, LookInputs
from freetrain.daemon.log_output import Problems
from freetrain.daemon.reports.look_log import Rejects, tell_back_off, tell_findings, tell_unusable
from freetrain.daemon.reports.look_status import status_of
from freetrain.daemon.reports.status import LookStatus
from freetrain.daemon.rules import roster_rules_of, rules_of
from freetrain.daemon.second_opinions import SecondOpinions
from freetrain.daemon.setup import launcher_of, switches_of
from freetrain.daemon.trainers.progress_reader import ProgressFiles, ProgressReader
from freetrain.daemon.trainers.training import Training
from freetrain.lending.back_off import LostNode, LostNodes
from freetrain.lending.facts import Facts
from freetrain.lending.judge import Judgement
from freetrain.lending.memory import Memory
from freetrain.lending.meter import IN_THE_WAY_S, Meter
from freetrain.lending.stays import Stays
from freetrain.loop.cycle import Goal
from freetrain.loop.lending_loop import LendingLoop
from freetrain.policies import UNKNOWN_LINKS, Links, Placer, Policy, find_finisher, find_placer, find_policy
from freetrain.slurm.errors import SlurmError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.settings import SlurmSettings
from freetrain.slurm.site.limits import shares_limit
from freetrain.slurm.site.preemption import exempt_s, leaving_bound_s
from freetrain.store.journal import RunJournal
from freetrain.store.ledger import Ledger

_HOUR_S = 3600.0


class Calls:
    """Calls of the last hour, by readings of a counter that only grows."""

    def __init__(self, begun_s: float) -> None:
        self._seen = deque([(begun_s, 0)])

    def lately(self, total: int, now_s: float) -> int:
        """Number of calls in the hour before now, of ``total`` in all."""
        self._seen.append((now_s, total))
        while len(self._seen) > 1 and self._seen[1][0] <= now_s - _HOUR_S:
            self._seen.popleft()
        return total - self._seen[0][1]


# With many decisions each would have too little time for anything but to change nothing.
_LEAST_TIME_LIMIT_S = 0.05
# So much of what was learned of the nodes' stays may be lost at a crash; each time is a write to the disk.
_KEEP_STAYS_S = 600.0


class Lender:
    """Lends as the configuration says, and writes down what it decided and did."""

    def __init__(
        self, config: Config, gateway: Gateway, settings: SlurmSettings, ledger: Ledger, journal: RunJournal,
        guard: SiteGuard, clock_s: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._clock_s = clock_s
        self._calls = Calls(clock_s())
        self._config = config
        self._settings = settings
        self._gateway = gateway
        self._ledger = ledger
        self._guard = guard
        self._progress = ProgressReader()
        self._rejects = Rejects()
        self._problems = Problems()
        self._orders = OrdersReader()
        self.second_opinions = SecondOpinions(journal, Path(config.state.directory) / "second-opinions")
        self.second_opinions.one_in = config.decide.second_opinion
        self._executor = Executor(gateway, ledger, Mode(config.lend.mode), clock_s)
        self._launcher = launcher_of(config, gateway)
        self._stays_kept_s = -float("inf")
        self._remember()
        self._links = UNKNOWN_LINKS
        self.last_plan_s: float | None = None

    def _remember(self) -> None:
        """Begin with what the ledger says, as a daemon does that starts.

        Harm of all kinds counts as long as new harm, and what was learned goes on.
        """
        rules, ledger, now_s = rules_of(self._config, self._settings), self._ledger, self._clock_s()
        stays, since_s = ledger.stays(self._config.slurm.partition), now_s - rules.harm.remembered_s
        ended = (fragment for fragment in ledger.fragments(now_s - IN_THE_WAY_S) if fragment.ended_s is not None)
        before = Memory(
            meter=Meter(ended=tuple(ended), harms=tuple(ledger.harms(since_s))),
            lost=LostNodes(tuple(LostNode(*node) for node in ledger.lost_nodes())),
            stays=Stays(*stays) if stays else Stays(),
            evicted_s=tuple(ledger.evictions(since_s)),
        )
        self._lost = before.lost.all
        self._cluster = LiveCluster(self._gateway, self._launcher, self._executor, self._ledger, self._inputs)
        self._loop = LendingLoop(self._cluster, rules, self.second_opinions, time.perf_counter, self._note, before)
        self._placer: Placer | None = None
        self._is_in_doubt = False

    def look(self, time_limit_s: float) -> list[Decision]:
        """Look, decide and act; the solver may take ``time_limit_s`` for all decisions together.

        Raises:
            SlurmError: Slurm did not answer; what was not done is left for the next look.
            StateError, OSError, MemoryError: this machine lacks something, as room on its disk. The next look
                begins with what the ledger says, for what is in memory may differ from it by then.
        """
        if self._is_in_doubt:
            self._remember()
        try:
            return self._look(time_limit_s)
        except SlurmError:
            raise
        except BaseException:
            # Books in memory may differ from the ledger by now, as where a write has failed half-way.
            self._is_in_doubt = True
            raise

    def _look(self, time_limit_s: float) -> list[Decision]:
        decide, links = self._config.decide, self._config.links

        def policy_for(decisions: int) -> Policy:
            each_s = max(time_limit_s / decisions, _LEAST_TIME_LIMIT_S)
            return find_policy(decide.policy_with_options, decide.solver, each_s)

        if self._placer is None:
            topology, rules = switches_of(self._config, self._gateway), self._loop.rules
            self._loop.rules = replace(rules, sharing=replace(rules.sharing, topology=topology))
            self._placer = find_placer(decide.place, topology)
            self._links = Links.of_gbit(links.node_gbit, links.uplink_gbit, topology)
        finisher = find_finisher(decide.finish)
        look = self._loop.look(Goal(policy_for, decide.objective, self._placer, finisher, self._links))
        self._orders.note_heeded(self._config.state)
        tell_unusable(look.decisions, self._problems)
        return list(look.decisions)

    def ask_last_plan(self) -> float | None:
        """Ask when Slurm last planned the waiting jobs, UTC epoch seconds; None: it does not say."""
        try:
            self.last_plan_s = self._gateway.last_plan_s()
        except SlurmError:
            self.last_plan_s = None
        return self.last_plan_s

    @property
    def owners(self) -> frozenset[str]:
        """Users whose trainers the last look showed."""
        return frozenset(training.trainer.owner for training in self.trainings)

    @property
    def trainings(self) -> tuple[Training, ...]:
        """The trainers that the last look showed."""
        return self._cluster.registered.trainings

    @property
    def end_counts(self) -> Mapping[End, int]:
        """Way to end → number of fragments that ever ended so."""
        return self._cluster.books.end_counts

    @property
    def judgement(self) -> Judgement | None:
        """Judgement on the last look; None: there was none."""
        return self._loop.last.judgement if self._loop.last else None

    def read_progress(self) -> bool:
        """Read the trainers' progress, and return whether a training has been completed since the last time."""
        return self._progress.read()

    def change(self, config: Config) -> None:
        """Lend as these settings say from now on.

        Raises:
            ConfigError: they cannot be followed; nothing has changed then.
        """
        # First, because it may raise, and nothing has changed then.
        self._loop.rules = rules_of(config, self._settings)
        self._loop.forget_blocked()
        self._executor.mode = Mode(config.lend.mode)
        self.second_opinions.one_in = config.decide.second_opinion
        self._config = config
        self._placer = None

    def last_look(self, took_s: float) -> LookStatus:
        """Status of the last look, which took ``took_s`` seconds."""
        assert self._loop.last is not None
        registered, books = self._cluster.registered, self._cluster.books
        trainers = {training.id: training.trainer for training in registered.trainings}
        verdicts = self._loop.last.verdicts(trainers, registered.waits_for)
        look = status_of(self._loop.last.judgement, registered.trainings, verdicts, books.open, took_s)
        return replace(look, calls=self._calls.lately(self._gateway.calls, self._clock_s()))

    def summary(self) -> str:
        """Line on the nodes that are lent after the last look."""
        fragments = self._cluster.books.open
        running = [fragment for fragment in fragments if fragment.state is FragmentState.RUNNING]
        asked = sum(fragment.state is FragmentState.ASKED for fragment in fragments)
        offered = len(self.judgement.offers.offered) if self.judgement else 0
        trainers = len({fragment.trainer for fragment in running})
        return f"{len(running)} of {offered} nodes lent to {trainers} trainers, {asked} asked for"

    def _inputs(self) -> LookInputs:
        orders = self._orders.read(self._config.state, self._clock_s())
        owners = frozenset((training.trainer.owner, training.submission.account) for training in self.trainings)
        unsafe, queue = self._guard.why_not(self._config, owners), self._config.slurm.queue
        if self._guard.has_changed():
            self._loop.forget_blocked()
        facts = Facts(
            NO_SNAPSHOT,
            orders=replace(orders, stopped=orders.stopped or unsafe),
            last_plan_s=self.last_plan_s,
            exempt_s=exempt_s(self._guard.site, queue),
            leaving_bound_s=leaving_bound_s(self._guard.site, queue),
            shares_limit=partial(shares_limit, self._guard.site),
        )
        roster_rules = roster_rules_of(self._config, self._settings, self._launcher)
        return LookInputs(roster_rules, self._config.lend.half_life, facts, self._progress.reports())

    def _note(self, judgement: Judgement) -> None:
        snapshot, memory = judgement.facts.snapshot, judgement.memory
        self._rejects.tell(snapshot.rejected)
        tell_findings(memory)
        tell_back_off(judgement.back_off, self._problems, self._ledger, snapshot.time_s)
        for harm in memory.meter.new:
            self._ledger.record_harm(harm)
        if memory.lost.all != self._lost:
            self._ledger.save_lost_nodes(astuple(node) for node in memory.lost.all)
            self._lost = memory.lost.all
        if memory.blocked.new:
            self._guard.ask_now()
        if snapshot.time_s - self._stays_kept_s >= _KEEP_STAYS_S:
            stays = memory.stays
            self._ledger.save_stays(self._config.slurm.partition, stays.idle_node_s, stays.left)
            self._stays_kept_s = snapshot.time_s
        self._follow_progress(len(self._config.slurm.queue.among(snapshot.partitions).nodes))

    def _follow_progress(self, most_nodes: int) -> None:
        self._progress.look_at(
            {
                training.id: ProgressFiles(
                    training.tag.directory, training.trainer.owner, training.trainer.progress_bytes, most_nodes
                )
                for training in self.trainings
                if training.tag is not None
                and training.tag.directory
                and training.trainer.state is not TrainerState.COMPLETE
            }
        )
